"""Which way a record has come, and where it goes on from there."""

from __future__ import annotations

import pytest

from ottla_core.clock import SystemClock
from ottla_core.errors import OttlaError
from ottla_core.security.secret import Secret
from ottla_mirror.flow import Flow
from ottla_mirror.groups.redis_map import RedisMap
from ottla_mirror.machines.flows import ClusterSettings, FlowSettings, MirrorSettings, Policy, check
from ottla_mirror.machines.loop_marks import HEADER, LoopMarks


def settings(*flows: str, policy: Policy = "marked") -> MirrorSettings:
    """Return the settings of flows such as "ab"."""
    clusters = tuple(ClusterSettings(alias, (f"{alias}:1",)) for alias in "abc")
    return MirrorSettings(clusters, tuple(FlowSettings(pair[0], pair[1], policy=policy) for pair in flows))


def marks(*flows: str) -> LoopMarks:
    """Return the loop marks of the first flow."""
    made = settings(*flows)
    return LoopMarks(made.flows[0], made)


def path(*clusters: str) -> tuple[str, bytes | None]:
    return (HEADER, ",".join(clusters).encode())


def test_a_copy_says_where_it_comes_from_behind_what_it_had() -> None:
    assert marks("ab", "ba").of_copy([("h", b"1")]) == [("h", b"1"), path("a")]
    assert marks("ab").of_copy([path("c"), ("h", None)]) == [("h", None), path("c", "a")]


@pytest.mark.parametrize("came", [("b",), ("b", "c"), ("c", "b")])
def test_what_was_in_the_target_does_not_come_back(came: tuple[str, ...]) -> None:
    assert marks("ab", "ba").of_copy([path(*came)]) is None


def test_what_has_a_way_of_its_own_comes_by_that_alone() -> None:
    assert marks("ab", "cb").of_copy([path("c")]) is None
    assert marks("ab", "ca").of_copy([path("c")]) is not None


def test_a_path_that_none_of_ours_has_written_is_one_of_others() -> None:
    assert marks("ab").of_copy([(HEADER, b"\\xff")]) is not None


def test_a_header_of_that_name_without_a_path_is_replaced() -> None:
    assert marks("ab").of_copy([(HEADER, None), ("h", b"")]) == [("h", b""), path("a")]
    assert marks("ab").of_copy([path("b"), path("c")]) is None


def test_a_circle_is_legal_where_all_of_it_is_marked() -> None:
    check(settings("ab", "ba"))
    check(settings("ab", "bc", policy="identity"))
    mixed = settings("ab", "bc", "ca")
    mixed = MirrorSettings(mixed.clusters, (*mixed.flows[:2], FlowSettings("c", "a", policy="identity")))
    for wrong in (settings("ab", "ba", policy="identity"), mixed):
        with pytest.raises(OttlaError, match="would come back to it"):
            check(wrong)
    with pytest.raises(OttlaError, match="can't have the source's offsets"):
        check(MirrorSettings(mixed.clusters, (FlowSettings("a", "b", policy="marked", delivery="same_offsets"),)))


@pytest.mark.parametrize(("policy", "count"), [("prefix", 1), ("marked", 0)])
def test_offsets_that_are_not_to_be_translated_are_not_in_redis_either(policy: Policy, count: int) -> None:
    made = settings("ab", policy=policy)
    made = MirrorSettings(made.clusters, made.flows, redis=Secret("redis://127.0.0.1:1"))
    flow = Flow(made.flows[0], made, 0, SystemClock())
    assert sum(isinstance(chore, RedisMap) for chore in flow._chores) == count
