"""A consumer's position in each of its partitions, the next fetches, and the fetched data that was not read yet.

The rules this file owns:

* ottla.machines.fetch_sessions has the rules for what is requested from which broker.
* Only positions in `_turns` are considered. Each change of a position adds it there, because it may need a fetch.
* `prefetch_bytes` limits the fetched but unread data. Half of a partition's share is for data that waits to be read,
  and half for a fetch in flight. Only a first batch, which is always whole, may exceed the limit (rule 57).
* Partitions take turns: a fetched partition goes to the end, and data is read in the order of its arrival.
* A seek invalidates all data of its partition that is in flight or waits to be read (`version`).
* Only OFFSET_OUT_OF_RANGE from a leader resets a position (rule 67); after any other error, the consumer retries or
  raises.
* With a new leader, a position is checked before the next fetch: where did the epoch of the last fetched batch end in
  that leader's log? If it ended before the position, the log was truncated; the consumer goes back to that offset and
  reports it, or raises (KIP-320). A stop behind that offset moves there, or the consumer would wait for it for ever.
* A recreated topic is another topic, in which the old offset is invalid; its position is also reset, which is reported
  once. If the stop is an offset in the old topic, nothing is fetched, because the stop would never be reached, or too
  soon.
* A leader may name a closer replica. The consumer fetches from that replica until it fails, the leader changes, or its
  time is over; the leader may have records that the replica lacks (KIP-392).
* The consumer does not wait for an overdue fetch from a broker that is no longer the leader.

Not thread-safe: the consumer holds one lock over it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.failures import (
    log_truncated,
    no_batch,
    old_format,
    position_reset,
    stop_truncated,
    topic_recreated,
)
from ottla.machines.fetch_sessions import FetchSessions
from ottla.machines.metadata import FAILING_PACE_S, OVERDUE_PACE_S, OVERDUE_S, REFRESHING, BrokerView, LookupPace, Route
from ottla.machines.position import (
    NO_EPOCH,
    EpochCheck,
    Fetch,
    FetchedData,
    FetchOutcome,
    FetchPart,
    PartitionData,
    Position,
    StopOffset,
    Target,
)
from ottla_core.errors import is_retriable
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, PartitionId, TopicId, TopicPartition
from ottla_core.records.batch import is_old_format

Reset = Literal["earliest", "latest", "none"]

_LEAST_SHARE_BYTES: Final = 16 * 1024
_REPORTED_AFTER_S: Final = 5.0
"""A partition that can't be read for this long is reported. Elections take less."""
_REPORT_PACE_S: Final = 10.0
"""Failures of one broker are reported at most once in this time, since all its partitions fail together."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The consumer's settings for fetches; sizes are in bytes, times in seconds."""

    prefetch_bytes: int = 16 * 1024 * 1024
    partition_bytes: int = 1024 * 1024
    requests_per_broker: int = 16
    backoff_s: float = 0.1
    backoff_most_s: float = 1.0
    max_wait_s: float = 0.5
    replica_s: float = 300.0  # how long a replica is read from that the leader has named
    shun_s: float = 5.0  # how long none is read from after one was of no use

    def share_bytes(self, partitions: int) -> int:
        """Return the bytes that each of `partitions` may have waiting, and the same again in a fetch in flight."""
        return min(self.partition_bytes, max(_LEAST_SHARE_BYTES, self.prefetch_bytes // (2 * max(1, partitions))))


class SubscriptionState:
    """The state of all assigned partitions. `now` is in monotonic seconds."""

    def __init__(self, limits: FetchLimits, reset: Reset) -> None:
        self.limits = limits
        self.reset = reset
        self.positions: dict[TopicPartition, Position] = {}
        self.error: OttlaError | None = None  # to be raised to the reader at its next step
        self.waiting_bytes = 0
        self._fetched: deque[FetchedData] = deque()
        self._turns: dict[Position, None] = {}
        self._sessions = FetchSessions()
        self._unfinished: dict[Position, None] = {}  # as far as `done` has found out
        self.unlocated: dict[Position, None] = {}  # without an offset
        self._pace = LookupPace()
        self._look_again_at = float("inf")
        self._reports_at: dict[str, float] = {}  # by address, when the next failure may be reported
        self.resets = 0
        self.recreated: list[str] = []  # warnings about topics that were recreated
        self._reported_recreated: dict[str, TopicId] = {}
        self.truncations = 0

    # ---- what the user says --------------------------------------------------------------------------------------

    def assign(self, partition: TopicPartition, start: int | None = LATEST_TIMESTAMP) -> Position:
        """Add a partition, which begins at `start` unless `seek` or `seek_to_time` changes that."""
        position = self.positions.get(partition)
        if position is None:
            position = self.positions[partition] = Position(partition, start)
            self._on_moved(position)
        return position

    def unassign(self, partition: TopicPartition) -> None:
        """Remove a partition; its fetched data is dropped, and data in flight will be dropped on arrival."""
        position = self.positions.get(partition)
        if position is not None:
            del self.positions[partition]
            position.go_to(None)
            for positions in (self._turns, self._unfinished, self.unlocated):
                positions.pop(position, None)
            self._drop(position)
            if self.error is not None and self.error.about == partition:
                self.error = None
            topic = partition.topic
            if topic in self._reported_recreated and not any(other.topic == topic for other in self.positions):
                del self._reported_recreated[topic]

    def seek(self, position: Position, offset: int, epoch: int = NO_EPOCH) -> None:
        """Continue at `offset`, whatever was fetched so far; `epoch` is the leader epoch of the record before it, if
        known."""
        position.go_to(offset, epoch)
        self._drop(position)
        self._on_moved(position)

    def seek_to_time(self, position: Position, timestamp_ms: int | None) -> None:
        """Continue at the offset of `timestamp_ms` (None: the committed offset), once ListOffsets has returned it."""
        position.go_to(None, start=timestamp_ms)
        position.topic_id = None  # wherever that will be, it is in the topic of then
        self._drop(position)
        self._on_moved(position)

    def start_over(self) -> None:
        """Start over after an interrupt at an unknown point: keep only the positions, and fetch everything again."""
        for position in self.positions.values():
            position.in_flight = None
            if position.offset is not None:
                position.go_to(position.offset, position.offset_epoch)
            position.waiting_bytes = 0
        self._fetched.clear()
        self.waiting_bytes = 0
        self._turns, self._unfinished = dict.fromkeys(self.positions.values()), dict.fromkeys(self.positions.values())
        self.unlocated = {p: None for p in self.positions.values() if p.offset is None}
        self._sessions.clear()

    def pause(self, position: Position) -> None:
        """Stop returning and fetching records of a partition; fetched data is kept."""
        position.paused = True

    def resume(self, position: Position) -> None:
        """Resume a paused partition."""
        position.paused = False
        self._look_at(position)

    @property
    def done(self) -> bool:
        """Whether every partition has a stop and has reached it."""
        while self._unfinished:
            position = next(iter(self._unfinished))
            if not position.done:
                return False
            del self._unfinished[position]
        return bool(self.positions)

    def unresolved(self, now: float) -> list[Position]:
        """Return the positions whose offset is to be looked up by their `start`, now or earlier."""
        return [p for p in self.unlocated if p.start is not None and p.locate_at <= now]

    def _on_moved(self, position: Position) -> None:
        if position.offset is None:
            self.unlocated[position] = None
        else:
            self.unlocated.pop(position, None)
        self._unfinished[position] = None
        self._look_at(position)

    def _look_at(self, position: Position) -> None:
        if self.positions.get(position.partition) is position:
            self._turns[position] = None

    # ---- fetching ------------------------------------------------------------------------------------------------

    def plan(
        self, now: float, routes: Mapping[TopicPartition, Route], brokers: Mapping[int, BrokerView] | None = None
    ) -> tuple[list[Fetch], bool]:
        """Return the fetches to send now, and whether to refresh the metadata."""
        fetches: dict[Target, Fetch] = {}
        share_bytes = self.limits.share_bytes(len(self.positions))
        self._look_again_at = float("inf")
        refresh, has_missing = self._look_after(now, routes), False
        for position in list(self._turns):
            if not position.wants_more(share_bytes):
                del self._turns[position]
                continue
            route = routes.get(position.partition)
            if route is None:
                has_missing = True
                continue
            if not position.is_due(route, now):
                refresh = self._request_refresh(now, FAILING_PACE_S) or refresh
                continue
            if self._is_another_topic(position, route, now) or position.check(route) is not None:
                continue  # it is to be resolved, or `checks` has it
            target = position.nearest(route, brokers or {}, now, self.limits.shun_s)
            fetch = fetches.get(target)
            if fetch is None:
                is_full = self._sessions.open_at(target.address) >= self.limits.requests_per_broker
                if is_full or not self._sessions.may_begin(target):
                    continue
                fetch = fetches[target] = self._sessions.begin(target, share_bytes, now)
            self._sessions.add(fetch, position, route)
            del self._turns[position]
        for target in self._sessions.waiting:
            fetches[target] = self._sessions.begin(target, share_bytes, now)
        if has_missing:
            refresh = self._request_refresh(now, self._pace.missing_s) or refresh
        self._pace.note_missing(has_missing, asked=refresh)
        return list(fetches.values()), refresh

    def on_view(self, now: float, routes: Mapping[TopicPartition, Route], brokers: Mapping[int, BrokerView]) -> None:
        """Handle new metadata: partitions that are requested from the wrong broker are requested from the right one."""
        for part in self._sessions.parts:
            position, route = part.position, routes.get(part.position.partition, part.route)
            is_moved = (route.partition_id, route.leader_epoch) != (part.route.partition_id, part.route.leader_epoch)
            if is_moved or position.nearest(route, brokers, now, self.limits.shun_s) != part.fetch.target:
                self._withdraw(position)

    def _withdraw(self, position: Position) -> None:
        if isinstance(position.in_flight, FetchPart):
            self._sessions.withdraw(position.in_flight)
            self._look_at(position)

    def _is_another_topic(self, position: Position, route: Route, now: float) -> bool:
        """Return whether the topic was recreated since it was read, and reset the position in that case."""
        known, topic, current = position.topic_id, position.partition.topic, route.partition_id.topic_id
        if known is None or known == current:
            position.topic_id, position.high_watermark = current, position.high_watermark if known else -1
            return False
        error = topic_recreated(topic, self.reset)
        if self.reset == "none":
            self.error = error
            position.retry_at, position.route = now + self.limits.backoff_most_s, route
            return True
        outcome = FetchOutcome()
        self._reset(position, error.message, outcome)
        if self._reported_recreated.get(topic) != current:  # not for each partition
            self._reported_recreated[topic] = current
            self.recreated += outcome.warnings
        return True

    def _look_after(self, now: float, routes: Mapping[TopicPartition, Route]) -> bool:
        """Give up overdue fetches if another leader is known; return whether to refresh the metadata."""
        refresh = False
        for fetch in self._sessions.open:
            overdue_at = fetch.sent_at + self.limits.max_wait_s + OVERDUE_S
            if overdue_at > now:
                self._look_again_at = min(self._look_again_at, overdue_at)
                continue
            fetch.is_overdue = True
            for part in [*fetch.session.parts.values()]:
                route = routes.get(part.position.partition, part.route)
                if fetch.target.from_follower or route.leader_epoch > part.route.leader_epoch:
                    self._withdraw(part.position)
                    part.position.leave_replica(now + self.limits.shun_s)
                else:
                    refresh = self._request_refresh(now, OVERDUE_PACE_S) or refresh
        return refresh

    def _request_refresh(self, now: float, pace_s: float) -> bool:
        due, again_at = self._pace.due(now, pace_s)
        self._look_again_at = min(self._look_again_at, again_at)
        return due

    def wake_at(self, now: float) -> float:
        """Return when to call `plan`, or to look up positions, again if nothing happens before."""
        retried_at = (p.retry_at for p in self._turns if p.retry_at > now)
        located_at = (p.locate_at for p in self.unlocated if p.start is not None and p.locate_at > now)
        return min([self._look_again_at, *retried_at, *located_at])

    def on_response(
        self, fetch: Fetch, responses: Mapping[PartitionId, PartitionData], now: float, *, in_session: bool = False
    ) -> FetchOutcome:
        """Handle a response to a fetch, `in_session` or not. Missing partitions had no space in it, or nothing new."""
        return self._on_partitions(self._sessions.on_response(fetch, responses, in_session=in_session), now)

    def on_failed(self, fetch: Fetch, code: int, message: str, now: float) -> FetchOutcome:
        """Handle the failure of a whole fetch, which also ends its session."""
        failed = PartitionData(code=code, message=message)
        outcome = self._on_partitions(self._sessions.on_failed(fetch, failed), now)
        if self.error is not None and self.error.code == code:
            self.error = error_from_code(code, message)  # about none of its partitions
        return outcome

    def _on_partitions(self, parts: Iterable[tuple[FetchPart, PartitionData]], now: float) -> FetchOutcome:
        outcome = FetchOutcome()
        for part, response in parts:
            self._on_partition(part, response, now, outcome)
        return outcome

    def _on_partition(self, part: FetchPart, response: PartitionData, now: float, outcome: FetchOutcome) -> None:
        position = part.position
        self._look_at(position)
        if part.version != position.version or position.partition not in self.positions:
            return
        if response.code:
            self._on_error(part, response, now, outcome)
            return
        position.failures = 0
        position.high_watermark = max(position.high_watermark, response.high_watermark)
        if response.preferred_replica is not None and not part.fetch.target.from_follower:
            position.replica = response.preferred_replica
            position.replica_until = now + self.limits.replica_s
        if response.records:
            self._take(part, response, now)

    def _take(self, part: FetchPart, response: PartitionData, now: float) -> None:
        position, records = part.position, response.records
        end = position.advance(records, part.route.leader_epoch)
        if not end:
            unreadable = old_format if is_old_format(records) else no_batch
            self.error = unreadable(position.partition, part.offset)
            position.retry_at = now + self.limits.backoff_most_s
            return
        if end < len(records):
            records = memoryview(records)[:end]
        position.waiting_bytes += len(records)
        self.waiting_bytes += len(records)
        topic_id = part.route.partition_id.topic_id
        self._fetched.append(FetchedData(position, part.version, records, response.aborted, topic_id))

    def _on_error(self, part: FetchPart, response: PartitionData, now: float, outcome: FetchOutcome) -> None:
        position = part.position
        if part.fetch.target.from_follower:  # whatever it is that it lacks, the leader knows
            position.leave_replica(now + self.limits.shun_s)
            outcome.refresh = outcome.refresh or response.code in REFRESHING
        elif response.code == ErrorCode.OFFSET_OUT_OF_RANGE and self.reset != "none":
            self._reset(
                position, position_reset(position.partition, part.offset, response.message, self.reset), outcome
            )
        elif response.code == ErrorCode.CORRUPT_MESSAGE:
            self._on_unreadable(part, response, now)
        else:
            self._on_error_code(position, response.code, response.message, now, outcome)

    def _on_unreadable(self, part: FetchPart, response: PartitionData, now: float) -> None:
        """Let the reader raise the error, as Kafka's consumer does: the leader would fail again."""
        position = part.position
        told = f": {response.message}" if response.message else ", which is damaged, or larger than a response can be"
        self.error = error_from_code(
            ErrorCode.CORRUPT_MESSAGE,
            f"its leader can't send the batch at offset {part.offset}{told}",
            of=position.partition,
            hint=f"check the broker's log; to skip the batch, seek to an offset after {part.offset}",
        )
        position.retry_at = now + self.limits.backoff_most_s

    def _on_error_code(self, position: Position, code: int, message: str, now: float, outcome: FetchOutcome) -> None:
        """Retry after a back-off, or let the reader raise the error."""
        outcome.refresh = outcome.refresh or code in REFRESHING
        if is_retriable(code):
            pause = min(self.limits.backoff_most_s, self.limits.backoff_s * 2.0 ** min(position.failures, 30))
            position.retry_at = now + pause
            if not position.failures:
                position.failing_since = now
            position.failures += 1
            self._report(position, code, message, now, outcome)
        else:
            self.error = error_from_code(code, message, of=position.partition)
            position.retry_at = now + self.limits.backoff_most_s

    def _report(self, position: Position, code: int, message: str, now: float, outcome: FetchOutcome) -> None:
        """Warn that a partition can't be read, and has not been for some time."""
        address = position.route.address if position.route is not None else ""
        if now >= max(position.failing_since + _REPORTED_AFTER_S, self._reports_at.get(address, now)):
            # Brokers may come and go for months, so the others that have not failed lately are forgotten.
            self._reports_at = {other: at for other, at in self._reports_at.items() if at > now}
            self._reports_at[address] = now + _REPORT_PACE_S
            error = error_from_code(code, message, of=position.partition)
            outcome.warnings.append(f"{position.failures} attempts in a row have failed, and another follows: {error}")

    def _reset(self, position: Position, message: str, outcome: FetchOutcome) -> None:
        self.resets += 1
        self.seek_to_time(position, EARLIEST_TIMESTAMP if self.reset == "earliest" else LATEST_TIMESTAMP)
        outcome.warnings.append(message)

    # ---- new leaders -----------------------------------------------------------------------------------------------

    def checks(self, now: float, routes: Mapping[TopicPartition, Route]) -> list[EpochCheck]:
        """Return the checks that leaders have to make now, before further fetches; `on_checked` gets each result."""
        due = []
        for position in self._turns:
            route = routes.get(position.partition)
            if route is None or position.offset is None or position.in_flight is not None:
                continue
            if position.topic_id not in (None, route.partition_id.topic_id):
                continue  # an epoch of the topic before it says nothing
            check = position.check(route)
            if check is None or not position.is_due(route, now):
                continue
            position.in_flight, position.route = check, route
            due.append(check)
        return due

    def on_checked(self, check: EpochCheck, epoch: int, end: int, now: float) -> FetchOutcome:
        """Handle a check's result: `check.epoch` ends at `end` in the leader's log; (-1, -1): it does not know that
        epoch."""
        outcome = FetchOutcome()
        position = check.position
        if not self._is_current(check):
            return outcome
        position.failures = 0
        known = epoch != NO_EPOCH and end >= 0
        if check.stop is not None:
            self._on_stop_checked(check, check.stop, end if known else check.stop.offset, outcome)
        elif known and end >= position.fetch_offset:
            position.leader_epoch = check.route.leader_epoch
        elif known and position.offset is not None and end >= position.offset:
            self.seek(position, position.offset, epoch)  # what was handed out still exists; the rest is fetched again
            position.leader_epoch = check.route.leader_epoch
        else:
            self._on_truncated(check, epoch, end if known else None, now, outcome)
        return outcome

    def _on_stop_checked(self, check: EpochCheck, stop: StopOffset, end: int, outcome: FetchOutcome) -> None:
        """Stop where the log was truncated: the records before the former stop would never come."""
        if end < stop.offset:
            outcome.warnings.append(stop_truncated(check.position.partition, stop.offset, end))
        check.position.stop = stop._replace(offset=min(end, stop.offset), epoch=check.route.leader_epoch)

    def on_check_failed(self, check: EpochCheck, code: int, message: str, now: float) -> FetchOutcome:
        """Handle a check that failed without a result."""
        outcome = FetchOutcome()
        if self._is_current(check):
            self._on_error_code(check.position, code, message, now, outcome)
        return outcome

    def _is_current(self, check: EpochCheck) -> bool:
        position = check.position
        if position.in_flight is check:
            position.in_flight = None
            self._look_at(position)
        return check.version == position.version and position.partition in self.positions

    def _on_truncated(self, check: EpochCheck, epoch: int, end: int | None, now: float, outcome: FetchOutcome) -> None:
        position = check.position
        at = position.offset or 0
        self.truncations += 1
        error = log_truncated(position.partition, at, check.epoch, end)
        if self.reset == "none":
            self.error = error
            position.retry_at = now + self.limits.backoff_most_s
        elif end is None:
            self._reset(
                position, f"{error.message}; continuing at the {self.reset} one, as auto_offset_reset says", outcome
            )
        else:
            self.seek(position, end, epoch)
            position.leader_epoch, position.high_watermark = check.route.leader_epoch, -1
            outcome.warnings.append(f"{error.message}; continuing there")

    # ---- reading -------------------------------------------------------------------------------------------------

    def take_error(self) -> OttlaError | None:
        """Return the error to raise now, once. An error of one partition comes after the data that was fetched before
        it."""
        error = self.error
        if error is None or (isinstance(error.about, TopicPartition) and self._is_waiting(error.about)):
            return None
        self.error = None
        return error

    def _is_waiting(self, partition: TopicPartition) -> bool:
        position = self.positions.get(partition)
        return position is not None and position.waiting_bytes > 0

    def next_fetched(self) -> FetchedData | None:
        """Return the next fetched data to read; data of paused partitions keeps its place."""
        for index, fetched in enumerate(self._fetched):
            if not fetched.position.paused:
                del self._fetched[index]
                return fetched
        return None

    def on_read(self, fetched: FetchedData) -> None:
        """Free the bytes of data that was read to its end or is no longer needed."""
        self.waiting_bytes -= len(fetched.records)
        fetched.position.waiting_bytes -= len(fetched.records)
        self._look_at(fetched.position)

    def _drop(self, position: Position) -> None:
        """Drop the fetched data of a position, and its data in flight."""
        self._withdraw(position)
        for fetched in [c for c in self._fetched if c.position is position] if position.waiting_bytes else ():
            self._fetched.remove(fetched)
            self.on_read(fetched)
