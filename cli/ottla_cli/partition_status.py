"""The status of partitions: the leader, the in-sync replicas, and which marks of kafka-topics apply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import config_error
from ottla_cli.connection import ASIDE_S, or_nothing
from ottla_cli.failures import no_partition

if TYPE_CHECKING:
    from ottla.admin.admin import Admin
    from ottla.admin.topics import PartitionInfo, TopicInfo

MIN_ISR: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition; `min_isr` is its topic's min.insync.replicas, None if not known."""

    topic: str
    info: PartitionInfo
    min_isr: int | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.info.partition}"

    @property
    def is_under_min_isr(self) -> bool | None:
        """Whether acks=all is rejected; None if not known.

        With all replicas in sync it never is: min.insync.replicas can't ask for more than there are.
        """
        if not self.info.is_under_replicated:
            return False
        return None if self.min_isr is None else len(self.info.isr) < self.min_isr

    @property
    def state(self) -> str:
        """The marks as text, "" for none."""
        marks = {
            "no leader": self.info.is_leaderless,
            "under-replicated": self.info.is_under_replicated,
            "under min ISR": self.is_under_min_isr,
        }
        return ", ".join(label for label, marked in marks.items() if marked)

    def item(self) -> dict[str, Any]:
        info = self.info
        return {
            "partition": info.partition,
            "leader": info.leader,
            "leader_epoch": info.leader_epoch,
            "replicas": info.replicas,
            "isr": info.isr,
            "elr": info.elr,
            "last_known_elr": info.last_known_elr,
            "offline": info.offline,
            "without_leader": info.is_leaderless,
            "under_replicated": info.is_under_replicated,
            "under_min_isr": self.is_under_min_isr,
            "state": self.state,
        }


def partition_statuses(admin: Admin, topics: Sequence[TopicInfo]) -> list[PartitionStatus]:
    """The partitions of `topics`. min.insync.replicas is looked up only where a replica is not in sync."""
    lagging = [topic.name for topic in topics if any(p.is_under_replicated for p in topic.partitions)]
    configs = (or_nothing(lambda: admin.configs.of_topics(*lagging, timeout=ASIDE_S)) or {}) if lagging else {}
    least = {name: int(entries[MIN_ISR].value) for name, entries in configs.items() if MIN_ISR in entries}
    return [PartitionStatus(topic.name, p, least.get(topic.name)) for topic in topics for p in topic.partitions]


def only_numbers(
    status: Iterable[PartitionStatus], topics: Sequence[str], numbers: Sequence[int]
) -> list[PartitionStatus]:
    """Return those that --partition names, or all if it names none. Raises NotFoundError, ConfigError."""
    everything = list(status)
    if not numbers:
        return everything
    if len(topics) != 1:
        raise config_error("--partition needs exactly one topic", hint="name exactly one topic")
    for number in numbers:
        if not 0 <= number < len(everything):
            raise no_partition(topics[0], number, len(everything))
    return [everything[number] for number in dict.fromkeys(numbers)]
