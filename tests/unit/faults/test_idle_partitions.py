"""Partitions beside those under test: each holds what it was acknowledged, takes another record, or is named."""

from __future__ import annotations

import pytest
from tests.faults.history import Name, key_of, value_of
from tests.faults.idle import IDLE, RECORDS, Held, differences

COUNT = 4


def records(partition: int, count: int = RECORDS) -> list[Held]:
    keys = [key_of(Name(IDLE, partition, number)) for number in range(count)]
    return [Held(offset, key, value_of(key)) for offset, key in enumerate(keys)]


def found(partition: int, held: list[Held], taken: int | str = RECORDS) -> list[str]:
    """Where one partition has these, and all others are as they must be."""
    all_held = {number: records(number) for number in range(COUNT)} | {partition: held}
    return differences(all_held, dict.fromkeys(range(COUNT), RECORDS) | {partition: taken}, COUNT)


def test_each_holds_its_records_and_takes_another() -> None:
    assert found(0, records(0)) == []


@pytest.mark.parametrize(
    "held",
    [
        pytest.param([], id="all lost"),
        pytest.param(records(2)[:-1], id="the last one lost"),
        pytest.param(records(2)[1:], id="the first one lost"),
        pytest.param(records(2, RECORDS + 1), id="one more than was sent"),
        pytest.param([*records(2)[:2], records(2)[0]._replace(offset=2)], id="one twice"),
        pytest.param(records(1), id="of another partition"),
        pytest.param([r._replace(offset=r.offset + 1) for r in records(2)], id="at other offsets"),
        pytest.param([r._replace(value=b"torn") for r in records(2)], id="torn"),
    ],
)
def test_one_that_holds_anything_else_is_named(held: list[Held]) -> None:
    (words,) = found(2, held)
    assert words.startswith("idle-2 was acknowledged 3 records and holds [")


def test_one_that_takes_no_record_or_takes_it_elsewhere_is_named() -> None:
    assert found(3, records(3), "no leader") == ["idle-3 had to take a record at 3, and the outcome is no leader"]
    assert found(3, records(3), RECORDS - 1) == ["idle-3 had to take a record at 3, and the outcome is 2"]


def test_what_was_not_reached_is_no_success() -> None:
    everything = {number: records(number) for number in range(COUNT)}
    assert len(differences({}, {}, COUNT)) == COUNT
    assert differences(everything, {0: RECORDS, 1: RECORDS, 2: RECORDS}, COUNT) == [
        "idle-3 had to take a record at 3, and the outcome is unknown"
    ]
