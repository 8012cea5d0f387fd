"""An app against scripted brokers: who is handled when, what is tried again, and what is committed."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from batches import raw_batch
from scripted_groups import BrokenError, T, committed, fill, filled, make_anew
from waiting import until

import ottla
from ottla.app.dead_letters import ORIGIN
from ottla.app.metrics import METRICS
from ottla.client.kafka.apis import OFFSET_COMMIT, PRODUCE
from ottla.fakes.scripted import Reject, ScriptedCluster
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import FetchRequest, HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest

KEYS = [b"a", b"b", b"c"]


def app_of(cluster: ScriptedCluster, *, drain_timeout: float = 10.0, **consumer: Any) -> ottla.App:
    transport = {"_transport": cluster.connect}
    defaults = {"auto_offset_reset": "earliest", "fetch_max_wait": 0.05, "heartbeat_interval": 0.05}
    return ottla.App(
        "g",
        "b0:1",
        drain_timeout=drain_timeout,
        consumer={**transport, **defaults, **consumer},
        producer={**transport, "delivery_timeout": 1, "request_timeout": 0.5},
    )


def send(cluster: ScriptedCluster, records: Iterable[tuple[bytes | None, bytes | None]], **more: Any) -> None:
    with ottla.Producer[Any, Any]("b0:1", topic="t", _transport=cluster.connect) as producer:
        for key, value in records:
            producer.send(value, key=key, partition=0, **more)


async def beats(cluster: ScriptedCluster, count: int = 4) -> None:
    """For as long as so many heartbeats take: long enough for what should not happen."""
    asked = len(cluster.requests(HeartbeatRequest))
    await until(lambda: len(cluster.requests(HeartbeatRequest)) > asked + count)


class Desk:
    """A handler whose records wait to be let go. `seen` are the offsets, `most` how many were there at once."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.there: dict[int, asyncio.Event] = {}
        self.most = 0

    async def __call__(self, value: Any, ctx: ottla.Context) -> None:
        self.seen.append(ctx.offset)
        event = self.there[ctx.offset] = asyncio.Event()
        self.most = max(self.most, len(self.there))
        try:
            await event.wait()
        finally:
            del self.there[ctx.offset]

    def let_go(self, *offsets: int) -> None:
        for offset in offsets or list(self.there):
            self.there[offset].set()


def desk_of(app: ottla.App, **arguments: Any) -> Desk:
    desk = Desk()

    @app.on("t", value="bytes", **arguments)
    async def handle(value: Any, ctx: ottla.Context) -> None:
        await desk(value, ctx)

    return desk


# ---- order and concurrency ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_thread", [False, True])
async def test_every_record_is_handled_each_keys_in_order_and_committed(in_thread: bool) -> None:
    cluster = filled({0: 0, 1: 200})
    send(cluster, ((KEYS[n % 3], b"%d" % n) for n in range(300)))
    app = app_of(cluster)
    seen: dict[Any, list[int]] = defaultdict(list)

    def note(value: bytes, ctx: ottla.Context) -> None:
        seen[ctx.partition, ctx.key].append(ctx.offset)

    async def note_later(value: bytes, ctx: ottla.Context) -> None:
        await asyncio.sleep(0.001 * (ctx.offset % 2))
        note(value, ctx)

    app.on("t", key="bytes")(note if in_thread else note_later)
    async with app:
        await until(lambda: app.metrics["records-handled-total"] == 500)
    for n, key in enumerate(KEYS):
        assert seen[0, key] == list(range(n, 300, 3))
    assert sorted(seen[1, None]) == list(range(200))
    assert committed(cluster) == {0: 300, 1: 200}


async def test_as_many_keys_as_may_are_handled_at_once_and_each_only_once() -> None:
    cluster = filled({0: 0})
    send(cluster, ((KEYS[n % 3], b"x") for n in range(6)))
    app = app_of(cluster)
    desk = desk_of(app, concurrency=2)
    async with app:
        await until(lambda: desk.seen == [0, 1])
        desk.let_go(1)
        await until(lambda: desk.seen == [0, 1, 2])
        desk.let_go(0)
        await until(lambda: desk.seen == [0, 1, 2, 4])
        assert app.metrics["handlers-running"] == 2
        while len(desk.seen) < 6 or desk.there:
            desk.let_go()
            await asyncio.sleep(0)
    assert desk.most == 2
    assert committed(cluster) == {0: 6}


