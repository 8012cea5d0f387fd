"""One shard of a process: its owner's machine, with its effects carried out."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, Protocol

from ottla_core.coordination.effects import Effect, Leave, Perform, ReportTrouble, Respond, RespondError, Send
from ottla_core.coordination.owner import Owner
from ottla_core.coordination.phases import OwnerEvent, Phase
from ottla_core.coordination.shard import FromMemory, Recalled, S
from ottla_core.coordination.shard_log import Append, ShardLog, Unknown
from ottla_core.coordination.timers import NEVER, Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.fence import ShardFence
from ottla_core.telemetry import Counter, Histogram

_RESPONSES_A_TURN: Final = 100
"""Each response wakes a task that takes about 25 µs to send it, and a rebalance can end with thousands of them."""

_log = logging.getLogger(__name__)


class ShardProcess(Protocol):
    """The process that holds shards, as they need it (`runtime.OwnedShards`)."""

    @property
    def kind(self) -> str: ...
    @property
    def log(self) -> ShardLog: ...
    @property
    def load_seconds(self) -> Histogram: ...
    @property
    def append_seconds(self) -> Histogram: ...
    @property
    def own_rejected(self) -> Counter: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def perform(self) -> Callable[[int, int, Any], None]: ...

    def now(self) -> Moment: ...
    def loop_time(self, at: float) -> float: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...
    def on_settled(self) -> None: ...
    def on_left(self, number: int, fence: ShardFence, leave: Leave, owned_s: float) -> None: ...


def reject(token: asyncio.Future[Any], error: Exception) -> None:
    token.set_exception(error)
    token.exception()  # the caller may have gone, which asyncio would log as a bug


class HeldShard(Generic[S]):
    """One owner, which takes events in, and whose effects are carried out."""

    def __init__(self, number: int, owner: Owner[S], process: ShardProcess) -> None:
        self.number: Final = number
        self.owner: Final = owner
        self.leader_epoch = -1  # that of its partition, as it was last heard
        self.is_elsewhere = False
        """Whether another owner has the shard, which this process's metadata may not say yet."""
        self._process = process
        self._owned_since = process.loop.time()
        self._started = False
        self._loading = True
        self._wake: asyncio.Handle | None = None
        self._wake_at = NEVER
        self._calls: dict[asyncio.Task[None], None] = {}
        self._responses: deque[Respond | RespondError] = deque()
        self._is_responding = False

    @property
    def is_loading(self) -> bool:
        """It tells whether the shard is on its way to be served, and makes progress."""
        return self._started and self.owner.phase in (Phase.FENCING, Phase.LOADING) and not self.owner.is_stuck

    @property
    def age_s(self) -> float:
        """This is the time since the shard's load began, or since it was given."""
        return self._process.loop.time() - self._owned_since

    def start(self) -> None:
        self._owned_since, self._started = self._process.loop.time(), True
        self.handle(lambda owner, now: owner.on_start(now))

    def handle(self, event: Callable[[Owner[S], Moment], list[Effect]]) -> None:
        try:
            effects = event(self.owner, self._process.now())
        except Exception:
            # A bug in `apply`, or in the machine, means that the state can't be trusted any more.
            _log.exception("%s shard %d has failed", self._process.kind, self.number)
            effects = self.owner.leave("it has failed", OwnerEvent.FAILED)
        for effect in effects:
            self._carry_out(effect)
        if not self._is_responding:
            self._send_responses()
        self._after()

    def recall(self, decide: FromMemory[S]) -> Recalled | None:
        """Return what the owner answers from memory, if it does. No request and no future are made for it."""
        recalled = self.owner.recall(decide, self._process.now())
        if recalled is not None:
            self.handle(lambda owner, now: owner.on_recalled(recalled, now))
        return recalled

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                call = self._process.spawn(self._call(effect))
                self._calls[call] = None
                call.add_done_callback(self._calls.pop)
            case Respond() | RespondError():
                self._responses.append(effect)
            case Perform(own):
                try:
                    self._process.perform(self.number, self.owner.fence.epoch, own)
                except Exception:
                    _log.exception("carrying out an effect of %s shard %d failed", self._process.kind, self.number)
            case ReportTrouble(trouble):
                served_for = f"{self._process.kind} shard {self.number} has not been served for {self.age_s:.0f} s"
                _log.error("%s: %s", served_for, trouble)
            case Leave():
                for call in self._calls:
                    call.cancel()
                if self._wake is not None:
                    self._wake.cancel()  # otherwise it would keep the state until then, and a timer may be far
                self.is_elsewhere = not effect.needs_epoch
                self._process.on_left(self.number, self.owner.fence, effect, self.age_s)

    def _send_responses(self) -> None:
        """Send up to _RESPONSES_A_TURN responses in this turn of the loop, and the rest in the next turns, in order."""
        for _ in range(min(len(self._responses), _RESPONSES_A_TURN)):
            match self._responses.popleft():
                case RespondError(token, error):
                    self._reject(token, error)
                case Respond(token, response) if not token.done():
                    token.set_result(response)
        self._is_responding = bool(self._responses)
        if self._is_responding:
            self._process.loop.call_soon(self._send_responses)

    def _reject(self, token: Any, error: Exception) -> None:
        shard = f"{self._process.kind} shard {self.number}"
        is_own = token is None
        if is_own:
            self._process.own_rejected.value += 1
        if not isinstance(error, OttlaError):
            what = f"an action that {shard} started by itself" if is_own else f"a request to {shard}"
            _log.error("%s failed", what, exc_info=error)
        elif is_own:
            _log.error("an action that %s started by itself was rejected: %s", shard, error)
        if not is_own and not token.done():
            reject(token, error)

    async def _call(self, send: Send) -> None:
        process = self._process
        sent_at = process.loop.time()
        try:
            result = await process.log.call(self.number, self.owner.fence, send.call, timeout_s=send.timeout_s)
        except Exception as error:
            _log.exception("a call from %s shard %d failed", process.kind, self.number)
            result = Unknown(OttlaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the call failed: {error!r}"))
        if isinstance(send.call, Append):
            process.append_seconds.observe(process.loop.time() - sent_at)
        self.handle(lambda owner, now: owner.on_result(send.number, result, now))

    def _after(self) -> None:
        if self._loading and self.owner.phase is Phase.SERVING:
            self._loading = False
            self._observe_load(self._process.load_seconds)
        if self.owner.wake_at < self._wake_at:  # a tick that is too early, as after every heartbeat, does no harm
            self._sleep_until(self.owner.wake_at)
        self._process.on_settled()

    def _observe_load(self, load_seconds: Histogram) -> None:
        took_s = self.age_s
        load_seconds.observe(took_s)
        _log.info("now serving %s shard %d; loading it took %.2f s", self._process.kind, self.number, took_s)

    def _sleep_until(self, wake_at: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake_at = wake_at
        self._wake = self._process.loop.call_at(self._process.loop_time(wake_at), self._on_wake)

    def _on_wake(self) -> None:
        self._wake, self._wake_at = None, NEVER
        self.handle(lambda owner, now: owner.on_tick(now))
