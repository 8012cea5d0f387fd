"""What is due is fixed at the start, however long things take; and what is sent is what the figures claim."""

from __future__ import annotations

import zlib
from itertools import islice

from ottla.bench.pace import SendPace
from ottla.bench.payload import keys, values


def test_the_first_is_due_at_once_and_the_others_evenly() -> None:
    pace = SendPace(50.0, 4.0)
    assert [pace.due_at(number) for number in (0, 1, 4)] == [50.0, 50.25, 51.0]
    assert pace.due(50.0, 0) == 1
    assert pace.due(50.0, 1) == 0
    assert pace.due(50.26, 1) == 1


def test_a_stall_is_caught_up_with_and_counted_from_the_plan() -> None:
    pace = SendPace(0.0, 100.0)
    assert pace.due(2.0, 50) == 151
    late_s = [2.0 - pace.due_at(number) for number in (50, 200)]
    assert late_s == [1.5, 0.0], "the first that was held up waited longest"
    assert pace.due(2.0, 500) == 0, "nobody is ahead for having been quick"


def test_values_have_the_size_and_do_not_repeat_within_a_batch() -> None:
    some = list(islice(values(100), 650))
    assert {len(value) for value in some} == {100}
    assert len(set(some)) == 650
    assert len(zlib.compress(b"".join(some))) > 0.5 * 65_000, "letters compress a little, repetitions would entirely"
    assert some == list(islice(values(100), 650)), "every run sends the same"
    assert len(next(values(5 << 20))) == 5 << 20
    assert next(values(0)) == b""


def test_keys_are_as_many_as_asked_for() -> None:
    assert len(set(islice(keys(7), 100))) == 7
    assert set(islice(keys(0), 100)) == {None}
