"""The shards of one coordinator process, given and taken by the metadata. Each has its owner's machine around a log.

This is the edge of `owner`: it reads the clock, carries calls to the log, wakes owners when their time has come, and
turns responses into what the service's methods await. Every look at the clock passes `LoopClock`, so a process that
stood still shifts its deadlines before it does anything else (rule 10). A few shards are loaded at a time, first those
for which requests come. A shard whose log has trouble does not keep the others waiting.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.image import ClusterImage
from ottla_core.coordination.append_round import ShardRequest
from ottla_core.coordination.effects import Effect, Leave, ShardLimits, crowded, not_coordinator
from ottla_core.coordination.held_shard import HeldShard, reject
from ottla_core.coordination.owner import Owner
from ottla_core.coordination.phases import Phase
from ottla_core.coordination.shard import Decide, FromMemory, Recalled, S
from ottla_core.coordination.shard_log import ShardLog
from ottla_core.coordination.shards import OwnedShardStatus, Shards
from ottla_core.coordination.timers import TICK_S, LoopClock, Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.processor_time import ProcessorTime
from ottla_core.event_loop.tasks import end_task
from ottla_core.model import SHARD_TOPICS, PartitionId
from ottla_core.records.fence import ShardFence
from ottla_core.routing import shard_of
from ottla_core.rpc.retry import Backoff
from ottla_core.telemetry import Metrics

DRAIN_S: Final = 2.0
"""How long a stop waits for what is under way."""

_SHORT_OWNERSHIP_S: Final = 5.0
_REST_S: Final = 1.0

_log = logging.getLogger(__name__)

NewShard = Callable[[int], S]
PerformEffect = Callable[[int, int, Any], None]
WhenLeft = Callable[[int, int], None]
Release = Callable[[int, int], Awaitable[None]]


class OwnedShards(Shards[S]):
    """A component: the shards of `kind` that are given to `instance_id` in its present registration.

    `incarnation()` returns that registration's epoch, or None while there is none. `new_shard(n)` returns an empty
    state. `perform(n, epoch, effect)` carries out the service's own effects, none of a shard's epoch after
    `when_left(n, epoch)`. `release(n, epoch)` asks the controller for a new epoch and may raise OttlaError. `on_image`
    is for the metadata follower.
    """

    def __init__(
        self,
        kind: str,
        instance_id: int,
        incarnation: Callable[[], int | None],
        log: ShardLog,
        new_shard: NewShard[S],
        release: Release,
        *,
        metrics: Metrics,
        perform: PerformEffect = lambda shard, epoch, effect: None,
        when_left: WhenLeft = lambda shard, epoch: None,
        limits: ShardLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.kind: Final = kind
        self.instance_id: Final = instance_id
        self.limits = limits or ShardLimits()
        self.log: Final = log
        self.perform: Final = perform
        self._when_left: Final = when_left
        self._incarnation = incarnation
        self._new_shard = new_shard
        self._release = release
        self._wall: Final = clock or SystemClock()
        self._held: dict[int, HeldShard[S]] = {}
        self._to_load: OrderedDict[int, HeldShard[S]] = OrderedDict()
        self._waiting_bytes = 0
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._shards = 0  # how many there are of this kind, by the image
        self._image: ClusterImage | None = None
        self._seen_as: int | None = None  # the incarnation that was compared with the image
        self._stopping = False
        self._idle = asyncio.Event()
        self._ticking: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clock = LoopClock(0.0)
        self._processor = ProcessorTime(0.0)
        self.loads: Final = metrics.counter("ottla_shard_loads_total", "Shard loads started.", kind=kind)
        self.load_seconds: Final = metrics.histogram(
            "ottla_shard_load_seconds", "Time from fencing a shard to serving it.", kind=kind
        )
        self.append_seconds: Final = metrics.histogram(
            "ottla_shard_append_seconds", "Time for one append to a shard's log.", kind=kind
        )
        self.left: Final = metrics.counter("ottla_shard_left_total", "Shards given up, for any reason.", kind=kind)
        self.released: Final = metrics.counter(
            "ottla_shard_given_up_total", "Shards given up although no other instance owned them.", kind=kind
        )
        self.own_rejected: Final = metrics.counter(
            "ottla_shard_timers_rejected_total",
            "Actions that the coordinator started by itself (for example, on a timer) and that were rejected.",
            kind=kind,
        )
        self._gaps: Final = {
            starved: metrics.counter("ottla_loop_gaps_total", "Event-loop pauses of a second or more.", cause=cause)
            for starved, cause in ((True, "starved"), (False, "stopped"))
        }
        metrics.gauge("ottla_shards_serving", "Shards loaded and being served.", self._serving, kind=kind)
        metrics.gauge(
            "ottla_shard_loading_seconds",
            "Age of the longest shard load in progress.",
            self._loading_s,
            kind=kind,
        )
        metrics.gauge("ottla_shard_requests_parked", "Requests waiting for a response.", self._unanswered, kind=kind)

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock, self._processor = LoopClock(self._loop.time()), ProcessorTime(self._loop.time())
        self._ticking = asyncio.create_task(self._tick(), name=f"{self.kind}-tick")

    async def stop(self) -> None:
        """Take nothing new, finish what is under way, and drop the rest. The end of the registration gives the shards
        away."""
        self._stopping = True
        self.on_settled()
        try:
            async with asyncio.timeout(DRAIN_S):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("%s shards still have requests in progress; stopping anyway", self.kind)
        await self.kill()

    async def kill(self) -> None:
        self._stopping = True
        for held in self._held.values():
            held.handle(lambda owner, now: owner.leave("the process is stopping"))
        self._held.clear()
        self._to_load.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await end_task(self._ticking)

    # ---- for the service (docstrings: `shards.Shards`) --------------------------------------------------------------

    async def ask(
        self,
        key: str,
        decide: Decide[S],
        *,
        timeout: float,
        without_confirmation: bool = False,
        size_bytes: int = 0,
    ) -> Any:
        response = self.begin(
            self.shard_of(key),
            decide,
            timeout=timeout,
            without_confirmation=without_confirmation,
            size_bytes=size_bytes,
        )
        return await _within(timeout, response)

    def recall(self, key: str, decide: FromMemory[S]) -> Recalled | None:
        held = self._held.get(self.shard_of(key))
        return None if held is None or self._stopping else held.recall(decide)

    async def ask_shard(
        self, shard: int, decide: Decide[S], *, timeout: float, without_confirmation: bool = False, size_bytes: int = 0
    ) -> Any:
        response = self.begin(
            shard, decide, timeout=timeout, without_confirmation=without_confirmation, size_bytes=size_bytes
        )
        return await _within(timeout, response)

    def begin(
        self,
        shard: int,
        decide: Decide[S],
        *,
        timeout: float,
        without_confirmation: bool = False,
        at_leisure: bool = False,
        size_bytes: int = 0,
    ) -> asyncio.Future[Any]:
        response: asyncio.Future[Any] = self.loop.create_future()
        held = self._held.get(shard)
        if held is None or self._stopping:
            reject(response, not_coordinator())
        elif self._waiting_bytes + size_bytes > self.limits.max_waiting_bytes:
            reject(response, crowded())
        else:
            if shard in self._to_load:
                self._to_load.move_to_end(shard, last=False)
            patience_s = min(timeout, self.limits.append_s)  # the time limit before it is decided

            def request(owner: Owner[S], now: Moment) -> list[Effect]:
                give_up_at = now.at + patience_s
                return owner.on_request(
                    ShardRequest(response, decide, give_up_at, without_confirmation, at_leisure), now
                )

            held.handle(request)
            if size_bytes and not response.done():
                self._waiting_bytes += size_bytes
                response.add_done_callback(lambda _: self._release_bytes(size_bytes))
        return response

    def _release_bytes(self, size_bytes: int) -> None:
        self._waiting_bytes -= size_bytes

    def owned(self) -> Sequence[int]:
        return sorted(n for n, held in self._held.items() if held.owner.phase is not Phase.LEFT)

    def epoch(self, shard: int) -> int:
        if (held := self._held.get(shard)) is None:
            raise not_coordinator()
        return held.owner.fence.epoch

    def limit(self, limits: ShardLimits) -> None:
        self.limits = limits
        for held in self._held.values():
            held.owner.limits = limits

    def statuses(self) -> list[OwnedShardStatus[S]]:
        """Return the shards that this process has, as far as it knows. A shard that another owner has taken is not
        among them, whatever the metadata says."""
        return [
            OwnedShardStatus(
                n, held.owner.phase, held.age_s, held.owner.next_offset, held.owner.trouble, held.owner.shard
            )
            for n, held in sorted(self._held.items())
            if not held.is_elsewhere
        ]

    def shard_of(self, key: str) -> int:
        if not self._shards:
            topic = SHARD_TOPICS[self.kind]
            raise OttlaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} does not exist yet", hint="try again")
        return shard_of(key, self._shards)

    # ---- metadata --------------------------------------------------------------------------------------------------

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        self._image = new
        self._look(new)

    def _look(self, image: ClusterImage) -> None:
        """Take the shards that are given to this registration, each epoch once. Drop the shards that were given to
        another."""
        topic = image.topics.get(SHARD_TOPICS[self.kind])
        self._shards = 0 if topic is None else topic.partition_count
        self._seen_as = self._incarnation()
        me = self.instance_id, self._seen_as
        mine = {
            number: ShardFence(shard.epoch, shard.incarnation)
            for (kind, number), shard in image.shards.items()
            if kind == self.kind and (shard.owner, shard.incarnation) == me
        }
        for number in self._held.keys() - mine.keys():
            self._to_load.pop(number, None)
            self._held.pop(number).handle(lambda owner, now: owner.leave("it was assigned to another coordinator"))
        for number, fence in mine.items():
            held = self._held.get(number)
            if not self._stopping and (held is None or held.owner.fence.epoch < fence.epoch):
                if held is not None:
                    held.handle(lambda owner, now: owner.leave("it was assigned again, under a new epoch"))
                self._take(number, fence)
        self._notice_leaders(image)
        self._load_more()

    def _notice_leaders(self, image: ClusterImage) -> None:
        """Have a shard whose partition has another leader call it at once, however long it had meant to wait."""
        topic = image.topics.get(SHARD_TOPICS[self.kind])
        for number, held in list(self._held.items()):
            partition = None if topic is None else image.partitions.get(PartitionId(topic.id, number))
            if partition is not None and partition.leader >= 0 and partition.leader_epoch != held.leader_epoch:
                held.leader_epoch = partition.leader_epoch
                held.handle(lambda owner, now: owner.on_leader(now))

    def _take(self, number: int, fence: ShardFence) -> None:
        state = self._new_shard(number)
        owner = Owner(fence, state, self.limits, self.now(), random.random, time.thread_time)
        held = HeldShard(number, owner, self)
        self._held[number] = self._to_load[number] = held

    def _load_more(self) -> None:
        """Begin the next loads while few make progress. A shard whose log has trouble goes on trying beside them."""
        while self._to_load and sum(held.is_loading for held in self._held.values()) < self.limits.loads_at_once:
            number, held = self._to_load.popitem(last=False)
            _log.info(
                "%s shard %d is assigned to this coordinator in epoch %d; loading it",
                self.kind,
                number,
                held.owner.fence.epoch,
            )
            self.loads.value += 1
            held.start()

    # ---- for its shards -------------------------------------------------------------------------------------------

    def now(self) -> Moment:
        """Return the present moment. Every event passes here first, because after a gap every earlier proof is older
        than the clock says."""
        at = self._clock.on_time(self.loop.time())
        if self._clock.gap_s:
            self._on_gap(self._clock.gap_s)
        return Moment(at, self._wall.wall_ms())

    def _on_gap(self, gap_s: float) -> None:
        """Shift the deadlines after a gap. The reason for the gap is logged, and changes nothing: the proofs are as old
        either way."""
        for held in self._held.values():
            held.owner.on_gap(gap_s)
        passed_s, runnable_s = self._processor.look(self.loop.time())
        starved = runnable_s > passed_s / 2
        self._gaps[starved].value += 1
        _log.warning(
            "the event loop stalled for %.1f s: %s; all deadlines are extended by that time",
            gap_s,
            "this process got too little CPU time" if starved else "this process was stopped",
        )

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "it is not started"
        return self._loop

    def loop_time(self, at: float) -> float:
        """Return the time of the loop's own clock at the instant `at`."""
        return self._clock.monotonic_at(at)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def on_settled(self) -> None:
        """Go on after something was handled: a load may be over, and a stop may be waiting for the last request."""
        if self._to_load:
            self._load_more()
        if self._stopping and not any(held.owner.is_busy for held in self._held.values()):
            self._idle.set()

    def on_left(self, number: int, fence: ShardFence, leave: Leave, owned_s: float) -> None:
        self.left.value += 1
        self.released.value += leave.needs_epoch
        level = logging.WARNING if leave.needs_epoch else logging.INFO
        _log.log(level, "%s shard %d, epoch %d, is given up: %s", self.kind, number, fence.epoch, leave.reason)
        try:
            self._when_left(number, fence.epoch)
        except Exception:
            _log.exception("cleaning up after %s shard %d failed", self.kind, number)
        if leave.needs_epoch and not self._stopping:
            rest_s = _REST_S if owned_s < _SHORT_OWNERSHIP_S else 0.0  # so that an immediate end does not make it spin
            self.spawn(self._ask_anew(number, fence.epoch, rest_s))

    async def _ask_anew(self, number: int, epoch: int, rest_s: float) -> None:
        """Repeat the release until the controller accepts it. The shard then has another epoch in the image, here or
        elsewhere."""
        backoff = Backoff(first_s=0.1, most_s=2.0)
        await asyncio.sleep(rest_s)
        while (held := self._held.get(number)) is not None and held.owner.fence.epoch == epoch:
            try:
                await self._release(number, epoch)
            except OttlaError as error:
                _log.warning("%s shard %d can't be released yet: %s", self.kind, number, error)
            else:
                return
            await asyncio.sleep(backoff.next())

    async def _tick(self) -> None:
        while True:
            self.now()
            self._processor.look(self.loop.time())
            if self._image is not None and self._incarnation() != self._seen_as:
                self._look(self._image)  # shards may be given to a registration before it knows of itself
            await asyncio.sleep(TICK_S)

    def _serving(self) -> float:
        return sum(held.owner.phase is Phase.SERVING for held in list(self._held.values()))

    def _loading_s(self) -> float:
        return max((status.for_s for status in self.statuses() if not status.is_served), default=0.0)

    def _unanswered(self) -> float:
        return sum(held.owner.unanswered for held in list(self._held.values()))


async def _within(timeout: float, response: asyncio.Future[Any]) -> Any:
    """Return the response, or raise REQUEST_TIMED_OUT."""
    if response.done():  # a heartbeat's response is done at once
        return response.result()
    try:
        async with asyncio.timeout(timeout):
            return await response
    except TimeoutError:
        raise OttlaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"no response within {timeout:g} s; the request may still have been carried out",
            hint="try again",
        ) from None