async def test_order_of_a_partition_holds_for_all_of_its_records() -> None:
    cluster = filled({0: 3, 1: 3})
    app = app_of(cluster)
    desk = Desk()
    places: list[tuple[int, int]] = []

    @app.on("t", value="bytes", order="partition")
    async def handle(value: bytes, ctx: ottla.Context) -> None:
        places.append((ctx.partition, ctx.offset))
        if ctx.partition == 0:
            await desk(value, ctx)

    async with app:
        await until(lambda: len(places) == 4)
        assert sorted(places) == [(0, 0), (1, 0), (1, 1), (1, 2)]
        for offset in range(3):
            await until(lambda wanted=offset: wanted in desk.there)
            desk.let_go()
    assert desk.most == 1


async def test_handlers_in_threads_run_side_by_side_up_to_their_number() -> None:
    cluster = filled({0: 8})
    app = app_of(cluster)
    together = threading.Barrier(4, timeout=10)
    names = set()

    @app.on("t", concurrency=4)
    def handle(value: str) -> None:
        names.add(threading.current_thread().name)
        together.wait()

    async with app:
        await until(lambda: app.metrics["records-handled-total"] == 8)
    assert len(names) == 4


async def test_a_function_that_returns_a_coroutine_is_waited_for() -> None:
    cluster = filled({0: 2})
    app = app_of(cluster)
    desk = Desk()
    app.on("t", value="bytes")(lambda value, ctx: desk(value, ctx))
    async with app:
        await until(lambda: len(desk.there) == 2)
        assert app.metrics["records-handled-total"] == 0
        desk.let_go()
        await until(lambda: app.metrics["records-handled-total"] == 2)


# ---- trying again, giving up ----------------------------------------------------------------------------------------


async def test_a_record_that_fails_is_tried_again_and_holds_back_its_own_key_alone() -> None:
    cluster = filled({0: 0})
    send(cluster, [(b"a", b"bad"), (b"a", b"good"), (b"b", b"good"), (None, b"good")])
    app = app_of(cluster)
    tries: list[tuple[int, int]] = []

    @app.on("t", value="bytes", retries=5, backoff=0.4, concurrency=1)
    async def handle(value: bytes, ctx: ottla.Context) -> None:
        tries.append((ctx.offset, ctx.attempt))
        await until(lambda: ctx.attempt > 1 or ctx.offset > 0 or app.metrics["records-in-flight"] == 4)
        if value == b"bad" and ctx.attempt < 3:
            raise BrokenError

    async with app:
        await until(lambda: len(tries) == 6)
    assert tries == [(0, 1), (2, 1), (3, 1), (0, 2), (0, 3), (1, 1)]
    assert committed(cluster) == {0: 4}
    assert app.metrics["records-retried-total"] == 2


async def test_what_fails_for_good_goes_to_the_dead_letters_as_it_was_with_its_origin() -> None:
    cluster = filled({0: 1})
    cluster.add_topic("dlq", 1)
    own = [("trace", b"\xff\0"), ("trace", None)]
    send(cluster, [(b"\0key", b"\xff\xfe")], headers=own, timestamp=1_700_000_000_000)
    app = app_of(cluster)

    @app.on("t", value="bytes", retries=2, backoff=0, dead_letter="dlq", commit_interval=0.01)
    async def handle(value: bytes, ctx: ottla.Context) -> None:
        if ctx.offset == 1:
            raise BrokenError("no such customer")

    async with app:
        await until(lambda: committed(cluster) == {0: 2})
    ((_, _, key, value, headers),) = cluster.records("dlq", 0)
    sent = [*own, ("ottla.auto.key", b"bytes"), ("ottla.auto.value", b"bytes")]
    assert (key, value, headers[:4]) == (b"\0key", b"\xff\xfe", sent)
    assert dict(headers[4:]) == {
        "ottla.origin.topic": b"t",
        "ottla.origin.partition": b"0",
        "ottla.origin.offset": b"1",
        "ottla.origin.timestamp": b"1700000000000",
        "ottla.error.class": b"scripted_groups.BrokenError",
        "ottla.error.message": b"no such customer",
        "ottla.attempts": b"3",
        "ottla.group": b"g",
    }
    assert [name for name, _ in headers[4:]] == list(ORIGIN)
    assert app.metrics["records-dead-lettered-total"] == 1


