"""The other side has consumers of Kafka's own client in Java."""

from __future__ import annotations

from typing import Any, Final

from peers.java.consumers import JavaConsumers
from peers.java.consumers import Raised as JavaRaised
from tests.compat.judges.opening import HEARTBEAT_MS, LIMIT_MS, METADATA_MS, NEVER_MS, Opening
from tests.compat.judges.side import Raised

_ASSIGNORS: Final = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
_KINDS: Final = {
    "IllegalState": "refused",
    "IllegalArgument": "refused",
    "NoOffsetForPartition": "no position",
    "OffsetOutOfRange": "no position",
}
"""The SDK has one class for each of these, and Java has two."""


class JavaSide:
    def __init__(self, consumers: JavaConsumers, bootstrap: str, topic: str, group: str) -> None:
        self._consumers: Final = consumers
        self._bootstrap: Final = bootstrap
        self._topic: Final = topic
        self._group: Final = group
        self._open: Final[set[str]] = set()

    def call(self, who: str, what: str, **arguments: Any) -> Any:
        name = f"{self._topic} {who}"
        if what == "open":
            arguments = self._options(Opening(**arguments))
            self._open.add(who)
        elif what == "close":
            self._open.discard(who)
        elif what == "commit":
            arguments.setdefault("offsets", None)
        gives = self._consumers.call(name, what, **arguments)
        if isinstance(gives, JavaRaised):
            kind = gives.kind.removesuffix("Exception")
            return Raised(_KINDS.get(kind, kind))
        return gives

    def close(self) -> None:
        for who in list(self._open):
            self.call(who, "close")

    def _options(self, opening: Opening) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap,
            "auto.offset.reset": opening.reset,
            "enable.auto.commit": opening.auto_commit,
            "auto.commit.interval.ms": NEVER_MS,
            "max.poll.records": 1,
            "max.poll.interval.ms": opening.max_poll_interval_ms,
            "metadata.max.age.ms": METADATA_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": _ASSIGNORS[opening.assignor],
            "default.api.timeout.ms": LIMIT_MS,
        }
        if opening.isolation != "default":
            settings["isolation.level"] = opening.isolation
        if opening.partitions is None:
            settings["group.id"] = self._group
        return {
            "topic": self._topic,
            "limit_ms": LIMIT_MS,
            "settings": settings,
            "partitions": None if opening.partitions is None else list(opening.partitions),
            "commits_when_revoked": opening.commits_when_revoked,
        }
