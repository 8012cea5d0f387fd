"""Whether a cluster is healthy, and what to do if it is not. Pure: from what the cluster reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla_core.plural import counted

if TYPE_CHECKING:
    from ottla.admin.admin import ClusterInfo
    from ottla_cli.partition_status import PartitionStatus
    from ottla_core.model import TopicPartition


class Problem(NamedTuple):
    """What is wrong, and one sentence on what to do."""

    what: str
    hint: str


class Uncleanable(NamedTuple):
    """A broker's log of a compacted topic that it can't compact."""

    broker: int
    partition: TopicPartition
    reason: str


@dataclass(frozen=True, slots=True)
class Health:
    """One look at a cluster. `away` are brokers that hold replicas and are not registered."""

    info: ClusterInfo
    partitions: Sequence[PartitionStatus]
    uncleanable: Sequence[Uncleanable] = ()
    late_transactions: Sequence[TopicPartition] = ()

    @property
    def live(self) -> list[int]:
        return [broker.id for broker in self.info.brokers if not broker.fenced]

    @property
    def fenced(self) -> list[int]:
        return [broker.id for broker in self.info.brokers if broker.fenced]

    @property
    def read_only(self) -> list[int]:
        return [broker.id for broker in self.info.brokers if broker.read_only]

    @property
    def away(self) -> list[int]:
        registered = {broker.id for broker in self.info.brokers}
        return sorted({b for status in self.partitions for b in status.info.replicas} - registered)

    @property
    def without_leader(self) -> int:
        return sum(status.info.is_leaderless for status in self.partitions)

    @property
    def to_recover(self) -> int:
        """Partitions whose leader has to be chosen by their logs, after unclean stops or a restored store."""
        return sum(not (s.info.isr or s.info.elr) for s in self.partitions)

    @property
    def eligible_only(self) -> int:
        """Partitions with replicas that are eligible outside the ISR, which is below min.insync.replicas (KIP-966)."""
        return sum(bool(status.info.elr) for status in self.partitions)

    @property
    def under_replicated(self) -> int:
        return sum(status.info.is_under_replicated for status in self.partitions)

    @property
    def under_min_isr(self) -> int | None:
        """None if min.insync.replicas matters and is not known."""
        under = [status.is_under_min_isr for status in self.partitions]
        return None if None in under else sum(map(bool, under))

    @property
    def problems(self) -> list[Problem]:
        """Causes come first: most other problems go away with them."""
        return [*self._broken_services(), *self._broken_partitions()]

    def _broken_services(self) -> list[Problem]:
        found = []
        if not self.info.controller_address:
            hint = (
                "start a controller, or check in its log whether it can reach etcd; until then, no leaders are elected"
            )
            found.append(Problem("no active controller", hint))
        if not self.live:
            found.append(Problem("no broker is live", "start the brokers, or check their logs for the cause"))
        if self.away:
            hint = f"restart {'it' if len(self.away) == 1 else 'each'} with its original data"
            found.append(Problem(f"away: {_brokers(self.away)}", hint))
        if self.fenced:
            hint = "a fenced broker is starting or stopping; if it stays fenced, check its log for the cause"
            found.append(Problem(f"fenced: {_brokers(self.fenced)}", hint))
        if self.read_only:
            hint = (
                "free space there, or shorten retention; appends then resume automatically, "
                "and until then, other brokers lead the partitions if possible"
            )
            found.append(Problem(f"full disk: {_brokers(self.read_only)}", hint))
        return found

    def _broken_partitions(self) -> list[Problem]:
        found = []
        if self.without_leader:
            problem = f"{counted(self.without_leader, 'partition')} without a leader: neither writable nor readable"
            hint = "start a broker in their ISR or ELR; `ottla partition ls --offline` shows these brokers"
            found.append(Problem(problem, hint))
        if self.to_recover:
            problem = (
                f"{counted(self.to_recover, 'partition')} where no replica is known to have every acknowledged record"
            )
            hint = (
                "start all brokers in their last known ELR with their original data; if one is permanently lost, "
                "`ottla partition elect --unclean` elects one of the others, with the records that it has"
            )
            found.append(Problem(problem, hint))
        if self.under_min_isr:
            problem = f"{counted(self.under_min_isr, 'partition')} under min.insync.replicas: writes with acks=all fail"
            found.append(Problem(problem, "start the missing brokers; see `ottla partition ls --under-min-isr`"))
        if self.under_replicated:
            problem = f"{counted(self.under_replicated, 'partition')} under-replicated"
            hint = "replicas of live brokers catch up automatically; see `ottla partition ls --under-replicated`"
            found.append(Problem(problem, hint))
        if self.uncleanable:
            first = self.uncleanable[0]
            problem = f"{counted(len(self.uncleanable), 'log')} that can't be compacted"
            hint = f"{first.partition.topic}-{first.partition.partition} on broker {first.broker}: {first.reason}"
            found.append(Problem(problem, hint))
        if self.late_transactions:
            topic, partition = self.late_transactions[0]
            late = counted(len(self.late_transactions), "partition")
            problem = f"{late} with a transaction that should have ended long ago"
            see = f"see `ottla txn explain {topic} {partition}` and `ottla txn hanging`"
            hint = f"readers of committed records wait: {see}"
            found.append(Problem(problem, hint))
        return found

    def item(self) -> dict[str, Any]:
        info = self.info
        return {
            "cluster_id": info.cluster_id,
            "healthy": not self.problems,
            "controller": {
                "id": info.controller_id,
                "address": info.controller_address,
                "epoch": info.controller_epoch,
            },
            "brokers": {"live": self.live, "fenced": self.fenced, "away": self.away, "read_only": self.read_only},
            "partitions": {
                "total": len(self.partitions),
                "without_leader": self.without_leader,
                "under_replicated": self.under_replicated,
                "under_min_isr": self.under_min_isr,
                "with_elr": self.eligible_only,
                "to_recover": self.to_recover,
                "uncleanable": len(self.uncleanable),
                "late_transactions": len(self.late_transactions),
            },
            "problems": [problem._asdict() for problem in self.problems],
        }

    def as_text(self) -> list[str]:
        info = self.info
        controller = f"{info.controller_id} at {info.controller_address}" if info.controller_address else "none"
        brokers = [f"{len(self.live)} live", *(f"{len(ids)} {word}" for word, ids in self._absent() if ids)]
        return [
            f"cluster {info.cluster_id} is {'not healthy' if self.problems else 'healthy'}",
            f"  controller  {controller}",
            f"  brokers     {', '.join(brokers)}",
            f"  partitions  {self._partitions_text()}",
            *(f"{problem.what}; {problem.hint}" for problem in self.problems),
        ]

    def _absent(self) -> list[tuple[str, list[int]]]:
        return [("fenced", self.fenced), ("away", self.away), ("read-only", self.read_only)]

    def _partitions_text(self) -> str:
        unknown = "an unknown number" if self.under_min_isr is None else self.under_min_isr
        counts = (
            (self.without_leader, "without a leader"),
            (self.under_replicated, "under-replicated"),
            (unknown, "under min ISR"),
        )
        parts = [f"{number} {label}" for number, label in counts if number]
        return f"{len(self.partitions):,}, {', '.join(parts) or 'all with a leader and in sync'}"


def _brokers(ids: Sequence[int]) -> str:
    return f"broker{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}"