async def test_tombstones_and_records_without_a_key_are_dead_letters_too() -> None:
    cluster = filled({0: 0})
    cluster.add_topic("dlq", 1)
    send(cluster, [(None, None)])
    app = app_of(cluster)

    @app.on("t", retries=0, dead_letter="dlq")
    async def handle(value: int) -> None:
        assert value is not None

    async with app:
        await until(lambda: cluster.records("dlq", 0))
    assert cluster.records("dlq", 0)[0][2:4] == (None, None)


async def test_what_can_not_be_read_or_is_rejected_is_not_tried_again() -> None:
    cluster = filled({0: 0})
    cluster.add_topic("dlq", 1)
    send(cluster, [(None, b"not json {"), (None, b'"rejected"'), (None, b'"good"')])
    app = app_of(cluster)
    seen = []

    @app.on("t", value="json", retries=5, dead_letter="dlq", order="partition", commit_interval=0.01)
    async def handle(value: Any) -> None:
        seen.append(value)
        if value == "rejected":
            raise ottla.RejectError("no such customer")

    async with app:
        await until(lambda: committed(cluster) == {0: 3})
    assert seen == ["rejected", "good"]
    unread, rejected = (dict(headers) for *_, headers in cluster.records("dlq", 0))
    assert unread["ottla.attempts"] == rejected["ottla.attempts"] == b"1"
    assert unread["ottla.error.class"] == b"json.decoder.JSONDecodeError"
    assert rejected["ottla.error.class"] == b"ottla.errors.RejectError"
    assert rejected["ottla.error.message"] == b"no such customer"
    assert cluster.values("dlq", 0) == [b"not json {", b'"rejected"']


@pytest.mark.story("unreadable-batch-stops-its-readers-for-ever")
async def test_a_batch_that_can_not_be_read_is_one_dead_letter() -> None:
    cluster = filled({0: 2})
    cluster.add_topic("dlq", 1)
    cluster.logs[T[0]].append(raw_batch(b"no records at all, really", 3))
    send(cluster, [(None, b"last")])
    app = app_of(cluster)
    seen: list[int] = []

    @app.on("t", value="bytes", dead_letter="dlq", order="partition", commit_interval=0.01)
    async def handle(value: bytes, ctx: ottla.Context) -> None:
        seen.append(ctx.offset)

    async with app:
        await until(lambda: committed(cluster) == {0: 6})
    assert seen == [0, 1, 5]
    [(_, _, key, value, headers)] = [record for record in cluster.records("dlq", 0) if len(record[4]) > 1]
    unreadable = next(batch for batch in cluster.logs[T[0]].batches if batch.first == 2)
    assert (key, value) == (None, unreadable.records)
    assert dict(headers)["ottla.error.class"] == b"ottla.errors.UnreadableBatchError"
    assert dict(headers)["ottla.origin.offset"] == b"2"


async def test_without_dead_letters_the_app_stops_at_a_batch_that_can_not_be_read() -> None:
    cluster = filled({0: 2})
    cluster.logs[T[0]].append(raw_batch(b"no records at all, really", 3))
    app = app_of(cluster)

    @app.on("t", value="bytes", commit_interval=0.01)
    async def handle(value: bytes) -> None: ...

    with pytest.raises(ottla.HandlerError, match="the batch at offset 2 can't be read") as caught:
        await app.serve()
    assert isinstance(caught.value.__cause__, ottla.UnreadableBatchError)
    assert committed(cluster) == {0: 2}


