"""`--from` and `--to`: what may be said, and which offset that is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ottla.errors import ConfigError
from ottla_cli.offsets import Anchor, PartitionBounds, PositionSpec, parse_position, resolve

NOW_MS = 1_793_523_600_000


def position(text: str) -> PositionSpec:
    return parse_position(text, "--from", now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", PositionSpec(Anchor.START)),
        ("beginning", PositionSpec(Anchor.START)),
        ("end", PositionSpec(Anchor.END)),
        ("42", PositionSpec(Anchor.OFFSET, 42)),
        ("0", PositionSpec(Anchor.OFFSET, 0)),
        ("+5", PositionSpec(Anchor.START, 5)),
        ("-100", PositionSpec(Anchor.END, -100)),
        ("@-1h", PositionSpec(Anchor.TIME, NOW_MS - 3_600_000)),
        ("@-250ms", PositionSpec(Anchor.TIME, NOW_MS - 250)),
        ("@1793523600000", PositionSpec(Anchor.TIME, 1_793_523_600_000)),
        ("@2026-11-01T10:00Z", PositionSpec(Anchor.TIME, 1_793_527_200_000)),
        ("@2026-11-01T10:00+02:00", PositionSpec(Anchor.TIME, 1_793_520_000_000)),
    ],
)
def test_a_place_is_said_in_many_ways(text: str, expected: PositionSpec) -> None:
    assert position(text) == expected


def test_a_time_without_a_zone_is_local() -> None:
    local = datetime(2026, 11, 1, 10).astimezone()
    for text in ("@2026-11-01T10:00", "@2026-11-01 10:00:00", "@20261101T10"):
        assert position(text).number == local.astimezone(UTC).timestamp() * 1000
    assert position("@2026-11-01").number == position("@2026-11-01T10:00").number - 10 * 3_600_000
    assert position("@20261101") == position("@2026-11-01")


@pytest.mark.parametrize(
    "text", ["", "-", "+", "yesterday", "1.5", "--5", "@", "@soon", "@-1 year", "@-", "٤٢", "@9999-99-99"]
)
def test_anything_else_is_refused_with_what_is_legal(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        position(text)
    assert "--from" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [("start", 100), ("end", 200), ("150", 150), ("+5", 105), ("-10", 190), ("5", 100), ("+500", 200), ("-500", 100)],
)
def test_a_place_never_lies_outside_of_the_partition(text: str, expected: int) -> None:
    assert resolve(position(text), PartitionBounds(start=100, end=200)) == expected


def test_a_time_is_the_record_found_for_it_or_the_end() -> None:
    assert resolve(position("@-1h"), PartitionBounds(100, 200, at_time=120)) == 120
    assert resolve(position("@-1h"), PartitionBounds(100, 200)) == 200
