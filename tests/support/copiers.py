"""A mirror's copier between two scripted clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import ottla
from ottla.connect import BatchReader
from ottla.fakes.scripted import ScriptedCluster
from ottla_core.clock import ManualClock
from ottla_core.model import TopicPartition
from ottla_mirror.clusters.member import Member
from ottla_mirror.clusters.writer import Writer
from ottla_mirror.copying.copier import Copier
from ottla_mirror.machines.progress import CopiedPartition

SOURCE, COPY = TopicPartition("t", 0), TopicPartition("east.t", 0)
SYNCS: Final = "mm2-offset-syncs.east.internal"


class ScriptedMember:
    """A member of the group, which keeps the committed offsets."""

    def __init__(self) -> None:
        self.committed: dict[Any, ottla.OffsetAndMetadata] = {}

    def commit(self, offsets: dict[Any, ottla.OffsetAndMetadata]) -> None:
        self.committed |= offsets


class Sides:
    """A source with ten records in one partition, a target, and a `copier` from one to the other. `settings` are those
    of its producer."""

    def __init__(self, copier: type[Copier] = Copier, **settings: Any) -> None:
        self.source, self.target = ScriptedCluster({"t": 1}), ScriptedCluster({"east.t": 1, SYNCS: 1}, brokers=2)
        with ottla.Producer("b0:1", topic="t", _transport=self.source.connect) as producer:
            producer.send_many([f"{n}" for n in range(10)])
        self.reader = BatchReader("b0:1", _transport=self.source.connect)
        self.producer: ottla.Producer[Any, Any] = ottla.Producer(
            "b0:1", key="bytes", value="bytes", _transport=self.target.connect, **settings
        )
        self.member = ScriptedMember()
        self.clock = ManualClock()
        member = cast(Member, self.member)
        self.obstacles: list[ottla.OttlaError] = []  # to be raised where a partition is started again
        self.copier = copier(self.reader, Writer(self.producer), member, SYNCS, self.clock, self.start)
        self.copier.hold(paused=False)

    def start(self, partitions: Sequence[CopiedPartition]) -> dict[CopiedPartition, ottla.OttlaError]:
        return {partition: self.obstacles.pop() for partition in partitions if self.obstacles}

    def close(self) -> None:
        # A failed test may leave the target full, which `producer.close` would wait out.
        self.target._steps.clear()
        self.target.release()
        self.producer.close()
        self.reader.close()
