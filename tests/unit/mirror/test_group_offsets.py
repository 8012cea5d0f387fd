"""What is kept of groups' checkpoints: those that were written, and nothing of a group that has none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ottla_core.model import TopicPartition
from ottla_mirror.groups.group_offsets import GroupOffsets
from ottla_mirror.machines.flows import ClusterSettings, FlowSettings, MirrorSettings
from ottla_mirror.machines.group_plan import Move
from ottla_mirror.machines.topic_names import TopicNames

SOURCE, COPY = TopicPartition("t", 0), TopicPartition("east.t", 0)

SYNCS = SimpleNamespace(translate=lambda source, at: at, translate_back=lambda source, at: at)


class Cluster:
    """It counts what is written to it."""

    def __init__(self) -> None:
        self.written = 0

    def open_admin(self, name: str) -> Cluster:
        return self

    def open_writer(self, name: str, **settings: Any) -> Cluster:
        return self

    def send(self, value: bytes, *, key: bytes, topic: str) -> None:
        self.written += 1

    def flush(self, timeout: float) -> None: ...


def test_a_checkpoint_is_written_once_and_a_group_without_any_is_not_kept() -> None:
    flow, cluster = FlowSettings("east", "west"), Cluster()
    settings = MirrorSettings((ClusterSettings("east", ("e:1",)), ClusterSettings("west", ("w:1",))), (flow,))
    clusters = cast("Any", cluster)
    offsets = GroupOffsets(flow, clusters, clusters, TopicNames(flow, settings), cast("Any", SYNCS), cast("Any", None))
    offsets.checkpoint("untranslated", [Move(SOURCE, 9, COPY, None, None)])
    offsets.checkpoint("of nothing copied", [])
    for _ in range(2):
        offsets.checkpoint("g", [Move(SOURCE, 9, COPY, 7, None)])
    assert offsets.checkpointed == ["g"]
    assert (cluster.written, [c.offset for c in offsets.checkpoints("g")]) == (1, [7])
