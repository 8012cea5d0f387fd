"""A process that may own the shard: the real machine and its clock; it stops, dies, sleeps and starves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from tests.simulation.counters import Counters
from tests.simulation.history import Broken
from tests.simulation.network import Network
from tests.simulation.partition import Partition
from tests.simulation.schedule import Schedule

from ottla_core.coordination.append_round import ShardRequest
from ottla_core.coordination.effects import Effect, Leave, Perform, Respond, RespondError, Send, ShardLimits
from ottla_core.coordination.owner import Owner
from ottla_core.coordination.shard_log import Call, Read, Result
from ottla_core.coordination.timers import NEVER, TICK_S, LoopClock, Moment
from ottla_core.records.fence import ShardFence

LIMITS: Final = ShardLimits(
    unproved_s=1.5, append_s=1.2, retry_s=0.05, retry_most_s=0.2, max_batch_bytes=600, max_waiting=50
)
_BOOT_MS: Final = 1_700_000_000_000


class Desk(Protocol):
    """What a coordinator tells the world."""

    def on_answer(self, token: object, response: int) -> None: ...
    def on_refusal(self, token: object, error: Exception) -> None: ...
    def on_leave(self, fence: ShardFence, leave: Leave) -> None: ...


class Coordinator:
    def __init__(
        self,
        number: int,
        schedule: Schedule,
        network: Network,
        partition: Partition,
        desk: Desk,
        owner_class: type[Owner[Counters]],
    ) -> None:
        self.number: Final = number
        self.up = True
        self.life = 0
        self.incarnation = number + 1
        self.owner: Owner[Counters] | None = None
        self.leader, self.leader_epoch = 0, 0  # as it was heard last
        self.paused_until = 0.0
        self.deaf_until = 0.0
        self._epoch = -1  # the highest shard epoch that it has heard of
        self._schedule = schedule
        self._network = network
        self._partition = partition
        self._desk = desk
        self._owner_class: Final = owner_class
        self._clock = LoopClock(0.0)
        self._wake_at = NEVER
        self._read_up_to = 0

    # ---- what happens to it ---------------------------------------------------------------------------------------

    def on_assigned(self, number: int, incarnation: int, epoch: int) -> None:
        """The controller's word on who owns the shard."""
        if epoch <= self._epoch:
            return
        self._epoch = epoch
        if self.owner is not None:
            self._perform(self.owner.leave("unassigned"))
            self.owner = None
        if (number, incarnation) == (self.number, self.incarnation):
            now = self._now()
            fence, chance = ShardFence(epoch, incarnation), self._schedule.random.random
            self.owner, self._read_up_to = self._owner_class(fence, Counters(), LIMITS, now, chance, lambda: 0.0), 0
            self._perform(self.owner.on_start(now))

    def on_metadata(self, leader: int, leader_epoch: int) -> None:
        if leader_epoch > self.leader_epoch:
            self.leader, self.leader_epoch = leader, leader_epoch
            now = self._now()
            if self.owner is not None:
                self._perform(self.owner.on_leader(now))

    def on_request(self, request: ShardRequest[Counters], timeout_s: float) -> None:
        now = self._now()
        owner = self.owner
        if owner is not None:
            request = replace(request, give_up_at=now.at + timeout_s)
            self._perform(owner.on_request(request, now))

    def beat(self, life: int) -> None:
        if life == self.life:
            self._tick()
            self._schedule.after(TICK_S, self.deliver, life, self.beat, life)

    def deliver(self, life: int, event: Callable[..., None], *args: object) -> None:
        """Whatever reaches the process passes here: a dead one hears nothing, a stopped one when it wakes up."""
        if not self.up or life != self.life:
            return
        if self.paused_until > self._schedule.now:
            self._schedule.after(self.paused_until - self._schedule.now, self.deliver, life, event, *args)
        else:
            event(*args)

    def start(self, incarnation: int) -> None:
        self.up, self.life, self.incarnation = True, self.life + 1, incarnation
        self.owner, self._epoch, self._wake_at, self.paused_until, self.deaf_until = None, -1, NEVER, 0.0, 0.0
        self._clock = LoopClock(self._schedule.now)
        self._schedule.after(TICK_S, self.deliver, self.life, self.beat, self.life)

    def crash(self) -> None:
        self.up, self.owner = False, None

    # ---- what it does ---------------------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        owner = self.owner
        assert owner is not None
        for effect in effects:
            match effect:
                case Send(number, call):
                    self._check_progress(call)
                    response = self._response_to(owner, number)
                    self._network.call(self.leader, self.leader_epoch, owner.fence, call, self._life_id, response)
                case Respond(token, response_value):
                    self._desk.on_answer(token, response_value)
                case RespondError(token, error):
                    self._desk.on_refusal(token, error)
                case Leave():
                    self._desk.on_leave(owner.fence, effect)
                case Perform():
                    raise AssertionError("the counters have no other effects")
        self._sleep(owner)

    def _check_progress(self, call: Call) -> None:
        """What was loaded stays loaded, whatever happens to the process meanwhile."""
        if isinstance(call, Read):
            if call.offset < self._read_up_to:
                raise Broken(f"a load has begun again at {call.offset}, and was at {self._read_up_to}")
            self._read_up_to = call.offset

    @property
    def _life_id(self) -> int:
        return self.number * 1_000_000 + self.life * 1_000 + self._epoch

    def _response_to(self, owner: Owner[Counters], number: int) -> Callable[[Result], None]:
        life = self.life

        def on_result(result: Result) -> None:
            if self.owner is owner:
                self._perform(owner.on_result(number, result, self._now()))

        return lambda result: self.deliver(life, on_result, result)

    def _sleep(self, owner: Owner[Counters]) -> None:
        wake_at = self._clock.monotonic_at(owner.wake_at)
        if wake_at < self._wake_at:
            self._wake_at = wake_at
            delay_s = max(wake_at - self._schedule.now, 0.0) + 1e-6  # no rounding may keep time from moving
            self._schedule.after(delay_s, self.deliver, self.life, self._wake)

    def _wake(self) -> None:
        self._wake_at = NEVER
        self._tick()

    def _tick(self) -> None:
        now = self._now()
        if self.owner is not None:
            self._perform(self.owner.on_tick(now))

    def _now(self) -> Moment:
        at = self._clock.on_time(self._schedule.now)
        if self._clock.gap_s and self.owner is not None:
            self.owner.on_gap(self._clock.gap_s)
        return Moment(at, _BOOT_MS + int(self._schedule.now * 1000))
