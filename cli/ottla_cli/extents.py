"""The offsets of `--from`, `--to` and `--at` in each partition of a topic, as its brokers report them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ottla.errors import config_error
from ottla_cli.failures import no_partition
from ottla_cli.offsets import Anchor, PartitionBounds, PositionSpec, resolve

if TYPE_CHECKING:
    from ottla.admin.admin import Admin


@dataclass(frozen=True, slots=True)
class Extent:
    """A partition's first offset, the offset of its next record, and the offsets of the requested positions."""

    start: int
    end: int
    offsets: tuple[int, ...] = ()

    @property
    def records(self) -> int:
        """An upper bound: compaction and transactions leave gaps."""
        return self.end - self.start


def look_up(
    admin: Admin,
    topic: str,
    positions: Sequence[PositionSpec] = (),
    only: Sequence[int] = (),
    *,
    timeout: float | None = None,
) -> dict[int, Extent]:
    """The extent of each partition of `topic`, or of those in `only`.

    `timeout` in seconds applies to each request; None means --timeout. Raises UnknownTopicError, NotFoundError.
    """
    starts = admin.topics.offsets(topic, "earliest", timeout=timeout)
    for number in only:
        if number not in starts:
            raise no_partition(topic, number, len(starts))
    ends = admin.topics.offsets(topic, "latest", timeout=timeout)
    found = {p.number: _at_time(admin, topic, p.number) for p in positions if p.anchor is Anchor.TIME}
    extents = {}
    for number in only or starts:
        start, end = starts[number] or 0, ends[number] or 0
        offsets = tuple(resolve(p, PartitionBounds(start, end, found.get(p.number, {}).get(number))) for p in positions)
        extents[number] = Extent(start, end, offsets)
    return extents


def check_reached(option: str, topic: str, position: PositionSpec, extents: Mapping[int, Extent]) -> None:
    """Raise ConfigError for an offset beyond the end of the log."""
    for number, extent in extents.items():
        if position.anchor is Anchor.OFFSET and position.number > extent.end:
            raise config_error(
                f"{option} {position.number}: {topic}-{number} ends at {extent.end}",
                hint=f"pass {option} end, or select one partition with -p",
            )


def _at_time(admin: Admin, topic: str, timestamp_ms: int) -> dict[int, int | None]:
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).replace(microsecond=timestamp_ms % 1000 * 1000)
    return admin.topics.offsets(topic, moment)
