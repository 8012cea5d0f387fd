"""How much clients write to and read from each topic on this broker: a few additions per batch, read at a scrape."""

from __future__ import annotations

import logging
from typing import Final
from weakref import WeakValueDictionary

_log = logging.getLogger(__name__)

MAX_TOPICS: Final = 1_000
_REPORTED_EVERY_MS: Final = 3_600_000
REMAINING: Final = "(others)"
"""Stands for the topics beyond the limit, whose traffic is added up. No topic can have this name."""


class Traffic:
    """The traffic of one topic since its first replica came to this broker. Clients write to the leader only."""

    __slots__ = ("__weakref__", "_reported_at_ms", "bytes_in", "bytes_out", "past_retention", "records_in", "topic")

    def __init__(self, topic: str) -> None:
        self.topic: Final = topic
        self.bytes_in = 0
        self.records_in = 0
        self.bytes_out = 0
        self.past_retention = 0
        """These records were older than retention.ms when they came. They will soon go with their segment."""
        self._reported_at_ms = -_REPORTED_EVERY_MS

    def on_past_retention(self, partition: str, records: int, by_ms: int, now_ms: int) -> None:
        """Count the records of a batch, the newest of which is too old by `by_ms`. It is logged once an hour."""
        self.past_retention += records
        if now_ms - self._reported_at_ms >= _REPORTED_EVERY_MS:
            self._reported_at_ms = now_ms
            _log.warning(
                "%s: the newest record of a batch is older than retention.ms by %d ms, so the batch is deleted with "
                "its segment; correct the producer's clock, or lengthen retention (logged once an hour for each topic)",
                partition,
                by_ms,
            )


class TopicTraffic:
    """The traffic of every topic that has a replica here. The replicas hold it, so it goes with the last of them."""

    def __init__(self, max_topics: int = MAX_TOPICS) -> None:
        self._max_topics = max_topics
        self._by_topic: Final[WeakValueDictionary[str, Traffic]] = WeakValueDictionary()
        self._remaining: Final = Traffic(REMAINING)

    def of(self, topic: str) -> Traffic:
        """Return the topic's counters, for a replica to count in and to keep."""
        traffic = self._by_topic.get(topic)
        if traffic is None:
            if len(self._by_topic) >= self._max_topics:
                return self._remaining
            traffic = self._by_topic[topic] = Traffic(topic)
        return traffic
