"""A round decides the waiting requests of a shard one after another, and proves all decisions by one call to the log.

One call per request would bound a shard to the round trips to its log. So all waiting requests are decided together.
Each decision is applied before the next one is made, so that two joins of one round see each other. One call appends
what they write (group commit), in as few batches as possible (`RoundRecords`). If no request writes, the call is a
check. Either way the responses wait for it, in the order of their decisions.

A decision is a function of the state and the time, and changes nothing until it is applied. So a request that is
rejected, that has no room, or that meets a bug leaves no trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, NamedTuple

from ottla_core.coordination.batches import is_one_batch, size_limit
from ottla_core.coordination.round_records import RoundRecords
from ottla_core.coordination.shard import Decide, S, ShardDecision, ShardState
from ottla_core.coordination.timers import Moment, TimerKey, Timers
from ottla_core.errors import ErrorCode, OttlaError

ROUND_S: Final = 0.02
"""The CPU time after which a round makes no further decision. A round blocks the loop, and other shards and heartbeats
have to be served, too. One decision takes between some microseconds and 0.1 s."""


@dataclass(frozen=True, slots=True)
class ShardRequest(Generic[S]):
    """A request of a client. `token` stands for the caller. It is None for a request of the owner's own.

    `without_confirmation` marks a heartbeat, which changes timers only: an owner may respond that was one a moment ago.
    `at_leisure` marks a request that begins no round for a while, and shares the round of requests that come until
    then.
    """

    token: Any
    decide: Decide[S]
    give_up_at: float
    without_confirmation: bool = False
    at_leisure: bool = False


class RoundOutcome(NamedTuple):
    """The outcome of a request once the round is confirmed: a decision, or the error that rejects it."""

    token: Any
    decision: ShardDecision[Any] | None
    error: Exception | None = None


class _Verdict(Enum):
    TAKEN = "its decision is part of the round"
    REJECTED = "its outcome is an error"
    NO_ROOM = "its records have no room in this round, but would have in the next one"


class AppendRound(Generic[S]):
    """A round in the making, and then under way. Its batches have at most `max_batch_bytes` in all.

    `cpu_s()` is the CPU time that has been spent so far.
    """

    def __init__(self, shard: S, timers: Timers, max_batch_bytes: int, cpu_s: Callable[[], float]) -> None:
        self.outcomes: Final[list[RoundOutcome]] = []
        self.records: Final = RoundRecords()
        self._cpu_s: Final = cpu_s
        self._ends_at: Final = cpu_s() + ROUND_S
        self._shard = shard
        self._timers = timers
        self._room_bytes = max_batch_bytes
        self._largest_bytes: Final = max_batch_bytes

    def decide_all(self, waiting: deque[ShardRequest[S]], now: Moment) -> None:
        """Take from `waiting` what fits, in order, and then the timers that are due, if no request is left. If its
        time ends, the next round continues.

        Requests come first: among them may be the heartbeat that moves the timer.
        """
        while waiting and not self._is_over:
            request = waiting[0]
            # It is not decided at all. Its client has gone, and a decision would take effect without any client hearing
            # of it.
            if request.give_up_at <= now.at:
                self._reject(request.token, _too_late())
            elif self._decide(request.token, request.decide, now) is _Verdict.NO_ROOM:
                return  # the next round decides it: a decision changes nothing
            waiting.popleft()
        while not self._is_over and (key := self._timers.pop_due(now.at)) is not None:
            verdict = self._decide(None, _on_timer(key), now)
            if verdict is _Verdict.NO_ROOM:
                # It goes off again with the next round. A timer that is taken out and dropped would never end what it
                # was to end.
                self._timers.set(key, now.at)
                return
            if verdict is _Verdict.REJECTED:
                self._timers.set_again(key, now.at, str(self.outcomes[-1].error))

    @property
    def _is_over(self) -> bool:
        return self._cpu_s() > self._ends_at

    def needs_check(self, *, is_proved: bool) -> bool:
        """Return whether any of the responses waits for a new proof, because the last one does not count for it."""
        # An error needs a proof as well: a deposed owner would reject what its successor accepts.
        return any(decision is None or not (is_proved and decision.by_last_proof) for _, decision, _ in self.outcomes)

    def dismiss(self) -> list[Any]:
        """Return the tokens of all that wait for the round, and make them wait no longer.

        The other effects of their decisions still come: they are in the log, or will be.
        """
        tokens = [outcome.token for outcome in self.outcomes if outcome.token is not None]
        # Errors do not wait for a proof once their callers are gone. Decisions stay, because their effects are still to
        # come.
        self.outcomes[:] = [outcome._replace(token=None) for outcome in self.outcomes if outcome.decision is not None]
        return tokens

    def _decide(self, token: Any, decide: Decide[S], now: Moment) -> _Verdict:
        try:
            decision = decide(self._shard, now)
            assert is_one_batch(decision.records), "a leader that fails may keep the first of a round's batches alone"
        except Exception as error:  # it was rejected, or has a bug; nothing has changed
            return self._reject(token, error)
        size_bytes = size_limit(decision.records)
        # No round will ever have room for it, and before it is applied is the last moment to say so.
        if size_bytes > self._largest_bytes:
            return self._reject(token, _too_large(size_bytes, self._largest_bytes))
        added_bytes = size_bytes - self.records.replaced_bytes(decision.records)
        if added_bytes > self._room_bytes:
            return _Verdict.NO_ROOM
        apply_decision(decision, self._shard, self._timers)
        self.records.add(decision.records)
        self._room_bytes -= added_bytes
        # A timer without effects has no outcome, because nothing of it waits for the log.
        if token is not None or decision.effects:
            self.outcomes.append(RoundOutcome(token, decision))
        return _Verdict.TAKEN

    def _reject(self, token: Any, error: Exception) -> _Verdict:
        self.outcomes.append(RoundOutcome(token, None, error))
        return _Verdict.REJECTED


def apply_decision(decision: ShardDecision[Any], shard: ShardState, timers: Timers) -> None:
    """Apply a decision's records, memory and timers to the state."""
    # `apply` does it, which also replays the log. So the state is the same whether it was decided here or loaded.
    for record in decision.records:
        shard.apply(record)
    for change in decision.memory:
        shard.remember(change)
    for key, at in decision.timers.items():
        timers.set(key, at)


def _on_timer(key: TimerKey) -> Callable[[Any, Moment], ShardDecision[None]]:
    return lambda shard, now: shard.on_timer(key, now)


def _too_late() -> OttlaError:
    return OttlaError(
        ErrorCode.REQUEST_TIMED_OUT, "the request timed out while waiting in the queue; nothing was changed"
    )


def _too_large(size_bytes: int, largest_bytes: int) -> OttlaError:
    return OttlaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"the request's records take {size_bytes} bytes, but one batch holds at most {largest_bytes}",
        hint="send less metadata, or split the request",
    )
