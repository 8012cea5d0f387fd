"""Where reading begins and ends: what `--from` and `--to` of `ottla consume` accept, and which offset each means.

| text | place in each partition |
|---|---|
| start, end | the first record that is still there; after the last one |
| 42 | offset 42 |
| +5 | 5 records after the start |
| -100 | 100 records before the end |
| @2026-11-01T10:00 | the first record at or after that time, which is local unless it has Z or +02:00 |
| @1793523600000 | the same in milliseconds since the epoch |
| @-1h | the same, this long ago (ms, s, m, h, d, w) |

`--to` names the first record that is not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from ottla.client.units import parse_duration
from ottla.errors import ConfigError, config_error

_LAST_MS: Final = 253_402_300_799_999  # of the year 9999

LEGAL: Final = "use start, end, an offset such as 42, +5, -100, @2026-11-01T10:00 or @-1h"


class Anchor(Enum):
    """What a position is relative to."""

    START = "start"
    END = "end"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class PositionSpec:
    """A position in a partition: `number` is an offset, a count of records from the anchor, or ms since the epoch."""

    anchor: Anchor
    number: int = 0


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """A partition as it is now: its first offset, the offset of its next record, and the offset found for a time.

    `at_time` is None if the partition has no records at or after the time.
    """

    start: int
    end: int
    at_time: int | None = None


_NAMED_POSITIONS: Final = {
    "start": PositionSpec(Anchor.START),
    "beginning": PositionSpec(Anchor.START),
    "earliest": PositionSpec(Anchor.START),
    "end": PositionSpec(Anchor.END),
    "latest": PositionSpec(Anchor.END),
}


def parse_position(text: str, option: str, *, now_ms: int) -> PositionSpec:
    """Return the position that `text`, the value of `option` (--from, --to), names. Raises ConfigError."""
    if text in _NAMED_POSITIONS:
        return _NAMED_POSITIONS[text]
    if text.startswith("@"):
        return PositionSpec(Anchor.TIME, _time_ms(text[1:], option, now_ms))
    sign, digits = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not (digits.isascii() and digits.isdigit()):
        raise _illegal(option, text)
    number = int(digits)
    if sign == "+":
        return PositionSpec(Anchor.START, number)
    return PositionSpec(Anchor.END, -number) if sign else PositionSpec(Anchor.OFFSET, number)


def resolve(position: PositionSpec, bounds: PartitionBounds) -> int:
    """Return the offset, never outside what the partition holds: a position before the start is the start."""
    match position.anchor:
        case Anchor.START:
            offset = bounds.start + position.number
        case Anchor.END:
            offset = bounds.end + position.number
        case Anchor.OFFSET:
            offset = position.number
        case Anchor.TIME:
            offset = bounds.end if bounds.at_time is None else bounds.at_time
    return min(max(offset, bounds.start), bounds.end)


def _time_ms(text: str, option: str, now_ms: int) -> int:
    if text.startswith("-"):
        return _bounded(now_ms - round(parse_duration(text[1:], option) * 1000), option, text)
    if text.isascii() and text.isdigit() and len(text) >= 10:  # 20261101 is a day, not an instant
        return _bounded(int(text), option, text)
    try:
        return _bounded(round(datetime.fromisoformat(text).timestamp() * 1000), option, text)
    except (ValueError, OverflowError):
        raise _illegal(option, f"@{text}") from None


def _bounded(timestamp_ms: int, option: str, text: str) -> int:
    """A time that a record may have: not before 1970, which `--from @-1000w` would be."""
    if timestamp_ms > _LAST_MS:
        raise _illegal(option, f"@{text}")
    return max(0, timestamp_ms)


def _illegal(option: str, text: str) -> ConfigError:
    return config_error(f"{option} {text!r} is not a position in a partition", hint=LEGAL)
