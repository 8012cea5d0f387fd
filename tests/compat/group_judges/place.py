"""A cluster that is judged: ottla, or Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from peers.client import Rec
from tests.compat.cells import SDK
from tests.compat.topics import Topics

Facts = Mapping[str, object]
"""What a judge has found, by name."""
RECORDS: Final = 60
PARTITIONS: Final = 6


class Place(NamedTuple):
    """A cluster that is judged, with a topic of its own for each judge."""

    bootstrap: str
    topics: Topics

    def topic(self, records: int = RECORDS) -> str:
        topic = self.topics.create(partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            written = [Rec(None, b"%d" % n) for n in range(records // PARTITIONS)]
            SDK.open().produce(self.bootstrap, topic, written, partition=partition)
        return topic
