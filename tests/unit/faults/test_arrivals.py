"""What the fault row of mirrors calls rewound, skipped, again and silent, of a group that was moved."""

from __future__ import annotations

import pytest
from tests.faults.mirrored.arrivals import Arrival, check_arrival
from tests.faults.mirrored.checker import Findings
from tests.faults.mirrored.copies import Copied

LOG = [Copied(offset, b"%d" % offset, b"") for offset in (0, 1, 3, 4)]
HAD = (b"0", b"1")


def arrival(
    position: int | None, furthest: int = 0, announced: int | None = None, *, is_named: bool = False
) -> Arrival:
    return Arrival("g in t-0", position, furthest, announced, is_named, LOG)


def found(checked: Arrival, *, once: bool = True) -> tuple[bool, set[str]]:
    findings = Findings()
    is_exact = check_arrival(findings, checked, HAD, once=once)
    return is_exact, {kind for kind, count in findings.counts.items() if count}


@pytest.mark.parametrize("position", [2, 3])
def test_a_group_that_goes_on_at_the_very_record_is_as_it_must_be(position: int) -> None:
    assert found(arrival(position, 2, position)) == (True, set())


@pytest.mark.parametrize(
    ("checked", "kinds"),
    [
        (arrival(4), {"skipped"}),
        (arrival(1), {"again"}),
        (arrival(1, 2), {"again", "rewound"}),
        (arrival(None), {"silent"}),
        (arrival(None, announced=2), {"silent"}),
        (arrival(2, announced=3), {"silent"}),
        (arrival(None, is_named=True), set()),
        (arrival(2, announced=3, is_named=True), set()),
    ],
)
def test_each_fault_is_found(checked: Arrival, kinds: set[str]) -> None:
    assert found(checked) == (False, kinds)


def test_records_may_come_again_where_that_is_promised() -> None:
    assert found(arrival(1), once=False) == (False, set())
