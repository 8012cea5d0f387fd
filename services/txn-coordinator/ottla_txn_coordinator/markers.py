"""Markers of decided transactions are sent until all are written. Then the transaction is complete (rule 35).

Markers for one leader, or for one owner of groups, go there in one call. A destination or a partition that fails is
left alone for a while, and does not hold up the others. A call is answered only when its slowest partition is done, so
a partition that was late shares calls only with other late ones. If a call ends by its deadline, all of its partitions
count as late. If it was a call of late ones, each of them gets calls of its own. Markers are sent while their shard is
owned under its epoch, which each of them carries (rule 36). The next owner sends its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from itertools import chain
from typing import Any, Final, Protocol

from ottla_core.cluster.image import ClusterImage
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.coordination.shards import Shards
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.event_loop.tasks import end_tasks
from ottla_core.model import TopicPartition
from ottla_core.rpc.retry import Backoff
from ottla_core.telemetry import Metrics
from ottla_txn_coordinator.ending import Ending
from ottla_txn_coordinator.machines.shard import TransactionShard
from ottla_txn_coordinator.machines.transaction import SendMarkers, decide_complete
from ottla_txn_coordinator.marker_calls import Destination, Lateness, MarkerToWrite, MarkerWriter, Unroutable, find

MOST_OF_A_CALL: Final = 1_000
CALLS_AT_ONCE: Final = 4
"""How many calls go to one destination at once. Each waits for its slowest partition. If the last call has failed,
there is only one."""

LATE: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""The partition's replicas, or the log of the shard of groups, did not confirm the marker within the call's time."""

