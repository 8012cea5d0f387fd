"""The stages of copied partitions: what the copier has the reader do follows the table, whatever happens when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_core.clock import ManualClock
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_mirror.copying.copier import Copier
from ottla_mirror.machines.progress import CopiedPartition
from ottla_mirror.machines.stages import NEXT, Event, Stage

SOURCES = [TopicPartition("t", number) for number in range(3)]


class Reader:
    """Knows what it is to read, and hands out nothing."""

    def __init__(self) -> None:
        self.assigned: set[TopicPartition] = set()

    def assign(self, partition: TopicPartition, offset: int | None = None, **of: object) -> None:
        self.assigned.add(partition)

    def unassign(self, partition: TopicPartition) -> None:
        self.assigned.remove(partition)

    def poll(self, timeout: float) -> None:
        return None


class Writer:
    """Takes everything at once, or is away."""

    is_away = False

    def check(self) -> None:
        pass

    def flush(self, timeout: float) -> None:
        if self.is_away:
            raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, "the target is away")


def copier_of(reader: Reader, writer: Writer, clock: ManualClock) -> Copier:
    member = SimpleNamespace(commit=lambda offsets: None)
    return Copier(cast("Any", reader), cast("Any", writer), cast("Any", member), "syncs", clock, lambda partitions: {})


STEPS = st.one_of(
    st.tuples(st.sampled_from(("take", "give up", "lose", "fail")), st.integers(0, len(SOURCES) - 1)),
    st.tuples(st.sampled_from(("pause", "resume", "step", "wait", "target away", "target back")), st.just(0)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_exactly_what_is_to_be_read_is_read_and_what_failed_is_tried_again(steps: list[tuple[str, int]]) -> None:
    reader, writer, clock = Reader(), Writer(), ManualClock()
    copier = copier_of(reader, writer, clock)
    for what, number in steps:
        source = SOURCES[number]
        partition = copier.partitions.get(source)
        match what:
            case "take" if partition is None:
                copier.take(CopiedPartition(source, TopicPartition("east.t", number)))
            case "give up" | "lose":
                copier.give_up([source], lost=what == "lose")
                assert partition is None or partition.stage is Stage.GONE
            case "fail" if partition is not None and partition.stage is Stage.READ:
                copier._on_failed(partition, OttlaError(ErrorCode.INVALID_RECORD, "no"))
            case "pause" | "resume":
                copier.hold(paused=what == "pause")
            case "step":
                copier.step(0.0)
            case "wait":
                clock.advance(20.0)
            case "target away" | "target back":
                writer.is_away = what == "target away"
        by_stage = {stage: {p.source for p in copier.partitions.values() if p.stage is stage} for stage in Stage}
        assert reader.assigned == by_stage[Stage.READ]
        assert {p.source for p in copier._aside} == by_stage[Stage.ASIDE]
        assert not by_stage[Stage.GONE]
        assert not (copier.paused and by_stage[Stage.READ])
        assert copier.paused or not by_stage[Stage.HELD]
    copier.hold(paused=False)
    clock.advance(20.0)
    copier.step(0.0)
    assert reader.assigned == set(copier.partitions), "none waits for ever"


@pytest.mark.parametrize("stage", list(Stage))
def test_each_stage_can_be_left_but_the_last(stage: Stage) -> None:
    ways = {event: after for (before, event), after in NEXT.items() if before is stage and after is not stage}
    assert (not ways) == (stage is Stage.GONE)
    if stage is not Stage.GONE:
        assert ways[Event.GIVEN_UP] is Stage.GONE