async def test_without_dead_letters_the_app_stops_at_the_record_and_tries_it_again_when_it_runs_again() -> None:
    cluster = filled({0: 0})
    send(cluster, ((b"k", b"%d" % n) for n in range(5)))
    app = app_of(cluster)
    seen = []

    @app.on("t", value="bytes", retries=1, backoff=0)
    async def handle(value: bytes) -> None:
        seen.append(value)
        if value == b"2":
            raise BrokenError("it is broken")

    for run in range(2):
        with pytest.raises(ottla.HandlerError, match="offset 2 of t-0, attempt 2 of 2: BrokenError: it is") as raised:
            await app.serve()
        assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 0, 2)
        assert isinstance(raised.value.__cause__, BrokenError)
        assert committed(cluster) == {0: 2}
        assert seen == [[b"0", b"1", b"2", b"2"], [b"0", b"1", b"2", b"2", b"2", b"2"]][run]


async def test_a_dead_letter_that_is_not_taken_stops_the_app_and_the_record_stays_uncommitted() -> None:
    cluster = filled({0: 1})
    cluster.add_topic("dlq", 1)
    app = app_of(cluster)

    @app.on("t", retries=0, dead_letter="dlq")
    async def handle(value: str) -> None:
        raise BrokenError

    cluster.will(PRODUCE, Reject(ErrorCode.MESSAGE_TOO_LARGE))
    with pytest.raises(ottla.HandlerError, match="'dlq'") as raised:
        await app.serve()
    assert isinstance(raised.value.__cause__, ottla.RecordTooLargeError)
    assert committed(cluster) == {}


async def test_a_dead_letter_topic_that_is_not_there_is_told_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.client.metadata_updater.UNKNOWN_TOPIC_GRACE_S", 0.05)
    cluster = filled({0: 1})
    app = app_of(cluster)

    @app.on("t", dead_letter="nowhere")
    async def handle(value: str) -> None: ...

    with pytest.raises(ottla.UnknownTopicError, match="nowhere"):
        await app.serve()
    assert not cluster.requests(JoinGroupRequest)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), StopIteration(), ottla.WakeupError()])
@pytest.mark.parametrize("in_thread", [False, True])
async def test_whatever_a_handler_raises_is_a_failure_of_the_record(error: BaseException, in_thread: bool) -> None:
    cluster = filled({0: 1})
    cluster.add_topic("dlq", 1)
    app = app_of(cluster)

    def handle(value: str) -> None:
        raise error

    async def handle_later(value: str) -> None:
        raise error

    app.on("t", retries=1, backoff=0, dead_letter="dlq", commit_interval=0.01)(handle if in_thread else handle_later)
    async with app:
        await until(lambda: committed(cluster) == {0: 1})
    assert dict(cluster.records("dlq", 0)[0][4])["ottla.attempts"] == b"2"


# ---- what a handler sends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_thread", [False, True])
async def test_what_a_handler_sends_is_acknowledged_before_its_record_is_committed(in_thread: bool) -> None:
    cluster = filled({0: 1})
    cluster.add_topic("bills", 1)
    app = app_of(cluster)
    places = []

    def bill(value: str, ctx: Any) -> None:
        places.append(ctx.send({"due": value}, topic="bills", key="k").offset)

    async def bill_later(value: str, ctx: ottla.Context) -> None:
        ctx.send({"due": value}, topic="bills", key="k")  # not awaited

    app.on("t", commit_interval=0.01, retries=5, backoff=0)(bill if in_thread else bill_later)
    cluster.will(PRODUCE, Reject(ErrorCode.MESSAGE_TOO_LARGE))  # the first attempt's
    async with app:
        await until(lambda: committed(cluster) == {0: 1})
        assert cluster.values("bills", 0) == [b'{"due":"0"}']
    assert app.metrics["records-retried-total"] == 1
    assert places == ([0] if in_thread else [])


# ---- bounds ---------------------------------------------------------------------------------------------------------


