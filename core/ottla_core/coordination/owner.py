"""An owner has one shard under one epoch: it fences, loads, serves and leaves. It is never loaded twice.

    FENCING ── own fence at the high watermark ──► LOADING ── all before it, and itself, read back ──► SERVING
       └────────── fenced ──────────┐                 │                                                   │
                                    ▼                 ▼                                                   ▼
                                  LEFT ◄────────────── fenced, out of step, unassigned, stopped

A coordinator responds from memory, and its state is a log that another process leads. Two things must never happen: a
response from a state that the log does not have, and two owners who both respond. The rules by number are in
docs/design/coordination.md.

Serving goes by *rounds* (module `append_round`), one at a time. Each round is one call to the log: an append, or a
check if no request writes. Requests that come during a round wait, undecided. So whenever nothing is under way the
state is exactly the log up to `next_offset`, and while a round is under way it is ahead by that round's batches (I21).
No request gets a response from it before they are committed (rules 6 and 7 there; Kafka's rule 52: group responses wait
for the high watermark). Kafka decides on arrival, against a state that runs ahead of several appends, and takes it back
from snapshots when one fails. Here the next round begins when the last one is known. That costs no time, because its
records would have gone into the next batch anyway. And there is nothing to take back: a state whose batch is rejected
is dropped.

An append is sent again, the same bytes at the same offset, until its result is known (rule 5). A log that is late takes
no shard away: a client that has waited for `append_s` has to try again, the state stays, and the batch is sent for as
long as this owner's fence is the highest (docs/adr/0012). No client hears that it failed, because it may still come
into the log (I22). Only what the log will never take has surely failed. Then clients get the reason, and the owner
leaves.

Pure: events, the time and chance go in, effects come out. A seeded simulation drives this very class.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic

from ottla_core.coordination.append_round import AppendRound, RoundOutcome, ShardRequest, apply_decision
from ottla_core.coordination.batches import seal_records
from ottla_core.coordination.effects import (
    Effect,
    Leave,
    Perform,
    ReportTrouble,
    Respond,
    RespondError,
    Send,
    ShardLimits,
    crowded,
    late,
    loading,
    not_coordinator,
    superseded,
)
from ottla_core.coordination.phases import NEEDS_EPOCH, NEXT_PHASE, OwnerEvent, Phase
from ottla_core.coordination.replay import Replay
from ottla_core.coordination.shard import FromMemory, Later, Recalled, Resolve, S, ShardDecision
from ottla_core.coordination.shard_log import (
    Append,
    Appended,
    Batches,
    Call,
    Check,
    Confirmed,
    Fenced,
    Mismatch,
    Read,
    Rejected,
    Result,
    Unknown,
)
from ottla_core.coordination.timers import NEVER, Moment, Timers
from ottla_core.errors import OttlaError
from ottla_core.plural import counted
from ottla_core.records.fence import ShardFence, seal_fence

_REPORT_AFTER: Final = 8
"""Trouble is reported after this many tries of a fence or a read, which take some seconds, and whenever the number has
doubled."""


_SHOWN: Final = 200
"""How many characters of a timer's key are shown: an id in it may be long."""


