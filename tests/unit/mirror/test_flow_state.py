"""What a flow's table says of the copies that the flow fills, and what is forgotten of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.clusters.log import LogRecord
from ottla_mirror.machines.mirror_records import begun_key, begun_record
from ottla_mirror.machines.starts import Begun
from ottla_mirror.syncing.flow_state import FlowState

COPY, OTHER = TopicPartition("east.t", 0), TopicPartition("east.u", 0)


class Target:
    """A cluster that keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[LogRecord] = []

    def open_admin(self, name: str) -> Target:
        return self

    def open_writer(self, name: str, *, delivery_s: float) -> AbstractContextManager[Target]:
        return nullcontext(self)

    def send(self, value: bytes | None, *, key: bytes, topic: str) -> Target:
        self.written.append(LogRecord(key, value or b""))
        return self

    def result(self, timeout: float) -> None: ...

    def end(self, topic: str, timeout: float) -> int:
        return 0


def flow_state(target: Target) -> FlowState:
    state = FlowState("east->west", cast("Any", target), "mm2-mirror.east.internal")
    state.caught_up = True
    return state


def test_a_copy_that_is_gone_is_forgotten_by_each_mirror_that_follows_the_table() -> None:
    state = flow_state(target := Target())
    for copy in (COPY, OTHER):
        state.learn(LogRecord(*begun_record(copy, Begun(1, TopicId(b"c" * 16)))))
    state.note_gone([COPY])
    assert target.written == [LogRecord(begun_key(COPY), b"")]
    for record in target.written:
        state.learn(record)
    assert state.begun_copies() == [OTHER]
    assert state.begun(COPY) is None


def test_nothing_is_written_where_nothing_is_gone() -> None:
    flow_state(target := Target()).note_gone([])
    assert not target.written
