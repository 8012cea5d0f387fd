"""What of a range can pass a filter: always at least what does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from ottla_core.model import TopicPartition
from pyspark_ottla.filters import narrowed
from pyspark_ottla.machines.ranges import Range

COMPARED: dict[type[Filter], Callable[[int, int], bool]] = {
    EqualTo: lambda row, value: row == value,
    EqualNullSafe: lambda row, value: row == value,
    GreaterThan: lambda row, value: row > value,
    GreaterThanOrEqual: lambda row, value: row >= value,
    LessThan: lambda row, value: row < value,
    LessThanOrEqual: lambda row, value: row <= value,
}


@given(st.sampled_from([*COMPARED]), st.integers(-3, 30), st.integers(0, 20), st.integers(1, 9), st.booleans())
def test_no_row_that_passes_is_left_out(kind: type[Filter], value: int, start: int, size: int, negated: bool) -> None:
    wanted = Range(TopicPartition("t", 4), start, start + size)
    pushed: Filter = kind(("offset",), value)  # type: ignore[call-arg]  # one of Spark's classes
    passes = COMPARED[kind]
    kept = narrowed(wanted, Not(pushed) if negated else pushed)
    assert kept is not None
    read = set(range(kept.start, kept.end))
    assert read <= set(range(start, start + size))
    assert {row for row in range(start, start + size) if passes(row, value) != negated} <= read
    if kind is not EqualNullSafe and not negated:
        assert all(passes(row, value) for row in read)  # and nothing else is read
    number = kind(("partition",), value)  # type: ignore[call-arg]  # one of Spark's classes
    assert narrowed(wanted, number) == wanted or not passes(4, value)


@pytest.mark.parametrize(
    "pushed",
    [
        EqualTo(("offset",), None),
        LessThan(("partition",), None),
        IsNull(("offset",)),
        StringContains(("topic",), "x"),
        EqualTo(("headers", "key"), "x"),
        EqualTo(("value",), b"x"),
        In(("offset",), (None,)),
    ],
)
def test_what_is_not_understood_spares_nothing(pushed: Filter) -> None:
    wanted = Range(TopicPartition("t", 4), 2, 9)
    assert narrowed(wanted, pushed) == wanted