FINAL: Final = frozenset({ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
"""A newer coordinator, or a newer producer, has been there: nothing of this transaction can follow."""

_ASK_S: Final = 10.0
SLOW_S: Final = 0.02
"""How long a marker that comes during a call waits for the call's end, before it gets a call of its own."""

_log = logging.getLogger(__name__)


class Metadata(Protocol):
    """This instance's metadata (ottla_core.cluster.follower)."""

    @property
    def image(self) -> ClusterImage: ...
    async def catch_up(self, timeout: float) -> ClusterImage: ...


class _Queue:
    """The markers that wait for one destination."""

    def __init__(self) -> None:
        self.markers: deque[MarkerToWrite] = deque()
        self.backoff: Final = Backoff()
        self.workers = 0
        self.next_worker: asyncio.Handle | None = None

    def take(self, most: int, *, of_one_partition: bool = False) -> list[MarkerToWrite]:
        """Take the next markers, at least one. With `of_one_partition`, take only those of one partition that follow
        each other."""
        taken = [self.markers.popleft()]
        while self.markers and len(taken) < most:
            if of_one_partition and self.markers[0].partition != taken[0].partition:
                break
            taken.append(self.markers.popleft())
        return taken

    @property
    def needs_worker(self) -> bool:
        return self.workers < (1 if self.backoff.attempts else CALLS_AT_ONCE)


class TxnMarkers:
    """A component. `on_effect` and `on_left` are for the coordinator's host."""

    def __init__(
        self, shards: Shards[TransactionShard], metadata: Metadata, writer: MarkerWriter, metrics: Metrics
    ) -> None:
        self._shards: Final = shards
        self._metadata: Final = metadata
        self._writer: Final = writer
        self._endings: Final[dict[tuple[int, int], dict[str, Ending]]] = {}
        self._queues: Final[dict[Destination, _Queue]] = {}
        self._late: Final[dict[TopicPartition, Lateness]] = {}
        """They are the partitions whose last marker was late. They are few, and each is here only until one of its
        markers is written or none is left."""
        self._to_route: Final[deque[tuple[Ending, Iterable[TopicPartition]]]] = deque()
        self._unknown: list[tuple[Ending, TopicPartition]] = []
        self._is_catching_up = False
        self._arrived: Final = asyncio.Event()
        self._tasks: Final[dict[asyncio.Task[None], None]] = {}
        self._written: Final = metrics.counter("ottla_txn_markers_written_total", "Markers written to partitions.")
        self._failed: Final = metrics.counter(
            "ottla_txn_markers_failed_total",
            "Failed attempts to write a marker; the coordinator sends the marker again.",
        )
        metrics.gauge("ottla_txn_markers_pending", "Markers not yet written to partitions.", self._pending)

    async def start(self) -> None:
        self._spawn(self._route_all())

    async def stop(self) -> None:
        for endings in list(self._endings):
            self.on_left(*endings)
        await end_tasks(list(self._tasks))

    # ---- transactions -----------------------------------------------------------------------------------------------

    def on_effect(self, shard: int, epoch: int, effect: Any) -> None:
        if isinstance(effect, SendMarkers):
            ending = Ending(shard, epoch, effect.transactional_id, effect.record)
            endings = self._endings.setdefault((shard, epoch), {})
            if (former := endings.get(ending.transactional_id)) is not None:
                former.give_up()  # complete, or this one had not begun; its response was lost
            endings[ending.transactional_id] = ending
            self._route_later(ending, sorted(effect.record.partitions))

    def on_left(self, shard: int, epoch: int) -> None:
        for ending in self._endings.pop((shard, epoch), {}).values():
            ending.give_up()
        if self._late:
            others = chain.from_iterable(endings.values() for endings in self._endings.values())
            left = set[TopicPartition]().union(*(ending.left for ending in others))
            for partition in [partition for partition in self._late if partition not in left]:
                del self._late[partition]

    def left(self, shard: int, transactional_id: str) -> Sequence[TopicPartition]:
        """Return the partitions for which the end of this id's transaction waits."""
        ending = self._ending(shard, transactional_id)
        return [] if ending is None else sorted(ending.left)

    async def completing(self, shard: int, transactional_id: str, timeout_s: float) -> None:
        """Return once new decisions find no ending transaction of this id, or `timeout_s` after its end was decided. So
        an end that takes longer than usual holds up no request."""
        if (ending := self._ending(shard, transactional_id)) is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(ending.began_at + timeout_s):
                    await ending.completing.wait()

    def _ending(self, shard: int, transactional_id: str) -> Ending | None:
        found = (endings.get(transactional_id) for (n, _), endings in self._endings.items() if n == shard)
        return next((ending for ending in found if ending is not None), None)

    def _pending(self) -> float:
        return sum(len(ending.left) for endings in list(self._endings.values()) for ending in list(endings.values()))

    def _on_written(self, ending: Ending, partition: TopicPartition) -> None:
        ending.left.discard(partition)
        self._late.pop(partition, None)
        self._written.value += 1
        if not ending.left and not ending.is_over:
            self._spawn(self._complete(ending))

    async def _complete(self, ending: Ending) -> None:
        backoff = Backoff()
        while not ending.is_over:
            try:
                response = self._shards.begin(
                    ending.shard,
                    lambda shard, now: decide_complete(shard.caught(ending.transactional_id), ending.record, now),
                    timeout=_ASK_S,
                    at_leisure=True,
                )
                ending.completing.set()  # the requests that waited for it come next, and go into the same append
                await response
            except OttlaError as error:
                _log.debug("%s is complete, but not yet recorded as such: %s", ending.transactional_id[:100], error)
                await asyncio.sleep(backoff.next())
                continue
            ending.is_over = True
            endings = self._endings.get((ending.shard, ending.epoch), {})
            if endings.get(ending.transactional_id) is ending:  # the next transaction may end already
                del endings[ending.transactional_id]

    # ---- the way of a marker ----------------------------------------------------------------------------------------

    def _route_later(self, ending: Ending, partitions: Iterable[TopicPartition]) -> None:
        self._to_route.append((ending, partitions))
        self._arrived.set()

    async def _route_all(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            time_slice = Slice()
            while self._to_route:
                ending, partitions = self._to_route.popleft()
                if not ending.left and not ending.is_over:
                    self._spawn(self._complete(ending))  # the transaction has no partitions
                for partition in partitions:
                    self._route(ending, partition)
                    await time_slice.rest()

    def _route(self, ending: Ending, partition: TopicPartition) -> None:
        if ending.is_over:
            return
        match find(self._metadata.image, partition):
            case Unroutable.UNKNOWN:
                self._unknown.append((ending, partition))
                if not self._is_catching_up:
                    self._is_catching_up = True
                    self._spawn(self._look_for_unknown())
            case Unroutable.NO_LEADER:
                self._pause(ending, partition)
            case (Destination() as destination, topic_id):
                destination = destination._replace(late=self._late.get(partition, Lateness.IN_TIME))
                queue = self._queues.setdefault(destination, _Queue())
                queue.markers.append(MarkerToWrite(ending, partition, topic_id))
                if not queue.workers:
                    self._add_worker(destination, queue)
                # otherwise it goes with the next call of a worker
                elif queue.needs_worker and queue.next_worker is None:
                    loop = asyncio.get_running_loop()
                    queue.next_worker = loop.call_later(SLOW_S, self._add_worker, destination, queue)

    def _add_worker(self, destination: Destination, queue: _Queue) -> None:
        queue.next_worker = None
        if queue.markers and queue.needs_worker:
            queue.workers += 1
            self._spawn(self._work(destination, queue))

    def _pause(self, ending: Ending, partition: TopicPartition) -> None:
        """Try a partition again later, together with all others of the transaction that fail until then."""
        self._failed.value += 1
        ending.paused.append(partition)
        if len(ending.paused) == 1:
            asyncio.get_running_loop().call_later(ending.backoff.next(), self._resume, ending)

    def _resume(self, ending: Ending) -> None:
        partitions, ending.paused = ending.paused, []
        self._route_later(ending, partitions)

    async def _look_for_unknown(self) -> None:
        """Drop partitions that are gone, which need no marker. They are those that up-to-date metadata does not
        have."""
        try:
            while self._unknown:
                unknown, self._unknown = self._unknown, []
                try:
                    image = await self._metadata.catch_up(_ASK_S)
                except (StoreUnavailableError, TimeoutError, OttlaError):
                    for ending, partition in unknown:
                        self._pause(ending, partition)
                    continue
                for ending, partition in unknown:
                    is_gone = find(image, partition) is Unroutable.UNKNOWN
                    (self._on_written if is_gone else self._route)(ending, partition)
        finally:
            self._is_catching_up = False

    async def _work(self, destination: Destination, queue: _Queue) -> None:
        try:
            while queue.markers:
                taken = queue.take(MOST_OF_A_CALL, of_one_partition=destination.late is Lateness.ALONE)
                if markers := [m for m in taken if not m.ending.is_over]:
                    await self._write(destination, queue, markers)
        finally:
            queue.workers -= 1
            if not queue.workers and not queue.markers and self._queues.get(destination) is queue:
                del self._queues[destination]

    async def _write(self, destination: Destination, queue: _Queue, markers: list[MarkerToWrite]) -> None:
        try:
            errors = await self._writer.write(destination, markers)
        except Exception as error:
            known = isinstance(error, OttlaError)
            if queue.backoff.attempts == 0 or not known:
                _log.warning(
                    "sending markers to %s failed, retrying: %s", destination.address, error, exc_info=not known
                )
            if isinstance(error, OttlaError) and error.code == ErrorCode.REQUEST_TIMED_OUT:
                self._note_late(markers, Lateness(min(destination.late + 1, Lateness.ALONE)))
            await asyncio.sleep(queue.backoff.next())
            time_slice = Slice()
            others = queue.take(len(queue.markers)) if queue.markers else ()
            for marker in (*others, *markers):  # their leader may have changed
                self._route(marker.ending, marker.partition)
                await time_slice.rest()
            return
        queue.backoff.reset()
        for marker, written in zip(markers, errors, strict=True):
            is_done = written.code == ErrorCode.NONE or written.code in FINAL
            if written.code in LATE:
                self._note_late([marker], Lateness.LATE)
            (self._on_written if is_done else self._pause)(marker.ending, marker.partition)

    def _note_late(self, markers: Iterable[MarkerToWrite], lateness: Lateness) -> None:
        for partition in (marker.partition for marker in markers if not marker.ending.is_over):
            self._late[partition] = max(self._late.get(partition, Lateness.IN_TIME), lateness)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
