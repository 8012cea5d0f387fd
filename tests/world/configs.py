"""The configs of a table, which an operator may change while clients work, and a judge of what producers were told.

From the moment when a leader has heard of a change, acks=all goes by the new min.insync.replicas, and a batch by the
new max.message.bytes. Records that a former config allowed to be deleted or superseded may be gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.growth.roles import part
from tests.world.cluster import Cluster
from tests.world.findings import Findings
from tests.world.upkeep import Retention

from ottla_broker.replication.replicas import Replicas
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode
from ottla_core.model import MAX_BATCH_BYTES

_APPLIED_S: Final = 0.3
"""A broker applies within this time what it has heard."""
_TOO_FEW: Final = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class Configs:
    """This has the configs of a topic, as they are `now` and as they have been."""

    def __init__(self, configs: Mapping[str, str]) -> None:
        self.now: Mapping[str, str] = configs
        self._ever: Final[list[Mapping[str, str]]] = [configs]

    def on_change(self, configs: Mapping[str, str]) -> None:
        if configs != self.now:
            self.now = configs
            self._ever.append(configs)

    @property
    def is_changed(self) -> bool:
        return len(self._ever) > 1

    @property
    def is_compacted(self) -> bool:
        """This tells whether the topic is or was compacted."""
        return any("compact" in each["cleanup.policy"] for each in self._ever)

    @property
    def max_message_bytes(self) -> int:
        """This is the largest max.message.bytes so far."""
        return max(_max_message_bytes(each) for each in self._ever)

    @property
    def retention(self) -> Retention:
        return _retention(self.now)

    def may_have_expired(self, written_at: float, now: float) -> bool:
        return any(_retention(each).may_delete(written_at, now) for each in self._ever)

    @property
    def is_retention_limited(self) -> bool:
        return any(_retention(each).is_limited for each in self._ever)


def _retention(configs: Mapping[str, str]) -> Retention:
    if "delete" not in configs["cleanup.policy"]:
        return Retention(-1, -1)
    return Retention(int(configs["retention.ms"]) / 1000, int(configs["retention.bytes"]))


def _max_message_bytes(configs: Mapping[str, str]) -> int:
    return int(configs.get("max.message.bytes", MAX_BATCH_BYTES))


class Known(NamedTuple):
    """A leader knows this of its partition. It decides whether acks=all succeeds and a batch is small enough."""

    partition_epoch: int
    in_sync: int
    min_isr: int
    max_message_bytes: int


class Promises:
    """This compares the answers of a leader with what it knew when it got the request and when it answered."""

    def __init__(self, cluster: Cluster, findings: Findings, topic: str) -> None:
        self._cluster: Final = cluster
        self._findings: Final = findings
        self._topic: Final = topic
        self._since: Final[dict[int, tuple[Known, float]]] = {}
        """What each leader knows, and since when."""

    def known_to(self, leader: int) -> Known | None:
        """Return what a broker has known for some time, or None if it does not lead or has just heard of something."""
        known, now = self._heard_by(leader), self._cluster.world.now
        if known is None:
            self._since.pop(leader, None)
            return None
        if leader not in self._since or self._since[leader][0] != known:
            self._since[leader] = (known, now)
        return known if now - self._since[leader][1] > _APPLIED_S else None

    def _heard_by(self, leader: int) -> Known | None:
        name = f"broker-{leader}"
        replicas = part(self._cluster.apps[name], Replicas) if self._cluster.is_up(name) else None
        if replicas is None:
            return None
        heard, applied = (self._in(image, leader) for image in (replicas._metadata.image, replicas._applied))
        return heard if heard == applied else None

    def _in(self, image: ClusterImage, leader: int) -> Known | None:
        topic = image.topics.get(self._topic)
        if topic is None:
            return None
        ((_, partition),) = image.partitions_of(topic)
        if partition.leader != leader:
            return None
        min_isr = min(int(topic.configs["min.insync.replicas"]), len(partition.replicas))
        return Known(partition.partition_epoch, len(partition.isr), min_isr, _max_message_bytes(topic.configs))

    def judge(self, before: Known | None, after: Known | None, code: int, size_bytes: int, *, acks_all: bool) -> None:
        """Judge the answer to a batch. What the leader knows has not changed meanwhile, or nothing can be said."""
        if before is None or before != after:
            return
        has_enough, fits = before.in_sync >= before.min_isr, size_bytes <= before.max_message_bytes
        self._findings.counts["promises judged"] += 1
        if code == ErrorCode.NONE and acks_all and not has_enough:
            self._findings.violate(f"acks=all was acknowledged by a leader that knew {before}")
        elif code in _TOO_FEW and has_enough:
            self._findings.violate(f"acks=all was refused by a leader that knew {before}")
        elif (code == ErrorCode.NONE and not fits) or (code == ErrorCode.MESSAGE_TOO_LARGE and fits):
            self._findings.violate(
                f"a batch of {size_bytes} bytes was answered with {code}, and the leader knew {before}"
            )
