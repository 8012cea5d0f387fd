"""What clients write to and read from each topic on this broker: a few additions a batch, shown at a scrape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from ottla_core.telemetry import Metrics, Table

if TYPE_CHECKING:
    from ottla_broker.replica import Replica
    from ottla_broker.replicas import Replicas

MAX_TOPICS: Final = 1_000
OTHERS: Final = "(others)"
"""Not a topic's name: topics that came when there were so many already. Their figures are added up."""


class Traffic:
    """Of one topic, since its first replica came to this broker. Only a leader is written to."""

    __slots__ = ("__weakref__", "bytes_in", "bytes_out", "records_in", "topic")

    def __init__(self, topic: str) -> None:
        self.topic: Final = topic
        self.bytes_in = 0
        self.records_in = 0
        self.bytes_out = 0


class TopicTraffic:
    """The traffic of every topic that has a replica here: its replicas hold it, so it goes with the last of them."""

    def __init__(self, max_topics: int = MAX_TOPICS) -> None:
        self._max_topics = max_topics
        self._by_topic: Final[WeakValueDictionary[str, Traffic]] = WeakValueDictionary()
        self._others: Final = Traffic(OTHERS)

    def of(self, topic: str) -> Traffic:
        """For a replica to count in, and to keep."""
        traffic = self._by_topic.get(topic)
        if traffic is None:
            if len(self._by_topic) >= self._max_topics:
                return self._others
            traffic = self._by_topic[topic] = Traffic(topic)
        return traffic


def add_topic_tables(metrics: Metrics, replicas: Replicas) -> None:
    """Have them shown: for every topic that has a replica here, nothing for those that have none any more."""

    def there() -> list[Replica]:
        return list(replicas.all())  # in one step: a scrape has its own thread

    def count(name: str, help_text: str, value: Callable[[Traffic], int]) -> None:
        def read() -> Mapping[tuple[str, ...], float]:
            return {(replica.traffic.topic,): value(replica.traffic) for replica in there()}

        metrics.table(name, Table(help_text, ("topic",), read, counts=True))

    def log_bytes() -> Mapping[tuple[str, ...], float]:
        sums: defaultdict[tuple[str, ...], float] = defaultdict(int)
        for replica in there():
            sums[replica.traffic.topic,] += replica.log.size_bytes
        return sums

    count("ottla_topic_bytes_in_total", "Bytes appended, as they came: compressed.", lambda traffic: traffic.bytes_in)
    count("ottla_topic_records_in_total", "Records appended.", lambda traffic: traffic.records_in)
    count("ottla_topic_bytes_out_total", "Bytes that consumers were sent.", lambda traffic: traffic.bytes_out)
    metrics.table("ottla_topic_log_bytes", Table("Logs of the replicas here.", ("topic",), log_bytes))
