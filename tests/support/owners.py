"""An owner by hand: its effects as they come, a clock that is moved, a state that is easy to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from batches import NOON

from ottla_core.coordination.append_round import ShardRequest
from ottla_core.coordination.effects import Effect, Leave, Respond, RespondError, Send, ShardLimits
from ottla_core.coordination.owner import Owner
from ottla_core.coordination.phases import Phase
from ottla_core.coordination.shard import Entry, FromMemory, Later, Marker, Recalled, Record, Resolve, ShardDecision
from ottla_core.coordination.shard_log import Append, Appended, Batches, Call, Confirmed, Result
from ottla_core.coordination.timers import Moment, TimerKey
from ottla_core.records.batch import headers_at, iter_headers, placed_prefix, read_header
from ottla_core.records.fence import ShardFence, seal_fence

MINE = ShardFence(5, 70)
LIMITS = ShardLimits(unproved_s=3.0, append_s=2.0, retry_s=0.1, retry_most_s=0.1, max_batch_bytes=1000, max_waiting=4)


class Book:
    """A state that is a dictionary; `seen` is every change in its order."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}
        self.notes: list[Any] = []
        self.seen: list[Record] = []
        self.on_loaded_timers: dict[TimerKey, float] = {}

    def apply(self, record: Record) -> None:
        self.seen.append(record)
        if not isinstance(record, Marker):
            self.values[record.key] = record.value

    def remember(self, change: Any) -> None:
        self.notes.append(change)

    def on_loaded(self, now: Moment) -> ShardDecision[None]:
        return ShardDecision(None, timers={key: now.at + after_s for key, after_s in self.on_loaded_timers.items()})

    def on_timer(self, key: TimerKey, now: Moment) -> ShardDecision[None]:
        return ShardDecision(None, records=(Entry(b"timer", str(key).encode()),))


BookDecide = Callable[[Book, Moment], ShardDecision[Any]]


def put(key: bytes, value: bytes = b"v", *, effects: tuple[Any, ...] = ()) -> BookDecide:
    """Answered with what the key had before."""
    return lambda book, now: ShardDecision(book.values.get(key), records=(Entry(key, value),), effects=effects)


def get(key: bytes) -> BookDecide:
    return lambda book, now: ShardDecision(book.values.get(key))


def later(key: str) -> BookDecide:
    return lambda book, now: ShardDecision(Later(key))


def resolve(key: str, response: Any) -> BookDecide:
    return lambda book, now: ShardDecision(None, effects=(Resolve(key, response),))


def set_timers(timers: Mapping[TimerKey, float | None]) -> BookDecide:
    """`timers` in seconds from now."""
    return lambda book, now: ShardDecision(
        None, timers={key: None if after is None else now.at + after for key, after in timers.items()}
    )


def stored(batch: bytes, base_offset: int) -> bytes:
    """The batch as it lies in a log."""
    return placed_prefix(read_header(batch), base_offset, 0) + batch[16:]


def laid(batches: bytes, base_offset: int) -> bytes:
    """The same of several, one after another."""
    placed = zip(iter_headers(batches), headers_at(batches, base_offset), strict=True)
    return b"".join(stored(batches[at : at + header.size_bytes], header.base_offset) for (at, _), header in placed)


class Hand:
    """Everything that happens to one owner is done here, and everything that it does is kept."""

    def __init__(self, *, limits: ShardLimits = LIMITS, fence: ShardFence = MINE) -> None:
        self.at, self.cpu_s = 100.0, 0.0
        self.book = Book()
        self.owner: Owner[Book] = Owner(fence, self.book, limits, self.now, lambda: 1.0, lambda: self.cpu_s)
        self.sent: list[Send] = []
        self.answers: dict[str, Any] = {}
        self.refusals: dict[str | None, Exception] = {}
        self.left: Leave | None = None
        self.effects: list[Effect] = []

    @property
    def now(self) -> Moment:
        return Moment(self.at, NOON + int(self.at * 1000))

    @property
    def call(self) -> Call:
        return self.sent[-1].call

    def start(self) -> None:
        self._take(self.owner.on_start(self.now))

    def result(self, result: Result, *, of: int = -1) -> None:
        """An answer to one of the calls that were sent; to the last one by default."""
        self._take(self.owner.on_result(self.sent[of].number, result, self.now))

    def ask(
        self,
        token: str,
        decide: BookDecide,
        *,
        wait_s: float = 60.0,
        without_confirmation: bool = False,
        at_leisure: bool = False,
    ) -> None:
        request = ShardRequest(token, decide, self.at + wait_s, without_confirmation, at_leisure)
        self._take(self.owner.on_request(request, self.now))

    def recall(self, decide: FromMemory[Any]) -> Recalled | None:
        recalled = self.owner.recall(decide, self.now)
        if recalled is not None:
            self._take(self.owner.on_recalled(recalled, self.now))
        return recalled

    def tick(self, after_s: float = 0.0) -> None:
        self.at += after_s
        self._take(self.owner.on_tick(self.now))

    def gap(self, seconds: float) -> None:
        """The process stands still: its clock does too, and the owner hears of it."""
        self.owner.on_gap(seconds)

    def hear_of_a_leader(self) -> None:
        self._take(self.owner.on_leader(self.now))

    def leave(self) -> None:
        self._take(self.owner.leave("unassigned"))

    def serve(self, *batches: bytes) -> None:
        """Fenced, and loaded with these; the next offset is theirs and the fence's."""
        self.start()
        data, end = b"", 0
        for batch in (*batches, seal_fence(self.owner.fence, NOON)):
            data += stored(batch, end)
            end += read_header(batch).record_count
        self.result(Appended(end - 1, end))
        self.result(Batches(data, end))
        assert self.owner.phase is Phase.SERVING

    def prove(self) -> None:
        """The call in the air succeeds, as it should."""
        if isinstance(self.call, Append):
            base = self.call.expected_offset
            self.result(Appended(base, headers_at(self.call.batches, base)[-1].next_offset))
        else:
            self.result(Confirmed())

    def _take(self, effects: list[Effect]) -> None:
        self.effects += effects
        for effect in effects:
            match effect:
                case Send():
                    self.sent.append(effect)
                case Respond(token, response):
                    assert token not in self.answers
                    self.answers[token] = response
                case RespondError(token, error):
                    assert token not in self.refusals
                    self.refusals[token] = error
                case Leave():
                    assert self.left is None
                    self.left = effect
