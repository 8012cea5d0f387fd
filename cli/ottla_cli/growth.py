"""How fast a topic grows, and when retention begins to delete what it has. Pure: from what brokers reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

_HOUR_MS: Final = 3600 * 1000
_DAY_MS: Final = 24 * _HOUR_MS
_POLICY, _TIME, _SIZE = "cleanup.policy", "retention.ms", "retention.bytes"


class PartitionAge(NamedTuple):
    """Bytes of the leader's log, and the timestamp of its first record."""

    size_bytes: int
    first_ms: int


class Growth(NamedTuple):
    """Bytes a day since the first records, which count as an hour old at least; when old segments begin to be deleted,
    and by which config.

    `deletes_from_ms` is None, and `by` empty, if no config deletes anything. It is when the first record expires; that
    record is deleted with its segment, once the newest record of the segment has expired too.
    """

    bytes_per_day: int
    deletes_from_ms: int | None
    by: str

    def item(self, now_ms: int) -> dict[str, Any]:
        return {**self._asdict(), "text": self.as_text(now_ms)}

    def as_text(self, now_ms: int) -> str:
        if self.deletes_from_ms is None:
            when = "nothing is deleted by time or size"
        elif self.deletes_from_ms <= now_ms:
            when = f"{self.by} deletes the oldest segments"
        else:
            when = f"{self.by} begins to delete at {datetime.fromtimestamp(self.deletes_from_ms / 1000, UTC):%F %R} UTC"
        return f"{self.bytes_per_day:,} bytes a day; {when}"


def growth(partitions: Sequence[PartitionAge], configs: Mapping[str, str], now_ms: int) -> Growth | None:
    """Return the growth of a topic by its partitions that hold records; None if none does. `configs` are in force."""
    if not partitions:
        return None
    rates = [partition.size_bytes / max(_HOUR_MS, now_ms - partition.first_ms) for partition in partitions]
    ends = [*_by_time(partitions, configs), *_by_size(partitions, rates, configs, now_ms)]
    if "delete" not in configs.get(_POLICY, "delete"):
        ends = []
    first_ms, by = min(ends, default=(None, ""))
    return Growth(round(sum(rates) * _DAY_MS), first_ms, by)


def _by_time(partitions: Sequence[PartitionAge], configs: Mapping[str, str]) -> list[tuple[int, str]]:
    kept_ms = int(configs.get(_TIME, -1))
    return [(partition.first_ms + kept_ms, _TIME) for partition in partitions if kept_ms >= 0]


def _by_size(
    partitions: Sequence[PartitionAge], rates: Sequence[float], configs: Mapping[str, str], now_ms: int
) -> list[tuple[int, str]]:
    most_bytes = int(configs.get(_SIZE, -1))
    if most_bytes < 0:
        return []
    growing = [(partition, rate) for partition, rate in zip(partitions, rates, strict=True) if rate]
    return [(now_ms + max(0, int((most_bytes - p.size_bytes) / rate)), _SIZE) for p, rate in growing]
