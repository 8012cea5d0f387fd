"""A consumer's machine and its fetch sessions at two brokers, whatever comes between a request and its response.

Every record is read once, in its order, from where a position was put last; and once nothing disturbs any longer,
all of them are, though no fetch ends by its time: what is requested of nobody, or forgotten by a broker, is found.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from logs import values_batch

from ottla.client.kafka.topic_names import TopicNames
from ottla.consumer.fetch import Fetched, FetchOptions, exchange_of
from ottla.machines.broker_session import FINAL_EPOCH, BrokerSession
from ottla.machines.metadata import BrokerView, Route
from ottla.machines.position import Fetch, FetchedData, FetchSession, Target
from ottla.machines.subscription import FetchLimits as ReaderLimits
from ottla.machines.subscription import SubscriptionState
from ottla_broker.kafka.fetch_sessions import FetchSessions
from ottla_broker.kafka.handlers import fetch as fetch_handler
from ottla_broker.kafka.wire import fetch as fetch_wire
from ottla_broker.kafka.wire.fetch_request import RequestedPartition
from ottla_broker.kafka.wire.leaders import NewLeaders
from ottla_broker.machines.offsets import HighWatermark, LastStableOffset
from ottla_broker.replication.fetch import Consumers, PartitionFetch, fetch_due
from ottla_broker.replication.fetch_purgatory import FetchPurgatory
from ottla_broker.replication.replica_offsets import Positions
from ottla_broker.replication.response_memory import UNBOUNDED
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka import codec
from ottla_core.kafka.messages import FetchRequest, FetchResponse
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.model import PartitionId, TopicId, TopicPartition
from ottla_core.records.batch import iter_headers, placed_prefix, read_header

COUNT = 3
IDS = [PartitionId(TopicId(b"t" * 16), n) for n in range(COUNT)]
NAMES = [TopicPartition("t", n) for n in range(COUNT)]
BROKERS = {n: BrokerView(n, f"b{n}:1") for n in range(2)}
BATCH = values_batch(b"x")
VERSION = 17


@dataclass(eq=False)
class Log:
    """A partition: a record to an offset, `epochs` are those in which they were appended."""

    number: int
    epochs: list[int] = field(default_factory=list)
    leader: int = 0
    epoch: int = 1
    followed_to: int = 0
    deleted_before: int = 0


class ReplicaOf:
    """What one broker has of a log; all of it is committed, but a follower hears of that later."""

    def __init__(self, log: Log, broker: int) -> None:
        self._log, self._broker = log, broker
        self.id = IDS[log.number]
        self.traffic = SimpleNamespace(bytes_out=0)
        self.log = SimpleNamespace(log_start_offset=0)
        self.disk = self.offsets = self

    @property
    def leads(self) -> bool:
        return self._log.leader == self._broker

    @property
    def high_watermark(self) -> int:
        return len(self._log.epochs) if self.leads else self._log.followed_to

    @property
    def positions(self) -> Positions:
        watermark = HighWatermark(self.high_watermark)
        return Positions(0, LastStableOffset(watermark), watermark)

    def on_reader(self) -> None: ...

    def check_epoch(self, known: int | None) -> None:
        if known != self._log.epoch:
            older = known is not None and known < self._log.epoch
            raise OttlaError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH, "epoch")

    def led_in(self, known: int | None) -> None:
        self.check_epoch(known)
        if not self.leads:
            raise OttlaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not here")

    async def read(self, offset: int, max_bytes: int, limit: int, *, min_one_batch: bool) -> bytes:
        await asyncio.sleep(0)
        if offset > limit:
            raise OttlaError(ErrorCode.OFFSET_NOT_AVAILABLE, "not yet")
        count = min(limit - offset, max(max_bytes // len(BATCH), int(min_one_batch)))
        header = read_header(BATCH)
        batches = (placed_prefix(header, at, self._log.epochs[at]) + BATCH[16:] for at in range(offset, offset + count))
        return b"".join(batches)


class Stream:
    """A connection, and the responses that the client has not got yet. A broker reads the next request once the one
    before it is answered."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.tasks: dict[Fetch, asyncio.Task[Any]] = {}
        self.session = BrokerSession()
        self._last: asyncio.Task[Any] | None = None

    def send(self, request: Fetch) -> None:
        self._last = self.tasks[request] = asyncio.create_task(self._answered(request, self._last))

    async def _answered(self, request: Fetch, former: asyncio.Task[Any] | None) -> Fetched:
        asked = exchange_of(request, self.session, self.broker.options, TopicNames())
        body = codec.encode(asked.builder(1000)(VERSION), VERSION)
        if former is not None:
            await asyncio.wait([former])
        return asked.result(codec.decode(FetchResponse, await self.broker.answer(body), VERSION), "b")

    def delivered(self) -> tuple[Fetch, asyncio.Task[Any]] | None:
        """Take a response that has come."""
        done = [request for request, task in self.tasks.items() if task.done()]
        return (done[0], self.tasks.pop(done[0])) if done else None

    def break_off(self) -> list[Fetch]:
        """Break the connection."""
        known = self.broker.sessions._sessions
        self.broker.left.update(known if self.session.is_beginning else [self.session.id])
        return self._cancel()

    async def close(self) -> None:
        self._cancel()
        goodbye = FetchRequest(session_id=self.session.id, session_epoch=FINAL_EPOCH)
        await self.broker.answer(codec.encode(goodbye, VERSION))

    def _cancel(self) -> list[Fetch]:
        for task in self.tasks.values():
            task.cancel()
        return list(self.tasks)


