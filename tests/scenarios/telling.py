"""What is told of brokers and of the cluster: the table of `show`, and what a command has changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.scenarios.node import Node, State
from tests.scenarios.world import World, listed

from ottla_broker.machines.partition import IsrProposal
from ottla_core.cluster.image import Broker, Partition
from ottla_core.model import NO_LEADER


@dataclass(frozen=True, slots=True)
class Seen:
    """One running or stopped broker, at one moment."""

    leads: bool
    leader: int | None
    epoch: int
    epoch_start: int
    isr: tuple[int, ...]
    proposal: IsrProposal | None
    high_watermark: int
    end: int


def seen(node: Node) -> Seen | None:
    if node.state is State.DOWN:
        return None
    replica = node.replica
    leader = None if replica.leading is None else replica.leading.leader
    return Seen(
        replica.leads,
        replica.leader_id,
        replica.leader_epoch,
        leader.epoch_start_offset if leader else -1,
        leader.isr if leader else (),
        node.proposal,
        replica.offsets.high_watermark,
        replica.log.log_end_offset,
    )


def role(now: Seen) -> str:
    if now.leads:
        return f"leads epoch {now.epoch}, which begins at {now.epoch_start}"
    return f"follows {listed([now.leader] if now.leader is not None else [])} in epoch {now.epoch}"


def changes(name: int, was: Seen | None, now: Seen | None) -> Iterator[str]:
    """What a command has changed of a broker that was there before it and is after it."""
    if was is None or now is None:
        return
    if (was.leads, was.leader, was.epoch) != (now.leads, now.leader, now.epoch):
        yield f"{name} {role(now)}"
    elif was.isr != now.isr:
        yield f"{name} has the ISR {listed(now.isr)}"
    if now.end < was.end:
        yield f"{name} cuts its log from {was.end} to {now.end}"
    if now.high_watermark != was.high_watermark:
        yield f"{name} has the high watermark {now.high_watermark}"
    if now.proposal is not None and now.proposal != was.proposal:
        recovered = ", recovered" if now.proposal.recovered else ""
        yield f"{name} proposes the ISR {listed(now.proposal.isr)}{recovered}"
    elif was.proposal is not None and now.proposal is None and was.isr == now.isr and now.leads:
        yield f"{name} takes its proposal back"


def partition_line(partition: Partition) -> str:
    leader = "nobody" if partition.leader == NO_LEADER else str(partition.leader)
    elr = f"ELR {listed(partition.elr)}, " if partition.elr else ""
    last_known = f"last known {listed(partition.last_known_elr)}, " if partition.last_known_elr else ""
    recovering = ", recovering" if partition.recovering else ""
    return (
        f"the partition: leader {leader}, leader epoch {partition.leader_epoch}, ISR {listed(partition.isr)}, "
        f"{elr}{last_known}partition epoch {partition.partition_epoch}{recovering}"
    )


def table(world: World) -> list[str]:
    """Every broker as it is, and the cluster as the controller has it. In a log `|` is the high watermark."""
    rows: list[tuple[str, ...]] = [("broker", "", "epoch", "ISR", "HW", "LEO", "log")]
    rows += [_row(world, node) for node in world.nodes.values()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    brokers = " ".join(_registered(broker) for broker in world.controller.image.brokers.values()) or "nobody"
    return [*lines, partition_line(world.controller.partition), f"the brokers: {brokers}"]


def _row(world: World, node: Node) -> tuple[str, ...]:
    now = seen(node)
    if now is None:
        return (str(node.id), "down", "", "", "", "", "")
    what = "leader" if now.leads else "follower" if now.leader is not None else "no leader"
    if node.state is State.STOPPED:
        what += ", stopped"
    isr = listed(now.isr) if now.leads else ""
    if now.proposal is not None:
        isr += f" → {listed(now.proposal.isr)}"
    log = world.replica_records(node)
    committed = [str(record) for record in log if record.offset < now.high_watermark]
    others = [str(record) for record in log if record.offset >= now.high_watermark]
    text = " ".join([*committed, "|", *others])
    return (str(node.id), what, str(now.epoch), isr, str(now.high_watermark), str(now.end), text)


def _registered(broker: Broker) -> str:
    """Id and broker epoch, and what is the matter."""
    marks = [word for word in ("fenced", "unclean", "shutting_down") if getattr(broker, word)]
    return f"{broker.id}@{broker.epoch}" + (f"({','.join(marks)})" if marks else "")


def differences(world: World) -> Iterator[str]:
    """Replicas that differ below both their high watermarks. There must never be any."""
    logs = {n.id: (n.replica.offsets.high_watermark, world.replica_records(n)) for n in world.nodes.values() if seen(n)}
    for one, (one_mark, one_log) in logs.items():
        for other, (other_mark, other_log) in logs.items():
            end = min(one_mark, other_mark)
            if one < other and _below(one_log, end) != _below(other_log, end):
                yield f"{one} and {other} DIFFER below their high watermarks"


def _below(log: Sequence[object], end: int) -> list[str]:
    return [str(record) for record in log[:end]]