async def test_no_more_is_read_than_may_be_in_flight_and_the_group_is_seen_to_meanwhile() -> None:
    cluster = filled({0: 500}, batch_size=200)
    app = app_of(cluster, max_poll_interval=1.5, prefetch=4000)
    desk = desk_of(app, concurrency=4, max_in_flight=20)
    async with app:
        await until(lambda: len(desk.there) == 4)
        await beats(cluster, 40)  # longer than max_poll_interval
        assert app.metrics["records-in-flight"] == 20
        assert not cluster.groups.group("g").left
        while app.metrics["records-handled-total"] < 500:
            assert app.metrics["records-in-flight"] <= 20
            desk.let_go()
            await asyncio.sleep(0)
    assert sorted(desk.seen) == list(range(500))
    assert committed(cluster) == {0: 500}


async def test_large_records_are_bounded_by_their_bytes() -> None:
    cluster = filled({0: 0})
    send(cluster, ((None, b"x" * 10_000) for _ in range(50)))
    app = app_of(cluster)
    desk = desk_of(app, concurrency=2, max_in_flight_bytes="40KB")
    most = 0.0
    async with app:
        while app.metrics["records-handled-total"] < 50:
            desk.let_go()
            await asyncio.sleep(0)
            most = max(most, app.metrics["records-in-flight"])
    assert most <= 3
    assert desk.seen == list(range(50))


async def test_what_is_finished_behind_a_record_that_is_not_counts_as_in_flight() -> None:
    """For it would be repeated: that is what `max_in_flight` promises."""
    cluster = filled({0: 100})
    app = app_of(cluster)
    seen = []
    event = asyncio.Event()

    @app.on("t", concurrency=2, max_in_flight=10, commit_interval=0.01)
    async def handle(value: str, ctx: ottla.Context) -> None:
        seen.append(ctx.offset)
        if ctx.offset == 0:
            await event.wait()

    async with app:
        await until(lambda: len(seen) == 10)
        await beats(cluster)
        assert len(seen) == 10
        event.set()
        await until(lambda: len(seen) == 100)


# ---- rebalances -----------------------------------------------------------------------------------------------------


async def test_before_partitions_go_what_runs_is_waited_for_and_committed_and_the_rest_is_left() -> None:
    cluster = filled({0: 0})
    send(cluster, ((b"k%d" % (n % 2), b"x") for n in range(6)))
    app = app_of(cluster, assignors="range")
    desk = desk_of(app, concurrency=2, commit_interval=60)
    async with app:
        await until(lambda: desk.seen == [0, 1])
        cluster.groups.rebalance("g")
        await beats(cluster)
        assert committed(cluster) == {}  # it waits
        assert cluster.groups.group("g").generation == 1
        desk.let_go()
        await until(lambda: cluster.groups.group("g").generation == 2)
        assert committed(cluster) == {0: 2}
        await until(lambda: desk.seen == [0, 1, 2, 3])
        desk.let_go()
        await until(lambda: desk.seen == [0, 1, 2, 3, 4, 5])
        desk.let_go()
    assert committed(cluster) == {0: 6}


async def test_a_handler_that_takes_too_long_is_cancelled_and_its_record_handled_again() -> None:
    cluster = filled({0: 1})
    app = app_of(cluster, drain_timeout=0.1, assignors="range")
    desk = desk_of(app)
    async with app:
        await until(lambda: desk.seen == [0])
        cluster.groups.rebalance("g")
        await until(lambda: desk.seen == [0, 0])
        assert committed(cluster) == {}
        desk.let_go()
    assert committed(cluster) == {0: 1}


async def test_what_fails_while_its_partition_goes_is_left_to_whoever_has_it_next() -> None:
    cluster = filled({0: 1})
    app = app_of(cluster, assignors="range")
    seen = []
    event = asyncio.Event()

    @app.on("t", retries=0, commit_interval=0.01)
    async def handle(value: str) -> None:
        seen.append(value)
        await event.wait()
        if len(seen) == 1:
            raise BrokenError

    async with app:
        await until(lambda: seen == ["0"])
        cluster.groups.rebalance("g")
        await beats(cluster)
        event.set()
        await until(lambda: committed(cluster) == {0: 1})
    assert seen == ["0", "0"]