class Owner(Generic[S]):
    """Owns a shard under `fence`, which the controller gives only once. `shard` is empty at first.

    `chance()` is between 0 and 1. It keeps fifty shards of one process from calling a slow log at the same moment.
    `cpu_s()` is the CPU time that has been spent so far, which bounds a round.
    """

    def __init__(
        self,
        fence: ShardFence,
        shard: S,
        limits: ShardLimits,
        now: Moment,
        chance: Callable[[], float],
        cpu_s: Callable[[], float],
    ) -> None:
        self.fence: Final = fence
        self.limits = limits
        self.phase = Phase.FENCING
        self.shard = shard
        # The state is what lies before this offset. While fencing, it is the offset where the log may end.
        self.next_offset = 0
        self._timers = Timers()
        self._waiting: deque[ShardRequest[S]] = deque()
        # Requests whose responses wait for other members, such as joins, by the key under which an effect resolves
        # them.
        self._later: dict[Hashable, Any] = {}
        self._chance: Final = chance
        self._cpu_s: Final = cpu_s
        self._call: Call | None = None
        self._number, self._in_flight = 0, False  # that of the call that was sent last
        self._sent_at = now.at
        self._failures = 0  # failures of that call, one after another
        self._stalled = ""  # why a fence or a load makes no progress, after seconds of attempts; "" while it does
        self._retry_at = NEVER
        self._round: AppendRound[S] | None = None
        self._began_at = now.at  # when the round began
        self._late_at = NEVER
        self._obstacle = ""  # why the round's last call failed
        self._leisure_until = NEVER  # when what waits at leisure begins a round
        # An earlier attempt to send the round's batch may have been carried out. A later rejection then proves nothing.
        self._doubtful = False
        self._proved_until = -NEVER
        # It is sealed once, because a repeat must have the same bytes, including the time in it.
        self._fence_batch: Final = seal_fence(fence, now.wall_ms)
        self._replay: Replay | None = None  # while the shard loads
        self._out: list[Effect] = []

    # ---- what happens ---------------------------------------------------------------------------------------------

    def on_start(self, now: Moment) -> list[Effect]:
        self._ask(Append(self.next_offset, self._fence_batch), now)
        return self._effects()

    def on_request(self, request: ShardRequest[S], now: Moment) -> list[Effect]:
        if self.phase is not Phase.SERVING:
            error = not_coordinator() if self.phase is Phase.LEFT else loading()
            self._out.append(RespondError(request.token, error))
        # A heartbeat changes timers only, so it may get its response while the last proof counts. That is a third of a
        # session at most: a deposed owner keeps no session alive of a member that is missed elsewhere (rule 7).
        elif request.without_confirmation and now.at < self._proved_until:
            self._respond_at_once(request, now)
            self._renew_proof(now)
        # Deferred joins count too: they hold memory until their rebalance is complete (I13).
        elif self.unanswered >= self.limits.max_waiting:
            self._out.append(RespondError(request.token, crowded()))
        else:
            self._waiting.append(request)
            if request.at_leisure:
                self._leisure_until = min(self._leisure_until, now.at + self.limits.leisure_s)
            else:
                self._begin_round(now)
        return self._effects()

    def recall(self, decide: FromMemory[S], now: Moment) -> Recalled | None:
        """Decide what may be answered from memory, and return None for what has to come as a request. Nothing has
        happened until `on_recalled`.

        It has to if the last proof is too old. While a round is under way the state is ahead of the log, and those who
        wait come first.
        """
        is_current = self.phase is Phase.SERVING and now.at < self._proved_until
        if not is_current or self._round is not None or self._waiting:
            return None
        return decide(self.shard, now)

    def on_recalled(self, recalled: Recalled, now: Moment) -> list[Effect]:
        for key, at in recalled.timers.items():
            self._timers.set(key, at)
        self._renew_proof(now)
        return self._effects()

    def on_result(self, number: int, result: Result, now: Moment) -> list[Effect]:
        """Take the result of a call to the log. The result of an older call than the one in flight is ignored."""
        # A repeated call goes out under another number: a late result of the former sending must not settle it.
        if number == self._number and self._in_flight and self.phase is not Phase.LEFT:
            self._in_flight = False
            match self.phase:
                case Phase.FENCING:
                    self._on_fence_result(result, now)
                case Phase.LOADING:
                    self._on_read_result(result, now)
                case Phase.SERVING:
                    self._on_round_result(result, now)
        return self._effects()

    def on_tick(self, now: Moment) -> list[Effect]:
        """Act on the passing of time. It is to be called at `wake_at`, and as often as the caller likes."""
        if self.phase is not Phase.LEFT:
            self._reject_late(now)
            if now.at >= self._retry_at and self._call is not None:
                self._send(self._call, now)
            # A long load is applied step by step, a step at each tick, so that other shards are served in between.
            elif self.phase is Phase.LOADING and self._call is None:
                self._load_next(now)
            else:
                self._begin_round(now)
        return self._effects()

    def on_leader(self, now: Moment) -> list[Effect]:
        """Send an unfinished call at once, because the shard's partition has another leader or another leader epoch."""
        if self._call is not None and self.phase is not Phase.LEFT:
            # The call to the former leader is given up and may still be carried out there.
            self._doubtful = self._doubtful or self._in_flight
            self._ask(self._call, now)
        return self._effects()

    def on_gap(self, gap_s: float) -> None:
        """Note that the clock stood still for `gap_s`, while the world did not.

        All proofs are older by that much: another owner may have served in the meantime.
        """
        self._proved_until -= gap_s
        self._sent_at -= gap_s

    def leave(self, reason: str, event: OwnerEvent = OwnerEvent.RELEASED) -> list[Effect]:
        """Drop the state and reject every request. A call in flight may still be carried out."""
        if self.phase is not Phase.LEFT:
            self._leave(event, reason)
        return self._effects()

    @property
    def wake_at(self) -> float:
        """This is the time at which `on_tick` has something to do, if nothing else happens before."""
        if self.phase is Phase.LEFT:
            return NEVER
        patient_until = self._waiting[0].give_up_at if self._waiting else NEVER
        # Timers are decided in rounds. While one is under way no other can begin, and a tick would do nothing.
        timers_at = NEVER if self._round is not None else min(self._timers.next_at, self._leisure_until)
        return min(self._retry_at, self._late_at, patient_until, timers_at)

    @property
    def unanswered(self) -> int:
        """This is the number of requests without a response."""
        return len(self._waiting) + len(self._later) + (0 if self._round is None else len(self._round.outcomes))

    @property
    def is_busy(self) -> bool:
        """It tells whether a request waits for its decision or for confirmation. A join that waits for others does not
        count."""
        return self._round is not None or bool(self._waiting)

    @property
    def trouble(self) -> str:
        """It says why the shard is not served, or what it can't do in time. It is "" if an operator need not look."""
        rejected = self._timers.rejected.copy()  # any thread may ask
        if self._stalled or not rejected:
            return self._stalled
        key, reason = next(iter(rejected.items()))
        return f"{counted(len(rejected), 'rejected timer')} to be tried again, such as {str(key)[:_SHOWN]}: {reason}"

    @property
    def is_stuck(self) -> bool:
        """It tells whether the owner's call to the log has failed, and is repeated."""
        return self._failures > 0

    # ---- fence and load -------------------------------------------------------------------------------------------

    def _on_fence_result(self, result: Result, now: Moment) -> None:
        match result:
            # The fence counts once it is committed. Before that a new leader might not have it, and an older owner
            # could append.
            case Appended(base_offset, high_watermark) if high_watermark > base_offset:
                self._move(OwnerEvent.FENCE_COMMITTED)
                self.next_offset, self._replay = 0, Replay(self.fence, base_offset + 1)
                self._ask(Read(0), now)
            # A new owner does not know where the log ends, and learns it by trying. A former owner may append in
            # between, so this repeats until none does.
            case Mismatch(log_end_offset):
                self.next_offset = log_end_offset
                self._ask(Append(log_end_offset, self._fence_batch), now)
            case Fenced():
                self._leave(OwnerEvent.DEPOSED, "another owner has a higher fence")
            case _:
                self._ask_later(now)
                self._report("its fence can't be written", _reason(result))

    def _on_read_result(self, result: Result, now: Moment) -> None:
        """Replay the records below the high watermark, up to this owner's fence (rule 3). There is nothing behind it
        yet."""
        assert self._replay is not None, "it loads"
        if isinstance(result, Batches):
            self._replay.take(result.data)
            self._load_next(now)
        else:
            self._read_again(_reason(result), now)

    def _load_next(self, now: Moment) -> None:
        """Apply a step of what was read. The next tick applies another one, until everything is applied."""
        replay, reason, self._call = self._replay, "its high watermark is behind", None
        assert replay is not None, "it loads"
        try:
            if replay.go_on(self.shard):
                self._retry_at = now.at
                return
        # The batch was damaged on its way, or in that replica. It is read again, from the next leader if this one goes.
        except OttlaError as error:
            reason = str(error)
        before, self.next_offset = self.next_offset, replay.next_offset
        if before < self.next_offset < replay.end_offset:
            self._ask(Read(self.next_offset), now)
        elif self.next_offset < replay.end_offset:
            # Nothing new was read, as from a new leader whose high watermark is behind. The read is repeated later.
            self._call = Read(self.next_offset)
            self._read_again(reason, now)
        # An unclean election may have taken the fence, and with it what makes this the only owner.
        elif not replay.ends_with_fence:
            self._leave(OwnerEvent.DIVERGED, "the fence is not where it was written")
        else:
            self._move(OwnerEvent.LOADED)
            self._replay, self._retry_at, self._failures, self._stalled = None, NEVER, 0, ""
            # It comes before any client's request, because it sets the timers: each member gets a full session (Kafka's
            # rule 49).
            self._waiting.append(ShardRequest(None, lambda shard, then: shard.on_loaded(then), NEVER))
            self._begin_round(now)

    def _read_again(self, reason: str, now: Moment) -> None:
        self._ask_later(now)
        self._report(f"its log can't be read from offset {self.next_offset} on", reason)

    def _report(self, failure: str, reason: str) -> None:
        if (tries := self._failures) >= _REPORT_AFTER:
            self._stalled = f"{failure}, tried {tries} times: {reason}"
            # The number of tries is a power of two, so that a log that is down for an hour makes only a few lines.
            if tries & (tries - 1) == 0:
                self._out.append(ReportTrouble(self._stalled))

    # ---- rounds ----------------------------------------------------------------------------------------------------

    def _begin_round(self, now: Moment, *, ask: bool = False) -> None:
        """Begin a round if there is something for it; with `ask`, a check if there is not."""
        if self.phase is not Phase.SERVING or self._round is not None:
            return
        self._round = append_round = AppendRound(self.shard, self._timers, self.limits.max_batch_bytes, self._cpu_s)
        append_round.decide_all(self._waiting, now)
        self._leisure_until = NEVER
        if append_round.records:
            self._begin(Append(self.next_offset, seal_records(tuple(append_round.records), now.wall_ms)), now)
        # Requests that are left had no room or no time in this round. They are decided with the next one, which this
        # check brings about.
        elif ask or self._waiting or append_round.needs_check(is_proved=now.at < self._proved_until):
            self._begin(Check(self.next_offset), now)
        else:
            self._round = None
            self._settle(append_round.outcomes)

    def _begin(self, call: Call, now: Moment) -> None:
        """Call the log for a round. From now on its requests wait for `append_s` at most."""
        self._doubtful = False
        self._began_at, self._late_at = now.at, now.at + self.limits.append_s
        self._ask(call, now)

    def _on_round_result(self, result: Result, now: Moment) -> None:
        assert self._round is not None, "every call of a serving owner belongs to a round"
        end = self.next_offset + len(self._round.records)
        is_late = now.at >= self._began_at + self.limits.append_s
        match result:
            case Appended(base_offset, high_watermark):
                # State and log have parted: the state is dropped and loaded again (Kafka's rule 54).
                if base_offset != self.next_offset:
                    self._leave(OwnerEvent.DIVERGED, "a batch was written where it does not belong")
                elif self._is_committed(high_watermark, end):
                    self._on_proved(self._round, end, now)
                else:
                    # The leader has appended the batch, and may be deposed before it is committed. The same bytes are
                    # sent again.
                    self._retry(result, now, doubtful=True)
            case Confirmed():
                self._on_proved(self._round, end, now)
            # An earlier sending of this very batch would have been taken for a repeat. So another batch is there.
            case Mismatch():
                self._leave(OwnerEvent.DIVERGED, "the log holds records that do not belong to this state")
            case Fenced():
                self._leave(OwnerEvent.DEPOSED, "another owner has a higher fence")
            # This was the only sending, and the log has refused it for good. So clients may hear the log's own
            # error.
            case Rejected(error) if not self._doubtful and not error.retriable:
                self._leave(OwnerEvent.DIVERGED, _rejected_batch(error), failed=error)
            case Rejected(error) | Unknown(error) if not error.retriable and is_late:
                # An earlier sending may have been taken, so no client hears that it failed. But the log will never
                # confirm the batch, and a state that is ahead of its log is of no use.
                self._leave(OwnerEvent.DIVERGED, _rejected_batch(error))
            case Rejected() | Unknown():
                self._retry(result, now, doubtful=isinstance(result, Unknown))
            case Batches():
                raise AssertionError("an owner that serves its shard must not read batches")

    def _is_committed(self, high_watermark: int, end: int) -> bool:
        """Return whether the round's batch is committed.

        The leader responds once it is. If one does not wait for that, what it appended may be lost with it (rule 6).
        """
        return high_watermark >= end

    def _retry(self, result: Result, now: Moment, *, doubtful: bool) -> None:
        self._obstacle = _reason(result)
        self._doubtful = self._doubtful or doubtful
        self._ask_later(now)

    def _on_proved(self, append_round: AppendRound[S], end: int, now: Moment) -> None:
        """Respond to every request of the round: the log has its batch, and this was the owner after the call was sent.

        Heartbeats may have been rejected while the log was late. So that time counts for no session, and the timers
        move.
        """
        self._round, self._call = None, None
        self._failures, self._late_at, self._obstacle = 0, NEVER, ""
        self.next_offset = end
        # The proof counts from the sending on, not from the result: the leader may have compared the fence at any time
        # in between.
        self._proved_until = self._sent_at + self.limits.unproved_s
        if (late_s := now.at - self._began_at) > self.limits.unproved_s:
            self._timers.shift(late_s)
        self._settle(append_round.outcomes)
        self._begin_round(now)

    def _reject_late(self, now: Moment) -> None:
        """Tell clients that have waited for too long to try again.

        Their decisions may be in the log, and are written all the same.
        """
        while self._waiting and self._waiting[0].give_up_at <= now.at:
            self._out.append(RespondError(self._waiting.popleft().token, late(self._obstacle)))
        if self._round is not None and now.at >= self._late_at:
            self._late_at = NEVER
            self._out += [RespondError(token, late(self._obstacle)) for token in self._round.dismiss()]

    # ---- answers --------------------------------------------------------------------------------------------------

    def _respond_at_once(self, request: ShardRequest[S], now: Moment) -> None:
        try:
            decision = request.decide(self.shard, now)
            assert not decision.records, "what is written waits for its round"
        except Exception as error:
            self._out.append(RespondError(request.token, error))
            return
        apply_decision(decision, self.shard, self._timers)
        self._settle([RoundOutcome(request.token, decision)])

    def _renew_proof(self, now: Moment) -> None:
        """Ask the log once half of the proof's time is over, so that no heartbeat has to wait for the next proof."""
        if now.at >= self._proved_until - self.limits.unproved_s / 2:
            self._begin_round(now, ask=True)

    def _settle(self, outcomes: Iterable[RoundOutcome]) -> None:
        for token, decision, error in outcomes:
            if decision is None:
                assert error is not None, "an outcome is a decision or an error"
                self._out.append(RespondError(token, error))
                continue
            if token is not None:
                if isinstance(decision.response, Later):
                    self._defer(decision.response.key, token)
                else:
                    self._out.append(Respond(token, decision.response))
            self._perform(decision)

    def _defer(self, key: Hashable, token: Any) -> None:
        """Keep a request until an effect resolves it. One that waits under the same key is superseded: its client has
        sent another."""
        if (former := self._later.pop(key, None)) is not None:
            self._out.append(RespondError(former, superseded()))
        self._later[key] = token

    def _perform(self, decision: ShardDecision[Any]) -> None:
        for effect in decision.effects:
            if not isinstance(effect, Resolve):
                self._out.append(Perform(effect))
            elif (token := self._later.pop(effect.key, None)) is not None:
                rejected = isinstance(effect.response, OttlaError)
                self._out.append(RespondError(token, effect.response) if rejected else Respond(token, effect.response))

    def _move(self, event: OwnerEvent) -> None:
        self.phase = NEXT_PHASE[self.phase, event]

    def _leave(self, event: OwnerEvent, reason: str, *, failed: OttlaError | None = None) -> None:
        """Drop the state and reject what waits. `failed` is the error of requests whose records are surely not in the
        log, and never will be."""
        self._move(event)
        append_round, self._round = self._round, None
        # The order is that of their decisions, so that of two requests of one client the first hears first.
        for token, decision, _ in append_round.outcomes if append_round is not None else ():
            if token is not None:
                # A request that only read did not fail with the batch. Its client asks the next owner.
                wrote = decision is not None and decision.records
                self._out.append(RespondError(token, failed if failed and wrote else not_coordinator()))
        for token in (*self._later.values(), *(request.token for request in self._waiting)):
            if token is not None:
                self._out.append(RespondError(token, not_coordinator()))
        self._later.clear()
        self._waiting.clear()
        self._timers = Timers()
        self._out.append(Leave(reason, event in NEEDS_EPOCH))

    # ---- calls ----------------------------------------------------------------------------------------------------

    def _ask(self, call: Call, now: Moment) -> None:
        """Make another call than the last one, or the same call to another leader."""
        self._failures, self._stalled = 0, ""
        self._send(call, now)

    def _ask_later(self, now: Moment) -> None:
        """Repeat the call after longer and longer pauses, because more calls do not help a log that is late."""
        pause_s = min(self.limits.retry_most_s, self.limits.retry_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        # Half of the pause is left to chance: fifty shards must not call a leader that recovers at one moment.
        self._retry_at = now.at + pause_s * (0.5 + self._chance() / 2)

    def _send(self, call: Call, now: Moment) -> None:
        """Make a call. One call is in flight at a time: a repeated one whose former result is unknown, or the next."""
        self._call, self._retry_at = call, NEVER
        self._number += 1
        self._in_flight, self._sent_at = True, now.at
        # A log that is only slow may respond within a longer timeout, which grows to twice the first.
        timeout_s = self.limits.call_s * min(1.0 + self._failures / 2, 2.0)
        self._out.append(Send(self._number, call, timeout_s))

    def _effects(self) -> list[Effect]:
        out, self._out = self._out, []
        return out


def _reason(result: Result) -> str:
    return str(result.error) if isinstance(result, Rejected | Unknown) else "its high watermark is behind"


def _rejected_batch(error: OttlaError) -> str:
    return f"the log does not take a batch: {error}"
