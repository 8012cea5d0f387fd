"""How what comes of a story's steps is compared between two sides."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from tests.compat.judges.departures import DEPARTURES, Departure, unlisted
from tests.compat.judges.living import Fact, live
from tests.compat.judges.side import Raised, Side
from tests.compat.judges.stories import STORIES
from tests.compat.judges.stories.checkpoints import STORIES as CHECKPOINTS
from tests.compat.judges.story import Story, a, everyone, world
from tests.compat.judges.world import World


class Scripted:
    """A side that gives what it was made with, call by call."""

    def __init__(self, *gives: Any) -> None:
        self._gives = list(gives)
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def call(self, who: str, what: str, **arguments: Any) -> Any:
        self.calls.append((f"{who} {what}", arguments))
        return self._gives.pop(0)

    def close(self) -> None: ...


def lived(story: Story, theirs: Side, ours: Side) -> list[tuple[str, str, str]]:
    return [tuple(fact) for fact in live(story, cast(World, None), theirs, ours)]


def test_outcomes_are_in_words_and_rows_by_partition() -> None:
    story = Story("s", (a("read", count=3), a("position", partition=0), a("position", partition=0)))
    theirs = Scripted([[1, 5, "x"], [0, 7, "y"], [0, 8, "z"]], 9, Raised("no position"))
    ours = Scripted([(0, 7, "y"), (1, 5, "x"), (0, 8, "z")], 9, 3)
    assert lived(story, theirs, ours) == [
        ("s: a read count=3", "0:7=y 0:8=z 1:5=x", "0:7=y 0:8=z 1:5=x"),
        ("s: a position partition=0", "9", "9"),
        ("s: a position partition=0 (2)", "raises no position", "3"),
    ]


def test_the_order_within_a_partition_is_part_of_an_outcome() -> None:
    (fact,) = lived(
        Story("s", (a("read", count=2),)), Scripted([[0, 1, "x"], [0, 2, "y"]]), Scripted([[0, 2, "y"], [0, 1, "x"]])
    )
    assert fact[1] != fact[2]


def test_what_the_world_does_is_done_once_and_is_no_fact() -> None:
    class Counted:
        written = 0

        def write(self, count: int) -> None:
            self.written += count

    counted = Counted()
    facts = live(Story("s", (world("write", count=2),)), cast(World, counted), Scripted(), Scripted())
    assert (facts, counted.written) == ([], 2)


def test_rows_that_come_while_partitions_are_shared_out_are_of_the_next_reading() -> None:
    story = Story("s", (everyone("share", until={"a": 1}), a("read", count=3)))
    theirs = Scripted([[0, 0, "x"]], [0], [["assigned", []], ["assigned", [0]]], 1, [[0, 1, "y"], [0, 2, "z"]])
    ours = Scripted([], [0], [["assigned", [0]]], 0, [[0, 0, "x"], [0, 1, "y"], [0, 2, "z"]])
    shared, read = lived(story, theirs, ours)
    assert shared[1:] == ("has [0] events assigned[0] calls 0",) * 2, "that nothing was assigned meanwhile is chance"
    assert read[1:] == ("0:0=x 0:1=y 0:2=z",) * 2
    assert [sides.calls[-1][1]["count"] for sides in (theirs, ours)] == [2, 3]


@pytest.mark.parametrize(
    ("fact", "is_right"),
    [
        (Fact("s: same", "1", "1"), True),
        (Fact("s: other", "1", "2"), False),
        (Fact("s: listed", "1", "2"), True),
        (Fact("s: listed", "1", "3"), False),
        (Fact("s: listed", "4", "2"), False),
        (Fact("s: listed", "1", "1"), False),
    ],
)
def test_a_difference_has_to_be_listed_and_what_is_listed_has_to_differ_so(fact: Fact, is_right: bool) -> None:
    assert (unlisted([fact], {"s: listed": Departure("1", "2", "a reason")}) == []) is is_right


def test_each_departure_is_of_a_step_and_has_a_reason() -> None:
    consumers = [story for stories in STORIES.values() for story in stories]
    steps = {f"{story.name}: {step.label}" for story in (*consumers, *CHECKPOINTS) for step in story.steps}
    assert [key for key in DEPARTURES if re.sub(r" \(\d+\)$", "", key) not in steps] == []
    assert all(departure.reason and departure.theirs != departure.ours for departure in DEPARTURES.values())
    for stories in (consumers, CHECKPOINTS):
        assert len({story.name for story in stories}) == len(stories)
