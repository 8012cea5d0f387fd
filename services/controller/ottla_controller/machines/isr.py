"""AlterPartition: a leader proposes an ISR, and the controller compares and sets (KIP-497, rules 11, 12, 22).

Each partition of a request is decided for itself, against the epochs that the leader knew. A rejection is definite: the
leader gives its proposal up. The committed ISR reaches every broker by watch. The response has it only as a help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla_controller.machines.brokers import check_registered
from ottla_controller.machines.decision import Decision
from ottla_controller.machines.partition import TopicConfigs, with_isr, write_of
from ottla_core.cluster.image import Broker, ClusterImage, Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId

UNKNOWN_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed ISR. `isr` has (broker id, broker epoch). The epoch is that of the incarnation that fetched from the
    leader (KIP-903).

    UNKNOWN_EPOCH stands for a broker that has not fetched from this leader yet.
    """

    id: PartitionId
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    recovered: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one proposal: the partition as it is now, or why it was rejected."""

    id: PartitionId
    partition: Partition | None
    error: OttlaError | None = None


def decide_alter_partition(
    image: ClusterImage, broker_id: int, broker_epoch: int, proposals: Sequence[Proposal]
) -> Decision[tuple[Verdict, ...]]:
    """Decide all proposals in one transaction. The caller sends at most MAX_WRITES.

    Raises what holds for all: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, and INVALID_REQUEST if one is named twice.
    """
    leader = check_registered(image, broker_id, broker_epoch)
    if len({p.id for p in proposals}) < len(proposals):
        raise _invalid("the request names a partition twice", "propose one ISR for each")
    verdicts, writes = [], []
    configs = TopicConfigs(image)
    for proposal in proposals:
        partition = image.partitions.get(proposal.id)
        try:
            after = _altered(image, configs, leader, proposal, partition)
        except OttlaError as error:
            verdicts.append(Verdict(proposal.id, partition, error))
            continue
        verdicts.append(Verdict(proposal.id, after))
        if after is not partition:
            writes.append(write_of(image, proposal.id, after))
    return Decision(tuple(verdicts), tuple(writes))


def _altered(
    image: ClusterImage, configs: TopicConfigs, leader: Broker, proposal: Proposal, partition: Partition | None
) -> Partition:
    if partition is None:
        raise _unknown(image, proposal.id)
    _check_epochs(leader, proposal, partition)
    isr = tuple(broker_id for broker_id, _ in proposal.isr)
    recovering = partition.recovering and not proposal.recovered
    _check_members(leader, partition, isr, recovering=recovering)
    for broker_id, epoch in proposal.isr:
        if broker_id != leader.id:
            joins = broker_id not in partition.isr
            _check_eligible(image.brokers.get(broker_id), broker_id, epoch, joins=joins)
    if set(isr) == set(partition.isr) and recovering == partition.recovering:
        return partition
    return replace(with_isr(partition, isr, configs.min_isr(proposal.id.topic_id)), recovering=recovering)


def _check_epochs(leader: Broker, proposal: Proposal, partition: Partition) -> None:
    """Check the epochs in Kafka's order (ReplicationControlManager). A leader that is ahead of this controller has seen
    a later one."""
    request, known = proposal.leader_epoch, partition.leader_epoch
    if request > known or proposal.partition_epoch > partition.partition_epoch:
        raise OttlaError(
            ErrorCode.NOT_CONTROLLER,
            f"the proposal has epochs {request}/{proposal.partition_epoch}, but this controller knows only "
            f"{known}/{partition.partition_epoch}",
            hint="send the proposal to the active controller",
        )
    if request < known:
        raise OttlaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {request} is outdated; the current one is {known}",
            hint="wait for newer metadata",
        )
    if leader.id != partition.leader:
        raise _invalid(f"broker {leader.id} does not lead the partition", f"its leader is {partition.leader}")
    if proposal.partition_epoch < partition.partition_epoch:
        raise OttlaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"partition epoch {proposal.partition_epoch} is outdated; the current one is {partition.partition_epoch}",
            hint="wait for newer metadata",
        )


def _check_members(leader: Broker, partition: Partition, isr: tuple[int, ...], *, recovering: bool) -> None:
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas):
        raise _invalid(f"{list(isr)} can't be in sync", f"the replicas are {list(partition.replicas)}")
    if leader.id not in isr:
        raise _invalid(f"the leader {leader.id} is not in its own ISR", "a leader is always in sync with itself")
    if recovering and len(isr) > 1:
        raise _invalid("the partition recovers from an unclean election", "report it as recovered first (KIP-704)")


def _check_eligible(broker: Broker | None, broker_id: int, epoch: int, *, joins: bool) -> None:
    """Check that a broker may be in the ISR. One that has restarted since it fetched may have lost what it fetched
    (KIP-903), and one that leaves or is fenced soon lags.

    The epoch of a member of the ISR may be unknown: an incarnation that may have lost records was taken out of the ISR
    before it was unfenced (rule C15).
    """
    if broker is None:
        reason = "is not registered"
    elif broker.epoch != epoch and (joins or epoch != UNKNOWN_EPOCH):
        reason = f"is registered with epoch {broker.epoch}, not {epoch}"
    elif broker.fenced:
        reason = "is fenced"
    elif broker.shutting_down:
        reason = "is shutting down"
    else:
        return
    raise OttlaError(
        ErrorCode.INELIGIBLE_REPLICA, f"broker {broker_id} {reason}", hint="propose the broker again when it is back"
    )


def _unknown(image: ClusterImage, id_: PartitionId) -> OttlaError:
    if id_.topic_id not in image.topic_names:
        return OttlaError(
            ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {id_.topic_id.hex()}", hint="the topic was deleted"
        )
    return OttlaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"the topic has no partition {id_.partition}",
        hint="wait for newer metadata",
    )


def _invalid(description: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_REQUEST, description, hint=hint)
