"""Who may commit and fetch offsets in a consumer group."""

from __future__ import annotations

from collections.abc import Iterable

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer import errors
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.consumer.member import ConsumerMember
from ottla_group_coordinator.machines.responses import illegal_generation, unknown_member

NO_EPOCH = -1


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    partitions: Iterable[tuple[TopicId, int]],
    *,
    is_anonymous: bool,
    knows_no_epochs: bool,
) -> None:
    """Raise unless the member may commit in these partitions.

    A commit in an older epoch is accepted if the member has had the partitions since then (KIP-1251): the member may
    have taken its next step while the commit was on its way. A member may still commit partitions that it has to give
    up. `is_anonymous` says that the commit is in a transaction and names no member.
    """
    if is_anonymous or (epoch < 0 and not group.members):
        return
    member = _member(group, member_id)
    if knows_no_epochs and not member.is_classic:
        raise OttlaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"member {member_id!r} uses the consumer protocol, but the version of its commit has no member epochs",
            hint="use version 9 or later of OffsetCommit",
        )
    if epoch == member.epoch:
        return
    if member.is_classic or epoch > member.epoch:
        raise _wrong_epoch(group, member, epoch)
    for topic_id, number in partitions:
        since = _assigned_at(member, topic_id, number)
        if since is None or since > epoch:
            raise _wrong_epoch(group, member, epoch)


def check_fetch(group: ConsumerGroup, member_id: str, epoch: int) -> None:
    """Raise if the caller names a member that does not exist, or an epoch that is not the member's."""
    if not member_id and epoch < 0:
        return
    member = _member(group, member_id)
    if epoch != member.epoch:
        raise _wrong_epoch(group, member, epoch)


def _assigned_at(member: ConsumerMember, topic_id: TopicId, number: int) -> int | None:
    for partitions in (member.current.assigned, member.current.revoking):
        if (epoch := partitions.get(topic_id, {}).get(number)) is not None:
            return epoch
    return None


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group.group_id, member_id)
    return member


def _wrong_epoch(group: ConsumerGroup, member: ConsumerMember, epoch: int) -> OttlaError:
    if member.is_classic:
        return illegal_generation(group.group_id, epoch, member.epoch)
    return errors.stale_epoch(group.group_id, member.member_id, epoch, member.epoch)
