"""An app that is exact, against scripted brokers: what is sent for a record counts once, with the record's offset."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any, cast

import pytest
from batches import raw_batch
from scripted_groups import BrokenError, T, committed, fill, filled, make_anew
from waiting import until

import ottla
from ottla.app.attempts import Attempts
from ottla.app.round import Round
from ottla.client.kafka.apis import END_TXN, INIT_PRODUCER_ID, PRODUCE, TXN_OFFSET_COMMIT
from ottla.client.offsets import GroupMetadata, OffsetAndMetadata
from ottla.fakes.scripted import Hang, Reject, ScriptedCluster
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import (
    EndTxnRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from ottla_core.model import TopicPartition


def app_of(
    cluster: ScriptedCluster, *, drain_timeout: float = 10.0, producer: dict[str, Any] | None = None, **consumer: Any
) -> ottla.App:
    transport = {"_transport": cluster.connect}
    defaults = {"auto_offset_reset": "earliest", "fetch_max_wait": 0.05, "heartbeat_interval": 0.05}
    return ottla.App(
        "g",
        "b0:1",
        exactly_once=True,
        drain_timeout=drain_timeout,
        consumer={**transport, **defaults, **consumer},
        producer={**transport, "linger": 0, **(producer or {})},
    )


def out(cluster: ScriptedCluster, topic: str = "out") -> list[Any]:
    """What counts of a topic."""
    with ottla.Consumer[Any, Any](
        topic, bootstrap="b0:1", start="earliest", stop="end", _transport=cluster.connect
    ) as consumer:
        return [record.value for record in consumer]


def transactions(cluster: ScriptedCluster) -> list[bool]:
    """Those of the one producer that have ended: whether they were committed."""
    with cluster.changed:
        ((_, found),) = cluster.transactions.by_id.items()
        return [is_committed for _, is_committed in found.ended]


def with_out(counts: dict[int, int]) -> ScriptedCluster:
    cluster = filled(counts)
    cluster.add_topic("out", 1)
    cluster.add_topic("dlq", 1)
    return cluster


@pytest.fixture(params=[False, True], ids=["coroutine", "thread"])
def in_thread(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def copy_to(app: ottla.App, in_thread: bool = False, **arguments: Any) -> Counter[int]:
    """A handler that copies each record to "out"; which offsets it has seen, how often."""
    seen: Counter[int] = Counter()

    def copy(value: str, ctx: Any) -> None:
        seen[ctx.offset] += 1
        ctx.send(value, topic="out")

    async def copy_later(value: str, ctx: ottla.Context) -> None:
        copy(value, ctx)
        await asyncio.sleep(0)

    app.on("t", **arguments)(copy if in_thread else copy_later)
    return seen


# ---- batches that can't be read -------------------------------------------------------------------------------------


@pytest.mark.story("unreadable-batch-stops-its-readers-for-ever")
async def test_a_batch_that_can_not_be_read_is_one_dead_letter_of_its_transaction() -> None:
    cluster = with_out({0: 2})
    cluster.logs[T[0]].append(raw_batch(b"no records at all, really", 3))
    fill(cluster, {0: 1})
    app = app_of(cluster)
    seen = copy_to(app, dead_letter="dlq")
    async with app:
        await until(lambda: committed(cluster) == {0: 6})
    assert seen == {0: 1, 1: 1, 5: 1}
    assert len(out(cluster)) == 3
    with ottla.Consumer[Any, Any](
        "dlq", bootstrap="b0:1", start="earliest", stop="end", value="bytes", _transport=cluster.connect
    ) as consumer:
        (letter,) = consumer
    unreadable = next(batch for batch in cluster.logs[T[0]].batches if batch.first == 2)
    assert letter.value == unreadable.records
    assert letter.header("ottla.origin.offset") == b"2"
    assert all(transactions(cluster))


# ---- rounds ---------------------------------------------------------------------------------------------------------


async def test_what_is_sent_and_the_offsets_are_one_transaction_a_round(in_thread: bool) -> None:
    cluster = with_out({0: 30, 1: 20})
    app = app_of(cluster)
    seen = copy_to(app, in_thread, max_in_flight=20)
    async with app:
        await until(lambda: committed(cluster) == {0: 30, 1: 20})
    assert sorted(map(int, out(cluster))) == sorted([*range(30), *range(20)])
    assert seen.total() == 50
    assert 1 < len(transactions(cluster)) < 50
    assert all(transactions(cluster))
    assert cluster.requests(TxnOffsetCommitRequest)
    assert not cluster.requests(OffsetCommitRequest)


async def test_nothing_counts_before_all_that_the_round_has_read_is_handled() -> None:
    """What comes after an unfinished record would be sent again, with the offset of that one."""
    cluster = with_out({0: 6})
    app = app_of(cluster)
    event = asyncio.Event()
    seen: Counter[int] = Counter()

    @app.on("t", concurrency=6, commit_interval=0.01)
    async def handle(value: str, ctx: ottla.Context) -> None:
        seen[ctx.offset] += 1
        await ctx.send(value, topic="out")
        if ctx.offset == 1:
            await event.wait()

    async with app:
        await until(lambda: len(seen) == 6)
        await until(lambda: len(cluster.values("out", 0)) == 6)
        assert out(cluster) == []
        assert committed(cluster) == {}
        event.set()
        await until(lambda: committed(cluster) == {0: 6})
    assert (sorted(map(int, out(cluster))), seen.total()) == (list(range(6)), 6)


# ---- attempts that fail ---------------------------------------------------------------------------------------------


async def test_what_a_failed_attempt_has_sent_does_not_count_and_the_attempt_does(
    in_thread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = with_out({0: 5})
    app = app_of(cluster)
    attempts = []

    def handle(value: str, ctx: Any) -> None:
        ctx.send(value, topic="out")
        if ctx.offset == 2:
            attempts.append(ctx.attempt)
            if ctx.attempt < 3:
                raise BrokenError

    async def handle_later(value: str, ctx: ottla.Context) -> None:
        handle(value, ctx)

    app.on("t", commit_interval=0.01, backoff=0.01)(handle if in_thread else handle_later)
    async with app:
        await until(lambda: committed(cluster) == {0: 5})
    assert attempts == [1, 2, 3]
    assert sorted(map(int, out(cluster))) == list(range(5))
    given_up = [
        record for record in caplog.records if "the records of a round will be handled again" in record.getMessage()
    ]
    assert len(given_up) == 2, "with the round of each; one that is given up before it sends has nothing to be aborted"


async def test_an_attempt_that_fails_before_it_sends_leaves_the_round_alone() -> None:
    cluster = with_out({0: 5})
    app = app_of(cluster)
    seen: Counter[int] = Counter()

    @app.on("t", commit_interval=0.01, backoff=0.01)
    async def handle(value: str, ctx: ottla.Context) -> None:
        seen[ctx.offset] += 1
        if ctx.attempt < 3:
            raise BrokenError
        ctx.send(value, topic="out")

    async with app:
        await until(lambda: committed(cluster) == {0: 5})
    assert seen == dict.fromkeys(range(5), 3)
    assert all(transactions(cluster))
    assert len(out(cluster)) == 5


@pytest.mark.parametrize("sends", [False, True])
async def test_what_is_given_up_is_a_dead_letter_of_the_round_once(sends: bool) -> None:
    cluster = with_out({0: 5})
    app = app_of(cluster)
    seen: Counter[int] = Counter()

    @app.on("t", commit_interval=0.01, retries=1, backoff=0.01, dead_letter="dlq")
    async def handle(value: str, ctx: ottla.Context) -> None:
        seen[ctx.offset] += 1
        if sends or ctx.offset != 2:
            await ctx.send(value, topic="out")
        if ctx.offset == 2:
            raise BrokenError

    async with app:
        await until(lambda: committed(cluster) == {0: 5})
    assert out(cluster, "dlq") == ["2"]
    letters = [dict(record[4]) for record in cluster.records("dlq", 0) if record[4]]
    assert {letter["ottla.attempts"] for letter in letters} == {b"2"}
    assert sorted(out(cluster)) == ["0", "1", "3", "4"]
    assert seen[2] == 2
    assert app.metrics["records-dead-lettered-total"] == len(letters)


async def test_without_dead_letters_the_app_stops_and_nothing_of_the_round_counts() -> None:
    cluster = with_out({0: 5})
    app = app_of(cluster, drain_timeout=300)

    @app.on("t", retries=0, concurrency=1)
    async def handle(value: str, ctx: ottla.Context) -> None:
        await ctx.send(value, topic="out")
        if ctx.offset == 2:
            raise BrokenError

    with pytest.raises(ottla.HandlerError):
        await asyncio.wait_for(app.serve(), 10)  # it waits for none of the rest
    assert (out(cluster), committed(cluster)) == ([], {})
    assert len(cluster.groups.group("g").left) == 1


@pytest.mark.parametrize("dead_letter", [None, "dlq"])
async def test_a_record_that_is_not_taken_is_the_failure_of_its_handler_alone(
    in_thread: bool, dead_letter: str | None
) -> None:
    cluster = with_out({0: 4})
    app = app_of(cluster, producer={"max_request_size": 2000})
    seen: Counter[int] = Counter()

    def handle(value: str, ctx: Any) -> None:
        seen[ctx.offset] += 1
        ctx.send(value if ctx.offset else "x" * 3000, topic="out")

    async def handle_later(value: str, ctx: ottla.Context) -> None:
        handle(value, ctx)

    app.on("t", commit_interval=0.01, retries=1, backoff=0.01, dead_letter=dead_letter)(
        handle if in_thread else handle_later
    )
    if dead_letter is None:
        with pytest.raises(ottla.HandlerError, match="RecordTooLarge"):
            await app.serve()
        assert out(cluster) == []
        return
    async with app:
        await until(lambda: committed(cluster) == {0: 4})
    assert sorted(out(cluster)) == ["1", "2", "3"]
    assert out(cluster, "dlq") == ["0"]


async def test_an_aborted_round_counts_as_no_attempt_of_its_records() -> None:
    cluster = with_out({0: 4})
    app = app_of(cluster)
    attempts = []

    @app.on("t", retries=0, concurrency=1, commit_interval=0.01)
    async def handle(value: str, ctx: ottla.Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) == 2:
            with cluster.changed:
                ((name, _),) = cluster.transactions.by_id.items()
                cluster.transactions.time_out(name)
        await ctx.send(value, topic="out")

    async with app:
        await until(lambda: committed(cluster) == {0: 4})
    assert set(attempts) == {1}
    assert out(cluster) == ["0", "1", "2", "3"]


async def test_what_goes_down_with_anothers_record_counts_as_no_attempt() -> None:
    cluster = with_out({0: 2})
    app = app_of(cluster)
    attempts, first = [], list[asyncio.Future[Any]]()
    event = asyncio.Event()

    @app.on("t", retries=0, commit_interval=0.01)
    async def handle(value: str, ctx: ottla.Context) -> None:
        attempts.append(ctx.attempt)
        if ctx.offset == 0:
            first.append(ctx.send(value, topic="out"))
            await event.wait()
            return
        await until(lambda: first and first[0].done())  # the broker has refused it, and its handler does not know yet
        try:
            await ctx.send(value, topic="out")
        finally:
            event.set()

    cluster.will(PRODUCE, Reject(ErrorCode.MESSAGE_TOO_LARGE))
    async with app:
        await until(lambda: committed(cluster) == {0: 2})
    assert attempts == [1] * 4
    assert sorted(out(cluster)) == ["0", "1"]


# ---- rounds that can't be committed ---------------------------------------------------------------------------------


async def test_an_aborted_first_round_is_read_again_where_it_began() -> None:
    """Nothing but the group's beginning is committed then."""
    cluster = with_out({0: 3})
    app = app_of(cluster, auto_offset_reset="latest")
    seen = copy_to(app, commit_interval=0.01)
    async with app:
        await until(lambda: committed(cluster) == {0: 3})
        cluster.will(TXN_OFFSET_COMMIT, Reject(ErrorCode.ILLEGAL_GENERATION))
        while not seen:
            fill(cluster, {0: 2})
            await asyncio.sleep(0.05)
        await until(lambda: committed(cluster) == {0: len(cluster.values("t", 0))})
    first, end = min(seen), max(seen) + 1
    assert first >= 3
    assert sorted(seen) == list(range(first, end))
    assert len(out(cluster)) == end - first
    assert transactions(cluster).count(False) == 1


