"""Times and sizes as users write them: seconds or timedelta, bytes or "64KiB"; milliseconds only in Kafka's names."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from ottla.errors import config_error

Duration = float | timedelta
"""Seconds as a number, or a timedelta."""

Size = int | str
"""Bytes as an int, or text with a unit: "64KiB", "16MiB", "1GB"."""

_SIZE_UNITS: Final = {
    "": 1, "b": 1,
    "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip
_TIME_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_NUMBER_AND_UNIT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


def seconds(value: Duration, name: str) -> float:
    """Return `value` in seconds. Raises a ConfigError with the argument's name if it is negative or not a number."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise config_error(f"{name}={value!r} is not a duration", hint="pass seconds (0 or more) or a timedelta")
    return float(value)


def size_bytes(value: Size, name: str) -> int:
    """Return `value` in bytes. Raises a ConfigError with the argument's name."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (match := _NUMBER_AND_UNIT.fullmatch(value)):
        factor = _SIZE_UNITS.get(match[2].lower())
        if factor is not None:
            return int(float(match[1]) * factor)
    raise config_error(
        f"{name}={value!r} is not a size", hint="pass bytes as an int, or text such as '64KiB' or '16MiB'"
    )


def parse_duration(text: str, name: str) -> float:
    """Parse text such as "250ms", "10s", "15m", "12h", "7d", "2w" to seconds; a bare number is seconds."""
    if match := _NUMBER_AND_UNIT.fullmatch(text):
        factor = _TIME_UNITS.get(match[2].lower() or "s")
        if factor is not None:
            return float(match[1]) * factor
    raise config_error(f"{name}={text!r} is not a duration", hint="use a number with ms, s, m, h, d or w, such as '7d'")


def timestamp_ms(moment: datetime | timedelta, *, now_ms: int) -> int:
    """Return ms since the epoch. A datetime without a zone is local time; a timedelta is from now (-1 h: ago)."""
    if isinstance(moment, timedelta):
        return now_ms + round(moment / timedelta(milliseconds=1))
    return round(moment.timestamp() * 1000)


def config_text(name: str, value: object) -> str:
    """Return the value of a topic's or broker's config as Kafka spells it.

    True → "true", a timedelta or "7d" for a name in `.ms` → milliseconds, "1GiB" for a name in `.bytes` → bytes, a list
    → comma-joined text; anything else is its own text.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, timedelta):
        return str(round(value / timedelta(milliseconds=1)))
    if isinstance(value, list | tuple):
        return ",".join(str(v) for v in value)
    if isinstance(value, str) and (match := _NUMBER_AND_UNIT.fullmatch(value)) and match[2]:
        if name.endswith(".ms"):
            return str(round(parse_duration(value, name) * 1000))
        if name.endswith(".bytes"):
            return str(size_bytes(value, name))
    return str(value)