class Broker:
    """The sessions of KIP-227, with the messages as they are on the wire."""

    def __init__(self, number: int, logs: list[Log], room: int, wait_s: float) -> None:
        self.purgatory = FetchPurgatory()
        self._table: Any = SimpleNamespace(consumers=self.purgatory, find=self._find, get=self._find)
        self._replicas = {IDS[log.number]: ReplicaOf(log, number) for log in logs}
        self._number, self._logs = number, logs
        self.has_room = room > COUNT
        numbers = itertools.count(1)
        self.left: set[int] = set()
        """The connection of each of these sessions broke, so the client could not end it."""
        self.sessions = FetchSessions(lambda: next(numbers), self.purgatory, max_partitions=room)
        self.options = FetchOptions(1, 2 * len(BATCH), wait_s, "r", read_committed=False)
        nobody: Any = SimpleNamespace(image=SimpleNamespace(partitions={}))
        self._leaders = NewLeaders(nobody, nobody)

    def _find(self, partition_id: PartitionId) -> ReplicaOf:
        return self._replicas[partition_id]

    def _closest(self, replica: Any, at: int) -> int | None:
        log = replica._log
        return 1 - self._number if log.number == 0 and log.followed_to >= at else None

    async def answer(self, asked: bytes) -> bytes:
        request = fetch_wire.read(Reader(memoryview(asked), flexible=True), VERSION)
        consumers = Consumers(self._table, cast(Any, self._closest if request.rack else None), any_replica=True)
        try:
            with self.sessions.fetching(request, by_id=True, now=0.0) as session:
                limits = fetch_handler._limits(request, session, UNBOUNDED)
                looked = await fetch_due(session, _read_of, consumers, limits, whole=session.is_whole)
                parts, session_id, code = session.response(looked), session.id, 0
        except OttlaError as error:
            parts, session_id, code = [], 0, error.code
        written = fetch_wire.write(VERSION, parts, self._leaders, isolation=0, session_id=session_id, error_code=code)
        return b"".join(map(bytes, written))


def _read_of(request: RequestedPartition) -> PartitionFetch:
    partition_id = PartitionId(cast(TopicId, request.topic), request.number)
    return PartitionFetch(partition_id, request.leader_epoch, request.offset, request.max_bytes)