async def test_what_was_lost_is_not_committed_and_its_handlers_count_for_nothing() -> None:
    cluster = filled({0: 0})
    send(cluster, [(b"k", b"x"), (b"k", b"y")])
    app = app_of(cluster)
    desk = desk_of(app, commit_interval=60)
    async with app:
        await until(lambda: desk.seen == [0])
        (member,) = cluster.groups.group("g").members
        cluster.groups.forget("g", member)
        await until(lambda: cluster.groups.group("g").members.keys() - {member})
        await until(lambda: app.metrics["records-in-flight"] == 3)  # the late one, and both anew
        desk.let_go()
        await until(lambda: desk.seen == [0, 0])  # and not before the late one of the same key was over
        assert committed(cluster) == {}
        desk.let_go()
        await until(lambda: desk.seen == [0, 0, 1])
        desk.let_go()
    assert committed(cluster) == {0: 2}


async def test_partitions_that_stay_are_handled_on_while_the_group_rebalances() -> None:
    cluster = filled({0: 4})
    app = app_of(cluster)
    desk = desk_of(app, concurrency=1)
    async with app:
        await until(lambda: desk.seen == [0])
        cluster.groups.rebalance("g")
        await until(lambda: cluster.groups.group("g").generation == 2)
        desk.let_go()
        await until(lambda: desk.seen == [0, 1])
        desk.let_go()
        await until(lambda: len(desk.seen) == 3)
        desk.let_go()
        await until(lambda: len(desk.seen) == 4)
        desk.let_go()
    assert desk.seen == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE]
)
async def test_a_commit_that_is_refused_is_made_again_or_ends_the_app(code: ErrorCode) -> None:
    cluster = filled({0: 3})
    app = app_of(cluster)
    cluster.will(OFFSET_COMMIT, Reject(code))

    @app.on("t", commit_interval=0.01)
    async def handle(value: str) -> None: ...

    if code == ErrorCode.INVALID_COMMIT_OFFSET_SIZE:
        with pytest.raises(ottla.FatalError):
            await app.serve()
        return
    async with app:
        await until(lambda: committed(cluster) == {0: 3})


# ---- running and stopping -------------------------------------------------------------------------------------------


async def test_stopping_waits_for_what_runs_commits_it_and_leaves() -> None:
    cluster = filled({0: 10})
    app = app_of(cluster)
    desk = desk_of(app, concurrency=2)
    serving = asyncio.create_task(app.serve())
    await until(lambda: desk.seen == [0, 1])
    app.stop()
    await beats(cluster)
    assert not serving.done()
    desk.let_go(0)
    await beats(cluster)
    assert desk.seen == [0, 1]  # nothing is begun any more
    desk.let_go(1)
    await serving
    assert committed(cluster) == {0: 2}
    assert len(cluster.groups.group("g").left) == 1


@pytest.mark.parametrize("in_thread", [False, True])
async def test_stopping_does_not_wait_for_ever(in_thread: bool) -> None:
    cluster = filled({0: 2})
    app = app_of(cluster, drain_timeout=0.1)
    over = threading.Event()
    seen = []

    def handle(value: str) -> None:
        seen.append(value)
        over.wait(20)

    async def handle_later(value: str) -> None:
        seen.append(value)
        await asyncio.sleep(20)

    app.on("t", concurrency=1)(handle if in_thread else handle_later)
    async with app:
        await until(lambda: seen == ["0"])
    over.set()
    assert seen == ["0"]
    assert committed(cluster) == {}


async def test_who_cancels_it_stops_it_in_order() -> None:
    cluster = filled({0: 3})
    app = app_of(cluster)

    @app.on("t", commit_interval=60)
    async def handle(value: str) -> None: ...

    serving = asyncio.create_task(app.serve())
    await until(lambda: app.metrics["records-handled-total"] == 3)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert committed(cluster) == {0: 3}
    assert len(cluster.groups.group("g").left) == 1