@pytest.mark.parametrize("step", [Hang(), Reject(ErrorCode.REQUEST_TIMED_OUT), Reject(ErrorCode.INVALID_TXN_STATE)])
async def test_where_the_outcome_is_not_known_reading_continues_where_the_group_is(step: Any) -> None:
    cluster = with_out({0: 5})
    app = app_of(cluster, producer={"max_block": 0.3})
    copy_to(app, commit_interval=0.01)
    cluster.will(END_TXN, step, step)
    async with app:
        await until(lambda: committed(cluster) == {0: 5})
    assert sorted(out(cluster)) == list("01234")


async def test_what_a_commit_without_an_answer_leaves_pending_is_settled_before_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.producer.closing._ABORT_S", 0.2)
    cluster = with_out({0: 5})
    app = app_of(cluster, producer={"max_block": 0.2})
    seen = copy_to(app, commit_interval=0.01)
    cluster.will(END_TXN, *[Reject(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 1000)
    async with app:
        await until(lambda: len(cluster.requests(InitProducerIdRequest)) == 2)
        cluster.forget(END_TXN)
        await until(lambda: committed(cluster) == {0: 5})
    kinds = [type(body) for _, body in cluster.seen]
    ended = kinds.index(EndTxnRequest)
    assert OffsetFetchRequest not in kinds[ended : kinds.index(InitProducerIdRequest, ended)]
    assert max(seen.values()) == 2
    assert sorted(out(cluster)) == list("01234")


async def test_who_is_fenced_starts_over_with_an_id_of_its_own() -> None:
    cluster = with_out({0: 5})
    app = app_of(cluster)
    copy_to(app, commit_interval=0.01)
    cluster.will(END_TXN, Reject(ErrorCode.PRODUCER_FENCED))
    cluster.will(INIT_PRODUCER_ID, None, Reject(ErrorCode.PRODUCER_FENCED))
    async with app:
        await until(lambda: committed(cluster) == {0: 5})
    assert sorted(out(cluster)) == list("01234")
    assert len({request.transactional_id for request in cluster.requests(InitProducerIdRequest)}) == 1


async def test_who_is_fenced_by_its_static_member_stops() -> None:
    cluster = with_out({0: 5})
    app = app_of(cluster, group_instance_id="one")
    copy_to(app, commit_interval=0.01)
    cluster.will(END_TXN, Reject(ErrorCode.PRODUCER_FENCED))
    cluster.will(INIT_PRODUCER_ID, None, Reject(ErrorCode.PRODUCER_FENCED))
    with pytest.raises(ottla.FencedError, match="g-one"):
        await asyncio.wait_for(app.serve(), 10)
    assert out(cluster) == []


async def test_a_coordinator_that_is_away_at_first_is_waited_for() -> None:
    cluster = with_out({0: 5})
    app = app_of(cluster, producer={"max_block": 0.2})
    copy_to(app, commit_interval=0.01)
    cluster.will(INIT_PRODUCER_ID, *[Reject(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 8)
    async with app:
        await until(lambda: committed(cluster) == {0: 5})
    assert sorted(out(cluster)) == list("01234")


@pytest.mark.parametrize("who", [GroupMetadata("g", -1, "", None), GroupMetadata("g", 2, "another", None)])
async def test_who_is_another_in_its_group_by_now_commits_nothing(who: GroupMetadata) -> None:
    """A coordinator takes offsets of none in particular, where the group is empty: others may have been there."""
    cluster = with_out({0: 1})
    async with ottla.aio.Producer[Any, Any]("b0:1", transactional_id="x", _transport=cluster.connect) as producer:
        round_ = Round(producer)
        await round_.begin()
        round_.member_id = "it"
        await round_.send("late", topic="out")
        with pytest.raises(ottla.CommitFailedError):
            await round_.end({T[0]: OffsetAndMetadata(1)}, who)
    assert (out(cluster), transactions(cluster)) == ([], [False])
    assert not cluster.requests(TxnOffsetCommitRequest)


# ---- rebalances and the end -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_a_round_ends_before_partitions_go(assignor: str) -> None:
    cluster = with_out({0: 3, 1: 3})
    app = app_of(cluster, assignors=assignor)
    event = asyncio.Event()
    seen: Counter[tuple[int, int]] = Counter()

    @app.on("t", commit_interval=60)
    async def handle(value: str, ctx: ottla.Context) -> None:
        seen[ctx.partition, ctx.offset] += 1
        await ctx.send(value, topic="out")
        await event.wait()

    async with app:
        await until(lambda: seen.total() == 6)
        cluster.groups.rebalance("g")
        if assignor == "range":
            await until(lambda: cluster.groups.group("g").generation == 1)
            event.set()
            await until(lambda: committed(cluster) == {0: 3, 1: 3})
            await until(lambda: cluster.groups.group("g").generation == 2)
        else:  # it gives up none, and goes on as a member of the next generation
            await until(lambda: cluster.groups.group("g").generation == 2)
            event.set()
    assert committed(cluster) == {0: 3, 1: 3}
    assert sorted(out(cluster)) == sorted("012012")
    assert seen.total() == 6


async def test_a_handler_that_outlives_its_round_sends_nothing_into_the_next(in_thread: bool) -> None:
    cluster = with_out({0: 1})
    app = app_of(cluster, drain_timeout=0.1, assignors="range")
    over, refused, seen = threading.Event(), [], []

    def handle(value: str, ctx: Any) -> None:
        seen.append(value)
        if len(seen) == 1:
            over.wait(20)
        try:
            ctx.send(value, topic="out")
        except ottla.TransactionAborted as error:
            refused.append(error)
            raise

    async def handle_later(value: str, ctx: ottla.Context) -> None:
        seen.append(value)
        try:
            while len(seen) == 1:
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            pass  # it does not let itself be stopped
        await asyncio.to_thread(over.wait, 20)
        try:
            ctx.send(value, topic="out")
        except ottla.TransactionAborted as error:
            refused.append(error)
            raise

    app.on("t", commit_interval=0.01, order="partition", retries=0)(handle if in_thread else handle_later)
    async with app:
        await until(lambda: len(seen) == 1)
        cluster.groups.rebalance("g")
        await until(lambda: cluster.groups.group("g").generation == 2)
        over.set()
        await until(lambda: committed(cluster) == {0: 1})
    assert len(refused) == 1
    assert out(cluster) == ["0"]


async def test_attempts_of_a_partition_that_went_and_came_back_are_not_remembered() -> None:
    cluster = with_out({0: 1})
    app = app_of(cluster, drain_timeout=0.1, assignors="range")
    attempts = []

    @app.on("t", commit_interval=0.01, backoff=0.01)
    async def handle(value: str, ctx: ottla.Context) -> None:
        attempts.append(ctx.attempt)
        await ctx.send(value, topic="out")
        if len(attempts) == 1:
            raise BrokenError
        if len(attempts) == 2:
            await asyncio.sleep(20)

    async with app:
        await until(lambda: len(attempts) == 2)
        cluster.groups.rebalance("g")
        await until(lambda: committed(cluster) == {0: 1})
    assert attempts == [1, 2, 1]
    assert out(cluster) == ["0"]


async def test_what_was_lost_does_not_count_and_is_handled_as_the_member_that_it_is_then() -> None:
    cluster = with_out({0: 2})
    app = app_of(cluster)
    event = asyncio.Event()
    seen: Counter[int] = Counter()

    @app.on("t", commit_interval=60)
    async def handle(value: str, ctx: ottla.Context) -> None:
        seen[ctx.offset] += 1
        await ctx.send(value, topic="out")
        await event.wait()

    async with app:
        await until(lambda: seen.total() == 2)
        (member,) = cluster.groups.group("g").members
        cluster.groups.forget("g", member)
        await until(lambda: cluster.groups.group("g").members.keys() - {member})
        event.set()
        await until(lambda: seen.total() == 4)
        assert committed(cluster) == {}
    assert committed(cluster) == {0: 2}
    assert sorted(out(cluster)) == ["0", "1"]
    assert not transactions(cluster)[0]


async def test_a_stop_lets_the_round_come_to_its_end_and_leaves() -> None:
    cluster = with_out({0: 10})
    app = app_of(cluster)
    seen = copy_to(app, concurrency=1, commit_interval=60)
    serving = asyncio.create_task(app.serve())
    await until(lambda: bool(seen))
    app.stop()
    await asyncio.wait_for(serving, 10)
    assert sorted(map(int, out(cluster))) == list(range(committed(cluster)[0]))
    assert len(cluster.groups.group("g").left) == 1


async def test_a_stop_does_not_wait_for_ever_and_then_nothing_counts() -> None:
    cluster = with_out({0: 2})
    app = app_of(cluster, drain_timeout=0.1)
    seen = []

    @app.on("t", concurrency=1)
    async def handle(value: str, ctx: ottla.Context) -> None:
        await ctx.send(value, topic="out")
        seen.append(value)
        await asyncio.sleep(20)

    async with app:
        await until(lambda: seen == ["0"])
    assert (out(cluster), committed(cluster)) == ([], {})


def test_the_producers_id_is_the_apps_own_business() -> None:
    with pytest.raises(ottla.ConfigError, match="transactional_id"):
        ottla.App("g", exactly_once=True, producer={"transactional_id": "mine"})


async def test_what_is_sent_is_bounded_by_the_producer_in_a_thousand_records_of_one_poll() -> None:
    cluster = with_out({0: 1000})
    app = app_of(cluster, producer={"linger": 0.005})
    seen = copy_to(app, commit_interval=60, concurrency=100)
    cluster.will(PRODUCE, Reject(ErrorCode.NOT_ENOUGH_REPLICAS))  # is sent again
    async with app:
        await until(lambda: committed(cluster).get(0, 0) >= 500)
    assert sorted(map(int, out(cluster))) == list(range(committed(cluster)[0]))
    assert set(seen.values()) == {1}


# ---- what fails, and what is slow ----------------------------------------------------------------------------------


@pytest.mark.story("round-aborted-by-a-refused-record")
async def test_an_attempt_that_has_sent_nothing_is_tried_again_in_its_round(in_thread: bool) -> None:
    cluster = with_out({0: 20})
    app = app_of(cluster)

    def handle(value: str, ctx: Any) -> Any:
        return ctx.send(object() if ctx.offset == 7 else value, topic="out")

    async def handle_later(value: str, ctx: Any) -> None:
        await handle(value, ctx)

    app.on("t", retries=2, backoff=0.01, dead_letter="dlq")(handle if in_thread else handle_later)
    async with app:
        await until(lambda: committed(cluster) == {0: 20})
    assert sorted(map(int, out(cluster))) == [n for n in range(20) if n != 7]
    assert out(cluster, "dlq") == ["7"]
    assert all(transactions(cluster))
    assert app.metrics["records-dead-lettered-total"] == 1


@pytest.mark.story("poison-that-costs-a-round-each")
@pytest.mark.parametrize("retries", [0, 2])
async def test_records_that_fail_after_they_have_sent_cost_a_round_for_each_attempt(
    retries: int, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = with_out({0: 40})
    app = app_of(cluster)

    @app.on("t", retries=retries, backoff=0.01, dead_letter="dlq", concurrency=40)
    async def handle(value: str, ctx: ottla.Context) -> None:
        ctx.send(value, topic="out")
        if ctx.offset % 2:
            raise BrokenError(value)

    async with app:
        await until(lambda: committed(cluster) == {0: 40})
    assert transactions(cluster).count(False) == retries + 1
    assert sorted(map(int, out(cluster))) == list(range(0, 40, 2))
    assert sorted(map(int, out(cluster, "dlq"))) == list(range(1, 40, 2))
    assert (
        app.metrics["records-dead-lettered-total"]
        == caplog.text.count("the record is now in the dead-letter topic 'dlq'")
        == 20
    )


@pytest.mark.story("attempts-forgotten-with-another-partitions-round")
async def test_attempts_are_remembered_until_their_record_is_committed() -> None:
    app = app_of(with_out({0: 1}))

    @app.on("t")
    async def handle(value: str) -> None: ...

    attempts = Attempts(app._handlers[0], cast("Any", None), cast("Any", None))
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    attempts.failed = {(first, 3): (1, None), (first, 4): (1, None), (second, 3): (1, None)}
    attempts.end_round(None)
    assert len(attempts.failed) == 3
    attempts.end_round({first: 4})
    assert attempts.failed.keys() == {(first, 4), (second, 3)}


async def test_a_record_that_is_given_up_late_in_its_round_does_not_end_the_round(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = with_out({0: 3})
    app = app_of(cluster, producer={"transaction_timeout": 0.3})

    @app.on("t", retries=0, dead_letter="dlq")
    async def handle(value: str, ctx: ottla.Context) -> None:
        await asyncio.sleep(0.15)
        raise BrokenError(value)

    async with app:
        await until(lambda: committed(cluster) == {0: 3})
    assert out(cluster, "dlq") == ["0", "1", "2"]
    assert "the records of a round will be handled again" not in caplog.text


@pytest.mark.story("rounds-longer-than-their-transaction")
async def test_a_backlog_of_slow_records_is_handled_in_rounds_that_end_in_time() -> None:
    cluster = with_out({0: 60})
    app = app_of(cluster, producer={"transaction_timeout": 0.6})

    @app.on("t", commit_interval=60, concurrency=1)
    async def handle(value: str, ctx: ottla.Context) -> None:
        await asyncio.sleep(0.02)
        ctx.send(value, topic="out")

    async with app:
        await until(lambda: committed(cluster) == {0: 60})
    assert len(transactions(cluster)) >= 60 * 0.02 / 0.6
    assert all(transactions(cluster))


# ---- a topic that is made anew --------------------------------------------------------------------------------------


@pytest.mark.story("round-of-a-topic-made-anew")
@pytest.mark.parametrize("reads_on", [False, True], ids=["between rounds", "within one"])
async def test_a_round_of_a_topic_that_was_made_anew_begins_again_in_the_new_one(reads_on: bool) -> None:
    cluster = with_out({0: 0})
    fill(cluster, {0: 10}, batch_size=70)
    cluster.truncate("t", 0, before=5)
    app = app_of(cluster, metadata_max_age=0.05)
    seen: list[int] = []
    reached, released = asyncio.Event(), asyncio.Event()

    @app.on("t", commit_interval=0.01, concurrency=50)
    async def handle(value: str, ctx: ottla.Context) -> None:
        seen.append(ctx.offset)
        if not reached.is_set():  # in the former topic alone: none of its records is committed by an earlier round
            if ctx.offset == 7:
                reached.set()
            await released.wait()
        await ctx.send(value, topic="out")

    async with app:
        await reached.wait()
        await asyncio.to_thread(make_anew, cluster, records=30)
        beats = len(cluster.requests(HeartbeatRequest))
        if reads_on:
            await until(lambda: len(cluster.requests(HeartbeatRequest)) > beats + 4)
        released.set()
        await until(lambda: committed(cluster) == {0: 30})
    # Records without a key have no order: the one at 7 waits for the lane of the one at 7 of the former topic.
    assert sorted(int(value) for value in out(cluster)) == list(range(30))
