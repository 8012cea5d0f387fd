"""Where a consumer is in each of its partitions, what to fetch next, and what has come but was not read yet.

The rules this file owns:

* A partition is in at most one fetch at a time, so what comes for it comes in order. Fetches to one broker run side by
  side with different partitions: one that waits for news in quiet partitions never holds up a busy one.
* What was fetched and not read is bounded by `prefetch_bytes`: a partition's share of it is one half in what waits to
  be read and one in what is under way. Only a first batch, which always comes whole, may exceed that (rule 57).
* Partitions take turns: one that was asked for goes to the end, and what came is read in the order in which it came.
* A seek makes everything that is under way or waiting for its partition stale (`version`).
* Only OFFSET_OUT_OF_RANGE resets a position (rule 67); every other error leaves it and asks again, or is raised.

Not thread-safe: the consumer holds one lock over it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.metadata import REFRESHING, Route
from ottla_core.errors import is_retriable
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, PartitionId, TopicPartition
from ottla_core.records.batch import iter_headers

Reset = Literal["earliest", "latest", "none"]

_LEAST_SHARE_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The consumer's settings that rule here; sizes in bytes, times in seconds."""

    prefetch_bytes: int = 16 * 1024 * 1024
    partition_bytes: int = 1024 * 1024
    requests_per_broker: int = 16
    backoff_s: float = 0.1
    backoff_most_s: float = 1.0

    def share_bytes(self, partitions: int) -> int:
        """What one of so many partitions may have waiting, and again in a fetch that is under way."""
        return min(self.partition_bytes, max(_LEAST_SHARE_BYTES, self.prefetch_bytes // (2 * max(1, partitions))))


class Position:
    """One assigned partition.

    `offset` is the next record to hand out, None until `start` (a timestamp as in ListOffsets: -2 earliest, -1 latest,
    else milliseconds) has been looked up. `stop` is the first offset that is not wanted.
    """

    __slots__ = (
        "failures",
        "fetch_offset",
        "high_watermark",
        "in_flight",
        "offset",
        "partition",
        "paused",
        "retry_at",
        "start",
        "stop",
        "version",
        "waiting_bytes",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.offset: int | None = None
        self.start = LATEST_TIMESTAMP
        self.stop: int | None = None
        self.fetch_offset = 0
        self.version = 0
        self.in_flight = False
        self.waiting_bytes = 0
        self.paused = False
        self.retry_at = 0.0
        self.failures = 0
        self.high_watermark = -1

    @property
    def lag(self) -> int:
        """Records between the position and the end of the log as of the last fetch; -1 before the first."""
        return -1 if self.high_watermark < 0 or self.offset is None else max(0, self.high_watermark - self.offset)

    @property
    def done(self) -> bool:
        """Whether everything up to `stop` was handed out."""
        return self.stop is not None and self.offset is not None and self.offset >= self.stop

    def wants_more(self, share_bytes: int) -> bool:
        """Whether there is a reason to fetch: resolved, not under way, not too much waiting, not at its end."""
        return (
            self.offset is not None
            and not self.in_flight
            and not self.paused
            and self.waiting_bytes < share_bytes
            and (self.stop is None or self.fetch_offset < self.stop)
        )


@dataclass(slots=True)
class FetchPart:
    """What one fetch asks of one partition. `version` tells a late answer from a wanted one."""

    position: Position
    route: Route
    offset: int
    version: int


@dataclass(slots=True)
class Fetch:
    """One fetch to one broker, of up to `partition_bytes` a partition; sent at `sent_at`, in monotonic seconds."""

    address: str
    partition_bytes: int
    sent_at: float = 0.0
    parts: list[FetchPart] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A broker's answer for one partition: whole batches, or Kafka's code and words."""

    records: bytes = b""
    high_watermark: int = -1
    log_start_offset: int = -1
    code: int = 0
    message: str = ""


@dataclass(slots=True)
class Chunk:
    """Whole batches of one partition that came in one answer."""

    position: Position
    version: int
    records: bytes


@dataclass(slots=True)
class News:
    """What an answer came to: `refresh` the metadata, warn about positions that were `reset`, raise `errors`."""

    refresh: bool = False
    reset: list[str] = field(default_factory=list)


class Subscription:
    """All assigned partitions. `now` is monotonic seconds."""

    def __init__(self, limits: FetchLimits, reset: Reset) -> None:
        self.limits = limits
        self.reset = reset
        self.positions: dict[TopicPartition, Position] = {}
        self.error: OttlaError | None = None  # to be raised to the reader at its next step
        self.waiting_bytes = 0
        self._chunks: deque[Chunk] = deque()
        self._turns: dict[Position, None] = {}
        self._fetches: dict[str, int] = {}

    # ---- what the user says --------------------------------------------------------------------------------------

    def assign(self, partition: TopicPartition) -> Position:
        """Begin with a partition; its `offset` or `start` is then to be set by `seek` or `seek_to_time`."""
        position = self.positions.get(partition)
        if position is None:
            position = self.positions[partition] = Position(partition)
            self._turns[position] = None
        return position

    def seek(self, position: Position, offset: int) -> None:
        """Go on at `offset`, whatever was fetched so far."""
        self._drop(position)
        position.offset = position.fetch_offset = offset

    def seek_to_time(self, position: Position, timestamp_ms: int) -> None:
        """Go on where ListOffsets says that `timestamp_ms` is; until then nothing is fetched."""
        self._drop(position)
        position.offset = None
        position.start = timestamp_ms

    def pause(self, position: Position) -> None:
        """Hand out and fetch nothing of it; what was fetched is kept."""
        position.paused = True

    def resume(self, position: Position) -> None:
        """Go on with a paused partition."""
        position.paused = False

    @property
    def done(self) -> bool:
        """Whether every partition has a stop and has reached it."""
        return bool(self.positions) and all(position.done for position in self.positions.values())

    def unresolved(self) -> list[Position]:
        """Positions whose offset is to be looked up."""
        return [position for position in self.positions.values() if position.offset is None]

    # ---- fetching ------------------------------------------------------------------------------------------------

    def plan(self, now: float, routes: Mapping[TopicPartition, Route]) -> tuple[list[Fetch], bool]:
        """Fetches to send now, and whether some partition has no known leader."""
        fetches: dict[str, Fetch] = {}
        unroutable = False
        share_bytes = self.limits.share_bytes(len(self.positions))
        for position in list(self._turns):
            if not position.wants_more(share_bytes) or position.retry_at > now:
                continue
            route = routes.get(position.partition)
            if route is None:
                unroutable = True
            elif self._fetches.get(route.address, 0) < self.limits.requests_per_broker:
                fetch = fetches.setdefault(route.address, Fetch(route.address, share_bytes, now))
                fetch.parts.append(FetchPart(position, route, position.fetch_offset, position.version))
                position.in_flight = True
                del self._turns[position]
                self._turns[position] = None
        for address in fetches:
            self._fetches[address] = self._fetches.get(address, 0) + 1
        return list(fetches.values()), unroutable

    def retry_at(self, now: float) -> float:
        """When a partition that failed may be asked for again."""
        return min((p.retry_at for p in self.positions.values() if p.retry_at > now), default=float("inf"))

    def on_reply(self, fetch: Fetch, answers: Mapping[PartitionId, Fetched], now: float) -> News:
        """The broker answered; a partition that the answer leaves out had no room in it."""
        news = News()
        for part in fetch.parts:
            self._on_fetched(part, answers.get(part.route.partition_id, Fetched()), now, news)
        self._on_done(fetch)
        return news

    def on_failed(self, fetch: Fetch, code: int, message: str, now: float) -> News:
        """The fetch as a whole came to nothing."""
        news = News()
        for part in fetch.parts:
            self._on_fetched(part, Fetched(code=code, message=message), now, news)
        self._on_done(fetch)
        return news

    def on_new_leader(self, partition: TopicPartition) -> None:
        """The leader that refused is known to be replaced: don't wait for the back-off."""
        if partition in self.positions:
            self.positions[partition].retry_at = 0.0

    def _on_done(self, fetch: Fetch) -> None:
        self._fetches[fetch.address] -= 1

    def _on_fetched(self, part: FetchPart, answer: Fetched, now: float, news: News) -> None:
        position = part.position
        position.in_flight = False
        if part.version != position.version or position.partition not in self.positions:
            return
        if answer.code:
            self._on_error(part, answer, now, news)
            return
        position.failures = 0
        position.high_watermark = max(position.high_watermark, answer.high_watermark)
        if answer.records:
            self._take(part, answer.records)

    def _take(self, part: FetchPart, records: bytes) -> None:
        position = part.position
        after = part.offset
        for _, header in iter_headers(records):
            after = max(after, header.next_offset)
        if after == part.offset:
            self.error = error_from_code(
                ErrorCode.CORRUPT_MESSAGE,
                f"{position.partition}: what was fetched at offset {part.offset} holds no whole batch with that offset",
                hint=f"see the broker's log; to go on without it, seek to an offset after {part.offset}",
            )
            return
        position.fetch_offset = after
        position.waiting_bytes += len(records)
        self.waiting_bytes += len(records)
        self._chunks.append(Chunk(position, part.version, records))

    def _on_error(self, part: FetchPart, answer: Fetched, now: float, news: News) -> None:
        position = part.position
        news.refresh = news.refresh or answer.code in REFRESHING
        if answer.code == ErrorCode.OFFSET_OUT_OF_RANGE and self.reset != "none":
            self.seek_to_time(position, EARLIEST_TIMESTAMP if self.reset == "earliest" else LATEST_TIMESTAMP)
            news.reset.append(
                f"{position.partition}: offset {part.offset} is not in the log ({answer.message}); "
                f"going on at the {self.reset} one, as auto_offset_reset says"
            )
        elif is_retriable(answer.code):
            pause = min(self.limits.backoff_most_s, self.limits.backoff_s * 2.0 ** min(position.failures, 30))
            position.retry_at = now + pause
            position.failures += 1
        else:
            self.error = error_from_code(answer.code, f"{position.partition}: {answer.message}")
            position.retry_at = now + self.limits.backoff_most_s

    # ---- reading -------------------------------------------------------------------------------------------------

    def next_chunk(self) -> Chunk | None:
        """The next chunk to read; chunks of paused partitions stay in their order."""
        for index, chunk in enumerate(self._chunks):
            if not chunk.position.paused:
                del self._chunks[index]
                return chunk
        return None

    def on_read(self, chunk: Chunk) -> None:
        """The chunk was read to its end, or is not wanted any more: its bytes are free."""
        self.waiting_bytes -= len(chunk.records)
        chunk.position.waiting_bytes -= len(chunk.records)

    def _drop(self, position: Position) -> None:
        position.version += 1
        for chunk in [c for c in self._chunks if c.position is position]:
            self._chunks.remove(chunk)
            self.on_read(chunk)