def test_run_ends_when_another_thread_stops_it() -> None:
    cluster = filled({0: 3})
    app = app_of(cluster)

    @app.on("t")
    def handle(value: str, ctx: ottla.Context) -> None:
        if ctx.offset == 2:
            app.stop()

    thread = threading.Thread(target=app.run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert committed(cluster) == {0: 3}
    assert app.metrics == {**dict.fromkeys(METRICS, 0.0), "records-handled-total": 3.0}
    app.stop()  # says nothing to an app that does not run


def test_what_a_reader_can_not_go_on_after_ends_the_app_and_all_its_handlers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.client.metadata_updater.UNKNOWN_TOPIC_GRACE_S", 0.05)
    cluster = filled({0: 1})
    app = app_of(cluster)
    app.on("t")(print_nothing)
    app.on("nowhere", group="other")(print_nothing)
    with pytest.raises(ottla.UnknownTopicError):
        app.run()
    assert len(cluster.groups.group("g").members) == 0


def print_nothing(value: str) -> None: ...


async def test_an_app_runs_once_at_a_time_and_takes_no_handlers_meanwhile() -> None:
    cluster = filled({0: 1})
    app = app_of(cluster)
    desk = desk_of(app)
    async with app:
        await until(lambda: desk.seen == [0])
        with pytest.raises(ottla.ConfigError, match="is already running"):
            await app.serve()
        with pytest.raises(ottla.ConfigError, match="can't be declared while the app is running"):
            app.on("u")(print_nothing)
        desk.let_go()


async def test_the_blocks_own_error_goes_before_the_apps() -> None:
    cluster = filled({0: 1})
    app = app_of(cluster)
    failed = []

    @app.on("t", retries=0)
    async def handle(value: str) -> None:
        failed.append(value)
        raise BrokenError

    async def run_until_failed(count: int, *, raises: bool) -> None:
        async with app:
            await until(lambda: len(failed) == count)
            if raises:
                raise KeyError

    with pytest.raises(KeyError):
        await run_until_failed(1, raises=True)
    with pytest.raises(ottla.HandlerError):
        await run_until_failed(2, raises=False)


async def test_several_handlers_are_members_of_their_groups() -> None:
    cluster = filled({0: 5})
    cluster.add_topic("u", 1)
    fill(cluster, {0: 3}, topic="u")
    app = app_of(cluster)
    seen: dict[str, list[str]] = defaultdict(list)

    @app.on("t", "u")
    async def one(value: str, ctx: ottla.Context) -> None:
        seen["one"].append(ctx.topic)

    @app.on("t", group="audit", auto_offset_reset="earliest")
    def two(value: str) -> None:
        seen["two"].append(value)

    async with app:
        await until(lambda: app.metrics["records-handled-total"] == 13)
    assert sorted(seen["one"]) == ["t"] * 5 + ["u"] * 3
    assert sorted(seen["two"]) == list("01234")
    assert {p: o.offset for p, o in cluster.groups.group("audit").offsets.items()} == {T[0]: 5}
    assert cluster.requests(FetchRequest)


async def test_an_app_that_is_stopped_before_it_begins_ends_as_soon_as_it_does() -> None:
    app = app_of(ScriptedCluster({"t": 1}))
    desk_of(app)
    serving = asyncio.create_task(app.serve())
    app.stop()
    await asyncio.wait_for(serving, 10.0)
    running = asyncio.create_task(app.serve())
    _, late = await asyncio.wait([running], timeout=0.2)
    assert late, "it is stopped once"
    app.stop()
    await asyncio.wait_for(running, 10.0)


# ---- a topic that is made anew --------------------------------------------------------------------------------------


async def test_what_was_handled_of_a_topic_that_was_made_anew_is_no_place_in_it() -> None:
    cluster = filled({0: 10})
    app = app_of(cluster, metadata_max_age=0.05)
    desk = desk_of(app, commit_interval=1000.0, concurrency=50)
    async with app:
        await until(lambda: len(desk.there) == 10)
        await asyncio.to_thread(make_anew, cluster)
        desk.let_go(*range(5))
        await asyncio.to_thread(fill, cluster, {0: 5})
        await until(lambda: len(desk.seen) == 15)
        desk.let_go()
        await until(lambda: not desk.there)
    assert committed(cluster) == {0: 5}


@pytest.mark.story("handled-of-a-topic-made-anew")
async def test_an_app_that_stops_after_its_topic_was_made_anew_commits_nothing_in_it() -> None:
    cluster = filled({0: 10})
    app = app_of(cluster, metadata_max_age=0.05)
    desk = desk_of(app, commit_interval=1000.0, concurrency=50)
    async with app:
        await until(lambda: len(desk.there) == 10)
        desk.let_go()
        await until(lambda: not desk.there)
        await asyncio.to_thread(make_anew, cluster)
        await beats(cluster)
    assert committed(cluster) == {}


def full_of_two_topics() -> tuple[ScriptedCluster, ottla.App, list[int], asyncio.Event]:
    """Return an app whose handlers wait for the event with 17 records of t and 3 of u, and may have no more in flight.
    The list has the offsets of the records whose handlers were called."""
    cluster = filled({0: 17})
    cluster.add_topic("u", 1)
    fill(cluster, {0: 3}, topic="u")
    app = app_of(cluster, metadata_max_age=0.05)
    handled: list[int] = []
    released = asyncio.Event()

    @app.on("t", "u", value="bytes", commit_interval=1000.0, max_in_flight=20, concurrency=20)
    async def handle(value: Any, ctx: ottla.Context) -> None:
        handled.append(ctx.offset)
        await released.wait()

    return cluster, app, handled, released


@pytest.mark.story("app-that-stops-reading-a-topic-made-anew")
async def test_an_app_whose_commit_is_of_a_former_topic_reads_on_and_commits_the_others() -> None:
    cluster, app, handled, released = full_of_two_topics()

    async with app:
        await until(lambda: len(handled) == 20)
        await asyncio.to_thread(make_anew, cluster, records=5)
        released.set()
        await until(lambda: len(handled) == 25)
    assert {p.topic: at.offset for p, at in cluster.groups.group("g").offsets.items()} == {"t": 5, "u": 3}


@pytest.mark.story("deleted-topic-stalls-an-app")
async def test_an_app_one_of_whose_topics_is_deleted_goes_on_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, app, handled, released = full_of_two_topics()

    judge = cluster.groups.judge

    def without_t(request: OffsetCommitRequest, response: type[Any]) -> list[Any]:
        topics = judge(request, response)
        for topic in topics:
            if topic.topic_id == deleted:
                for outcome in topic.partitions:
                    outcome.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return topics

    deleted = cluster.topic_id("t")

    async with app:
        await until(lambda: len(handled) == 20)
        await asyncio.to_thread(cluster.drop_topic, "t")
        monkeypatch.setattr(cluster.groups, "judge", without_t)
        released.set()
        await asyncio.to_thread(fill, cluster, {0: 30}, topic="u")
        await until(lambda: len(handled) == 50)
    assert {p.topic: at.offset for p, at in cluster.groups.group("g").offsets.items()} == {"u": 33}


@pytest.mark.story("app-stands-still-after-a-truncation")
async def test_an_app_goes_on_after_its_topic_has_lost_more_records_than_may_be_in_flight() -> None:
    cluster = ScriptedCluster({"t": 1}, brokers=2)
    fill(cluster, {0: 300})
    handled: list[int] = []
    app = app_of(cluster)

    @app.on("t", value="bytes", max_in_flight=40, commit_interval=0.02)
    async def handle(_: bytes, ctx: ottla.Context) -> None:
        handled.append(ctx.offset)

    async with app:
        await until(lambda: committed(cluster) == {0: 300})
        cluster.will(OFFSET_COMMIT, *[Reject(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 1000)
        await asyncio.to_thread(fill, cluster, {0: 30})  # handled, and not committed when the log loses its end
        await until(lambda: len(handled) == 330)
        cluster.lose("t", 0, after=100)
        cluster.move_leader("t", 0, broker=1, epoch=1)
        start = cluster.logs[T[0]].end
        cluster.forget(OFFSET_COMMIT)
        await asyncio.to_thread(fill, cluster, {0: 200})
        end = cluster.logs[T[0]].end
        await until(lambda: committed(cluster) == {0: end})
    assert handled[330:] == list(range(start, end))