class World:
    def __init__(self, room: int, *, is_patient: bool) -> None:
        self.logs = [Log(number) for number in range(COUNT)]
        self.brokers = {BROKERS[n].address: Broker(n, self.logs, room, 60.0 if is_patient else 0.01) for n in BROKERS}
        self.streams: dict[tuple[Target, bool], Stream] = {}
        self.former: list[Stream] = []
        self.now, self.interrupted = 0.0, False
        self.sub = SubscriptionState(ReaderLimits(prefetch_bytes=1 << 16), "none")
        # On one connection, a new session waits for the last fetch of the one before it.
        self.may_interrupt = not is_patient
        self.routes = self.actual_routes()
        for name in NAMES:
            self.sub.seek(self.sub.assign(name), 0)
        self.reading: FetchedData | None = None

    def actual_routes(self) -> dict[TopicPartition, Route]:
        return {NAMES[x.number]: Route(IDS[x.number], BROKERS[x.leader].address, x.epoch) for x in self.logs}

    # ---- what happens ------------------------------------------------------------------------------------------------

    def append(self, log: Log) -> None:
        log.epochs.append(log.epoch)
        self._wake(log)

    def replicate(self, log: Log) -> None:
        log.followed_to = len(log.epochs)
        self._wake(log)

    def move(self, log: Log) -> None:
        log.leader, log.epoch, log.followed_to = 1 - log.leader, log.epoch + 1, len(log.epochs)
        self._wake(log)

    def _wake(self, log: Log) -> None:
        for broker in self.brokers.values():
            broker.purgatory.wake(IDS[log.number])

    def seek(self, log: Log, at: int) -> None:
        position = self.sub.positions.get(NAMES[log.number])
        if position is not None:
            self.sub.seek(position, at % (len(log.epochs) + 1))

    def pause(self, log: Log) -> None:
        position = self.sub.positions.get(NAMES[log.number])
        if position is not None:
            (self.sub.resume if position.paused else self.sub.pause)(position)

    def unassign(self, log: Log) -> None:
        name = NAMES[log.number]
        if name in self.sub.positions:
            self.sub.unassign(name)
        else:
            self.sub.seek(self.sub.assign(name), len(log.epochs) // 2)

    def interrupt(self, _: Log) -> None:
        if self.reading is None and self.may_interrupt:
            self.sub.start_over()
            self.interrupted = True

    def pump(self, _: Log | None = None) -> None:
        fetches, _refresh = self.sub.plan(self.now, self.routes, BROKERS)
        for request in fetches:
            lane = (request.target, request.session.id == 0)
            stream = self.streams.get(lane)
            if stream is None:
                stream = self.streams[lane] = Stream(self.brokers[request.target.address])
            stream.send(request)
        for check in self.sub.checks(self.now, self.routes):
            self.sub.on_checked(check, check.epoch, len(self.logs[check.route.partition_id.partition].epochs), self.now)

    def learn(self, _: Log | None = None) -> None:
        self.routes = self.actual_routes()
        self.sub.on_view(self.now, self.routes, BROKERS)

    async def settle(self, _: Log | None = None) -> None:
        for _turn in range(12):
            await asyncio.sleep(0)

    def deliver(self, log: Log) -> None:
        """A response that is there, of some stream: they may come in any order."""
        streams = list(self.streams.values()) + self.former
        for stream in streams[log.number :] + streams[: log.number]:
            if (delivered := stream.delivered()) is not None:
                self._respond(*delivered)
                return

    def replace_stream(self, log: Log) -> None:
        """It is overdue, and closed in a moment: what comes on it until then is taken."""
        if self.streams:
            target = list(self.streams)[log.number % len(self.streams)]
            self.former.append(self.streams.pop(target))

    def break_former(self, _: Log | None = None) -> None:
        while self.former:
            self._fail(self.former.pop())

    def _respond(self, request: Fetch, task: asyncio.Task[Any]) -> None:
        try:
            fetched: Fetched = task.result()
        except OttlaError as error:
            self.sub.on_failed(request, error.code, error.message, self.now)
            return
        self.sub.on_response(request, fetched.partitions, self.now, in_session=fetched.in_session)

    def break_off(self, log: Log) -> None:
        if self.streams:
            target = list(self.streams)[log.number % len(self.streams)]
            self._fail(self.streams.pop(target))

    def _fail(self, stream: Stream) -> None:
        for request in stream.break_off():
            self.sub.on_failed(request, ErrorCode.NETWORK_EXCEPTION, "broken", self.now)

    def read(self, _: Log | None = None) -> bool:
        """Take what came first, or read it to its end if it was taken already."""
        if self.reading is None:
            self.reading = self.sub.next_fetched()
            return self.reading is not None
        fetched, self.reading = self.reading, None
        position = fetched.position
        if fetched.version == position.version and position.partition in self.sub.positions:
            for _at, header in iter_headers(fetched.records):
                assert header.base_offset == position.offset, "a record was left out, or comes again"
                position.offset = header.next_offset
        self.sub.on_read(fetched)
        return True

    def wait(self, _: Log) -> None:
        self.now += 0.3

    # ---- in the end --------------------------------------------------------------------------------------------------

    @property
    def is_read(self) -> bool:
        positions = self.sub.positions.items()
        return all(position.offset == len(self.logs[name.partition].epochs) for name, position in positions)

    async def until_read(self) -> None:
        for log in self.logs:
            self.append(log)
            self.replicate(log)
        for position in self.sub.positions.values():
            self.sub.resume(position)
        self.learn()
        self.break_former()
        for _round in range(300):
            self.pump()
            await self.settle()
            for log in self.logs:
                self.deliver(log)
            while self.read():
                pass
            if self.is_read:
                await self.check_requested()
                return
            self.now += 2.0
            if _round > 50:
                await asyncio.sleep(0.001)
        raise AssertionError(
            f"nothing comes any more: {[(p.offset, p.in_flight) for p in self.sub.positions.values()]}"
        )

    async def check_requested(self) -> None:
        """Brokers hold what is requested of them, and what they will hear that it is so no longer."""
        for _round in range(8):
            for log in self.logs:
                self.deliver(log)
            self.pump()
            await self.settle()
        sessions = [fetch.session for fetch in self.sub._sessions.open]
        for address, broker in self.brokers.items():
            here = {session.id: session for session in sessions if session.target.address == address}.values()
            self._check_known(broker, here)

    def _check_known(self, broker: Broker, sessions: Iterable[FetchSession]) -> None:
        """A broker has a session of each set of partitions that are requested together."""
        known = [set(session.requested) for session in broker.sessions._sessions.values()]
        for session in sessions:
            wanted = {(each.topic_id, each.partition) for each in [*session.parts, *session.forgotten]}
            if wanted and session.id and broker.has_room and not self.interrupted:
                assert wanted in known, "another set is requested"

    async def end(self) -> None:
        for stream in self.streams.values():
            await stream.close()
        await self.settle()
        for broker in self.brokers.values():
            left = broker.sessions._sessions.keys() - broker.left
            assert self.interrupted or not left, "a session is kept until it is evicted"


ACTS = {
    "append": 4,
    "replicate": 1,
    "pump": 8,
    "settle": 8,
    "deliver": 8,
    "read": 12,
    "seek": 2,
    "pause": 1,
    "unassign": 1,
    "move": 0.5,
    "learn": 1,
    "wait": 2,
    "break_off": 0.3,
    "replace_stream": 0.3,
    "break_former": 0.5,
    "interrupt": 0.3,
}
"""What happens, and how often."""


async def _live(random: Random) -> None:
    # A long wait ends with an event when anything comes. Without room for a session, it goes on to its end.
    room = random.choice([100, 100, 2])
    world = World(room, is_patient=room > COUNT and random.random() < 0.7)
    for act in random.choices(list(ACTS), list(ACTS.values()), k=150):
        done = getattr(world, act)(random.choice(world.logs), *([random.randrange(10)] if act == "seek" else []))
        if asyncio.iscoroutine(done):
            await done
    await world.until_read()
    await world.end()


@pytest.mark.parametrize("hundred", range(5))
def test_every_record_is_read_once_and_nothing_waits_for_ever(hundred: int) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        try:
            asyncio.run(_live(Random(seed)))
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
