"""These tests let the start finder ask a scripted target about the copies."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.copying.start_finder import StartFinder
from ottla_mirror.machines.starts import Start

A, B = (TopicPartition(name, 0) for name in ("east.a", "east.b"))


class Target:
    """`east.a` has no leader."""

    def topic_ids(self, names: Collection[str]) -> Mapping[str, TopicId]:
        return {name: TopicId(name.encode().ljust(16)) for name in names}

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {partition: 0 for partition in partitions if partition != A}


class Rest:
    """The group, the flow's table and its syncs, which know nothing."""

    def committed(self, copies: Collection[TopicPartition]) -> Mapping[TopicPartition, None]:
        return dict.fromkeys(copies)

    def catch_up(self, timeout: float) -> None:
        pass

    def begun(self, copy: TopicPartition) -> None:
        return None

    def note_begun(self, copies: Any) -> None:
        pass

    def generation(self, source: TopicPartition) -> int:
        return 0


@pytest.mark.story("leaderless-copy-delays-all")
def test_a_copy_without_a_leader_is_not_taken_for_an_empty_one_and_delays_no_other() -> None:
    rest = cast(Any, Rest())
    finder = StartFinder(rest, cast(Any, Target()), rest, rest, compares=False)
    starts = finder.find({A: TopicPartition("a", 0), B: TopicPartition("b", 0)})
    assert isinstance(starts[B], Start)
    refusal = starts[A]
    assert isinstance(refusal, OttlaError)
    assert refusal.code == ErrorCode.LEADER_NOT_AVAILABLE
