"""The controller assigns each shard to one of the coordinators that are registered, as a level-triggered reconcile.

It looks at how the shards are and writes what is missing. It remembers nothing from event to event, so whatever was
missed, half done, or done by another controller is found by the next look. The rules:

1. Shards exist for every kind whose topic exists: one for each of its partitions.
2. A shard stays with its owner as long as that is registered in the incarnation that was given the shard. A coordinator
   that has started again is another one: what its former incarnation has sent may still be on its way.
3. The live coordinators of a kind own as many shards each, give or take one. As few as possible move for that, because
   each move costs a load.
4. Every change of an owner, or of its incarnation, gives the shard a higher epoch (I20). Owners never make one up. The
   epoch is what shuts out every earlier owner, and two owners with one epoch would not shut out each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ottla_controller.machines.decision import MAX_WRITES, Decision, ReliedOn, Write
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage, Coordinator, Shard
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import SHARD_TOPICS, PartitionId

_NEVER_OWNED: Final = Shard()


@dataclass(frozen=True, slots=True)
class ShardAssignment:
    """One shard's change of owner."""

    kind: str
    number: int
    before: Shard
    after: Shard


def unassigned_kinds(image: ClusterImage) -> list[str]:
    """Return the kinds whose shards are not owned as they should be."""
    return [kind for kind in SHARD_TOPICS if _plan(image, kind)]


def decide_shards(image: ClusterImage, kind: str) -> Decision[tuple[ShardAssignment, ...]]:
    """Assign the shards of one kind to those that should own them. At most MAX_WRITES move at once, and the next look
    finds the rest."""
    planned = list(_plan(image, kind).items())[:MAX_WRITES]
    assignments = tuple(_assignment(image, kind, number, owner) for number, owner in planned)
    writes = (_write_of(image, g, owner) for g, (_, owner) in zip(assignments, planned, strict=True))
    return Decision(assignments, tuple(writes))


def decide_release_shard(
    image: ClusterImage, kind: str, number: int, shard_epoch: int, instance_id: int, instance_epoch: int
) -> Decision[Shard]:
    """Give a higher epoch to an owner that has dropped the shard's state and has to load it again.

    If the caller no longer owns the shard in that epoch, it stays as it is: it was assigned again already, and this may
    be a repeated call. Raises INVALID_REQUEST for a shard that does not exist, and BROKER_ID_NOT_REGISTERED and
    STALE_BROKER_EPOCH for the caller.
    """
    owner = check_coordinator(image, kind, instance_id, instance_epoch)
    shard = image.shards.get((kind, number))
    if shard is None:
        raise OttlaError(ErrorCode.INVALID_REQUEST, f"there is no shard {number} of kind {kind[:40]!r}")
    if (shard.owner, shard.incarnation, shard.epoch) != (instance_id, instance_epoch, shard_epoch):
        return Decision(shard)
    assignment = _assignment(image, kind, number, owner)
    return Decision(assignment.after, (_write_of(image, assignment, owner),))


def fence_after_loss(image: ClusterImage, id_: PartitionId) -> tuple[Write, ...]:
    """Return what an unclean election of the partition writes beside the partition: the shard's next epoch.

    The log may have lost the newest fence, and with it the record of which owners were fenced (rule 19: an unclean
    election forces coordinators to reload).
    """
    topic = image.topic_by_id(id_.topic_id)
    kind = next((kind for kind, name in SHARD_TOPICS.items() if topic is not None and topic.name == name), "")
    shard = image.shards.get((kind, id_.partition))
    if shard is None:
        return ()
    key = keys.shard(kind, id_.partition)
    after = replace(shard, epoch=shard.epoch + 1)
    return (Write(Change(key, after), (ReliedOn(key, mod_revision=shard.mod_revision),)),)


def check_coordinator(image: ClusterImage, kind: str, instance_id: int, epoch: int) -> Coordinator:
    """Return the registration of the incarnation that calls. Raises BROKER_ID_NOT_REGISTERED and STALE_BROKER_EPOCH."""
    known = image.coordinators.get((kind, instance_id))
    if known is None:
        raise OttlaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"coordinator {instance_id} of kind {kind[:40]!r} is not registered",
            hint="register first",
        )
    if known.epoch != epoch:
        raise OttlaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"{kind} coordinator {instance_id} is registered with epoch {known.epoch}, not {epoch}",
            hint="another process has registered with this id, or the caller has to register again",
        )
    return known


def coordinator_seen(coordinator: Coordinator) -> ReliedOn:
    """Return the condition that this incarnation is still registered."""
    return ReliedOn(keys.coordinator(coordinator.kind, coordinator.id), create_revision=coordinator.epoch)


def decide_remove_dead_coordinator(image: ClusterImage, kind: str, instance_id: int, epoch: int) -> Decision[bool]:
    """Remove the registration of a process that is proven dead, before its lease does. The response says whether it was
    there."""
    known = image.coordinators.get((kind, instance_id))
    if known is None or known.epoch != epoch:
        return Decision(False)
    return Decision(True, (Write(Change(keys.coordinator(kind, instance_id), None), (coordinator_seen(known),)),))


def _plan(image: ClusterImage, kind: str) -> dict[int, Coordinator]:
    """Return the shards that are to have another owner, by number, and the new owner of each."""
    topic = image.topics.get(SHARD_TOPICS[kind])
    live = {c.id: c for (of_kind, _), c in image.coordinators.items() if of_kind == kind}
    if topic is None or not live:
        return {}
    owned: dict[int, list[int]] = {instance_id: [] for instance_id in sorted(live)}
    moving: list[int] = []
    for number in range(topic.partition_count):
        owner = image.owner_of(kind, number)
        (moving if owner is None else owned[owner.id]).append(number)
    for instance_id, quota in _quotas(owned, topic.partition_count).items():
        # A coordinator gives up its highest numbers. The choice is the same in every look, so two looks never move
        # different shards.
        moving += owned[instance_id][quota:]
        del owned[instance_id][quota:]
    plan = {}
    for number in sorted(moving):
        fewest = min(owned, key=lambda instance_id: (len(owned[instance_id]), instance_id))
        owned[fewest].append(number)
        plan[number] = live[fewest]
    return plan


def _quotas(owned: Mapping[int, list[int]], count: int) -> dict[int, int]:
    """Return the most shards that each coordinator may keep.

    If they can't all have as many, those with the most keep one more: so no shard moves for the sake of the remainder.
    """
    least, more = divmod(count, len(owned))
    by_size = sorted(owned, key=lambda instance_id: -len(owned[instance_id]))
    return {instance_id: least + (position < more) for position, instance_id in enumerate(by_size)}


def _assignment(image: ClusterImage, kind: str, number: int, owner: Coordinator) -> ShardAssignment:
    before = image.shards.get((kind, number), _NEVER_OWNED)
    return ShardAssignment(kind, number, before, Shard(owner.id, owner.epoch, before.epoch + 1))


def _write_of(image: ClusterImage, assignment: ShardAssignment, owner: Coordinator) -> Write:
    key = keys.shard(assignment.kind, assignment.number)
    # The shard must be as it was seen, or an epoch would be given twice (I20). The owner must be registered, or the
    # shard would go to a process that is gone.
    seen = ReliedOn(key, mod_revision=assignment.before.mod_revision)
    return Write(Change(key, assignment.after), (seen, coordinator_seen(owner)))
