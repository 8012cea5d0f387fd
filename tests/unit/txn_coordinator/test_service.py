"""The Txn contract: what a request may bring, and what becomes of it."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from images import image_of, with_topic
from transactions import FIRST_ID, A, Shard
from turns import turns_during

from ottla_core.cluster.image import ClusterImage, ResourceConfigs, Topic
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.coordination.shard import Entry, TransactionProducer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_core.rpc.context import RequestContext
from ottla_core.telemetry import Metrics
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import ShardNumbers, TxnProducer
from ottla_txn_coordinator.config import TxnCoordinatorConfig
from ottla_txn_coordinator.config_listener import TxnConfigListener
from ottla_txn_coordinator.machines import transaction
from ottla_txn_coordinator.machines.records import TransactionRecord, encode_key
from ottla_txn_coordinator.machines.transaction import LAST_EPOCH, TransactionSettings
from ottla_txn_coordinator.service import MOST_PARTITIONS, MOST_TRANSACTIONS, TxnService
from ottla_txn_coordinator.txn_metrics import TxnMetrics

CALLER = RequestContext(client_id="test", client_host="h")
NOTHING = image_of(1)
WITH_T = with_topic(NOTHING, "t", 2, number=1)
WITH_T = replace(WITH_T, topics={**WITH_T.topics, "__consumer_offsets": Topic("__consumer_offsets", TopicId(b"g"), 3)})


class Coordinator:
    """The service over one shard without a log; `newest` is what the store has, None where it does not answer."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.shard = Shard(settings).load()
        self.image: ClusterImage = WITH_T
        self.newest: ClusterImage | None = WITH_T
        self.ids = itertools.count(FIRST_ID)
        self.waiting: list[TopicPartition] = [A]
        self.loading: list[int] = []
        self.when_completing: Callable[[], None] = lambda: None
        me: Any = self
        self.service = TxnService(me, me, me, me, 7)

    async def ask(self, key: str, decide: Any, **how: Any) -> Any:
        self.decided = decide(self.shard.machine, self.shard.now)
        return self.shard.take(self.decided)

    async def ask_shard(self, number: int, decide: Any, **how: Any) -> Any:
        if number in self.loading:
            raise OttlaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is being loaded")
        return await self.ask("", decide)

    def shard_of(self, key: str) -> int:
        return 3

    def epoch(self, shard: int) -> int:
        assert shard == 3
        return 17

    def owned(self) -> Sequence[int]:
        return [3, *self.loading]

    def statuses(self) -> Sequence[Any]:
        status: Any = type("Status", (), {"state": self.shard.machine})()
        return [status]

    async def catch_up(self, timeout: float) -> ClusterImage:
        if self.newest is None:
            raise StoreUnavailableError("away", indefinite=False)
        self.image = self.newest
        return self.image

    async def next(self) -> int:
        return next(self.ids)

    def left(self, shard: int, transactional_id: str) -> Sequence[TopicPartition]:
        return self.waiting

    async def completing(self, shard: int, transactional_id: str, timeout_s: float) -> None:
        assert shard == 3
        self.when_completing()

    async def init(self, name: str = "x", **more: Any) -> TxnProducer:
        request = pb.InitProducerRequest(transactional_id=name, timeout_ms=60_000, **more)
        return (await self.service.init_producer(request, CALLER)).producer

    async def add(self, producer: TxnProducer, *partitions: tuple[str, int], name: str = "x", **more: Any) -> Any:
        parts = [pb.TxnPartition(topic=topic, partition=n) for topic, n in partitions]
        item = pb.PartitionsToAdd(
            transactional_id=name, producer=producer, partitions=parts, **{"transaction_version": 2, **more}
        )
        request = pb.AddPartitionsRequest(transactions=[item])
        (added,) = (await self.service.add_partitions(request, CALLER)).transactions
        return added

    async def end(self, producer: TxnProducer, version: int = 2, name: str = "x") -> TxnProducer:
        request = pb.EndTxnRequest(
            transactional_id=name, producer=producer, committed=True, transaction_version=version
        )
        return (await self.service.end_txn(request, CALLER)).producer

    async def describe(self, name: str = "x") -> pb.TransactionDescription:
        request = pb.DescribeTransactionsRequest(transactional_ids=[name])
        (described,) = (await self.service.describe_transactions(request, CALLER)).transactions
        return described


@pytest.fixture
def here() -> Coordinator:
    return Coordinator()


def codes(added: Any) -> list[int]:
    return [error.code for error in added.partitions]


async def test_a_transaction_from_end_to_end(here: Coordinator) -> None:
    producer = await here.init()
    assert (producer.id, producer.epoch) == (FIRST_ID, 0)
    added = await here.add(producer, ("t", 0), ("t", 1))
    assert codes(added) == [0, 0]
    offsets = pb.AddOffsetsRequest(transactional_id="x", producer=producer, group="g", transaction_version=2)
    assert (await here.service.add_offsets(offsets, CALLER)).error.code == 0
    assert {p.topic for p in here.shard.record().partitions} == {"t", "__consumer_offsets"}
    after = await here.end(producer)
    assert (after.id, after.epoch) == (FIRST_ID, 1)
    here.shard.complete()
    offsets.producer.CopyFrom(after)
    offsets.verify_only = True
    with pytest.raises(OttlaError) as raised:
        await here.service.add_offsets(offsets, CALLER)
    assert raised.value.code == ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.rule(36, 39)
async def test_who_verifies_without_a_marker_gets_a_proof_and_with_a_newer_owners_none(here: Coordinator) -> None:
    producer = await here.init()
    await here.add(producer, ("t", 0))
    offsets = pb.AddOffsetsRequest(transactional_id="x", producer=producer, group="g", transaction_version=2)
    await here.service.add_offsets(offsets, CALLER)
    offsets.verify_only = True
    for marker, by_last_proof in ((None, False), (0, True), (17, True)):
        assert codes(await here.add(producer, ("t", 0), verify_only=True, coordinator_epoch=marker)) == [0]
        assert here.decided.by_last_proof == by_last_proof
        offsets.MergeFrom(pb.AddOffsetsRequest(coordinator_epoch=marker))
        assert (await here.service.add_offsets(offsets, CALLER)).error.code == 0
        assert here.decided.by_last_proof == by_last_proof
    added = await here.add(producer, ("t", 0), verify_only=True, coordinator_epoch=18)
    assert added.error.code == ErrorCode.NOT_COORDINATOR, "this one has the epoch 17"


async def test_a_decision_that_needs_a_producer_id_is_made_again_with_one() -> None:
    here = Coordinator(TransactionSettings(first_epoch=LAST_EPOCH))
    producer = await here.init()
    await here.add(producer, ("t", 0))
    after = await here.end(producer)
    assert (after.id, after.epoch) == (FIRST_ID + 1, 0)


async def test_the_next_transaction_of_an_id_waits_for_the_end_of_the_last(here: Coordinator) -> None:
    producer = await here.init()
    await here.add(producer, ("t", 0))
    after = await here.end(producer)
    assert (await here.add(after, ("t", 0))).error.code == ErrorCode.CONCURRENT_TRANSACTIONS, "it took too long"
    here.when_completing = here.shard.complete
    assert codes(await here.add(after, ("t", 0))) == [0]
    here.when_completing = lambda: None
    await here.end(after)
    here.when_completing = here.shard.complete
    assert (await here.init()).epoch == after.epoch + 2


async def test_an_id_is_forgotten_as_soon_as_its_last_transaction_is_over(here: Coordinator) -> None:
    producer = await here.init()
    await here.add(producer, ("t", 0))
    after = await here.end(producer)
    here.when_completing = here.shard.complete
    await here.service.forget(pb.ForgetRequest(transactional_id="x", producer=after), CALLER)
    assert (await here.describe()).error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_what_was_written_before_an_error_stays(here: Coordinator) -> None:
    await here.add(await here.init(), ("t", 0))
    with pytest.raises(OttlaError) as raised:
        await here.init()
    assert raised.value.code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert here.shard.to_end, "the transaction of the one before is being aborted"


@pytest.mark.parametrize("name", ["", "x" * 10_000_000, "é" * 16_384])
async def test_an_id_that_no_record_can_hold_is_an_error(here: Coordinator, name: str) -> None:
    producer = TxnProducer(id=1)
    calls = [
        here.init(name),
        here.end(producer, name=name),
        here.service.prepare(pb.PrepareRequest(transactional_id=name, producer=producer), CALLER),
        here.service.forget(pb.ForgetRequest(transactional_id=name, producer=producer), CALLER),
        here.service.add_offsets(pb.AddOffsetsRequest(transactional_id=name, producer=producer, group="g"), CALLER),
    ]
    for call in calls:
        with pytest.raises(OttlaError) as raised:
            await call
        assert raised.value.code == ErrorCode.INVALID_REQUEST
        assert len(str(raised.value)) < 200
    assert (await here.add(producer, ("t", 0), name=name)).error.code == ErrorCode.INVALID_REQUEST
    assert (await here.describe(name)).error.code == ErrorCode.INVALID_REQUEST
    assert not here.shard.log


async def test_a_long_id_is_not_repeated_in_whole(here: Coordinator) -> None:
    with pytest.raises(OttlaError) as raised:
        await here.end(TxnProducer(id=1), name="x" * 32_000)
    assert len(str(raised.value)) < 400


async def test_calls_are_bounded(here: Coordinator) -> None:
    producer = await here.init()
    many = pb.AddPartitionsRequest(transactions=[pb.PartitionsToAdd()] * (MOST_TRANSACTIONS + 1))
    wide = pb.AddPartitionsRequest(transactions=[pb.PartitionsToAdd(partitions=[pb.TxnPartition()] * 5_001)] * 2)
    ids = pb.DescribeTransactionsRequest(transactional_ids=["x"] * (MOST_TRANSACTIONS + 1))
    assert MOST_PARTITIONS == 10_000
    for call in (
        here.service.add_partitions(many, CALLER),
        here.service.add_partitions(wide, CALLER),
        here.service.describe_transactions(ids, CALLER),
    ):
        with pytest.raises(OttlaError) as raised:
            await call
        assert raised.value.code == ErrorCode.INVALID_REQUEST
    with pytest.raises(OttlaError) as raised:
        await here.service.add_offsets(pb.AddOffsetsRequest(transactional_id="x", producer=producer), CALLER)
    assert raised.value.code == ErrorCode.INVALID_GROUP_ID


async def test_partitions_that_are_not_there_are_not_added_and_no_other_with_them(here: Coordinator) -> None:
    producer = await here.init()
    for unknown in (("u", 0), ("t", 2), ("t", -1)):
        added = await here.add(producer, ("t", 0), unknown)
        assert codes(added) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes(await here.add(producer, ("__transaction_state", 0))) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert codes(await here.add(producer, ("__consumer_offsets", 0))) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert not here.shard.record().partitions


async def test_a_coordinator_that_is_behind_catches_up_before_it_judges(here: Coordinator) -> None:
    producer = await here.init()
    here.image = NOTHING
    assert codes(await here.add(producer, ("t", 0))) == [0]
    here.image, here.newest = NOTHING, None
    assert codes(await here.add(producer, ("t", 1))) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_one_bad_transaction_of_a_call_fails_alone(here: Coordinator) -> None:
    good, part = await here.init(), [pb.TxnPartition(topic="t", partition=0)]
    request = pb.AddPartitionsRequest(
        transactions=[
            pb.PartitionsToAdd(transactional_id="x", producer=TxnProducer(id=good.id, epoch=9), partitions=part),
            pb.PartitionsToAdd(transactional_id="x", producer=good, partitions=part),
            pb.PartitionsToAdd(transactional_id="x", producer=good, partitions=part, verify_only=True),
            pb.PartitionsToAdd(transactional_id="y", producer=good, partitions=part, verify_only=True),
        ]
    )
    added = (await here.service.add_partitions(request, CALLER)).transactions
    assert [item.error.code for item in added] == [
        ErrorCode.PRODUCER_FENCED,
        0,
        0,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ]
    assert [codes(item) for item in added[1:3]] == [[0], [0]]


def each_alone(producer: TxnProducer, *partitions: tuple[str, int], **more: Any) -> list[pb.PartitionsToAdd]:
    """An item for each partition, as a broker sends them."""
    return [
        pb.PartitionsToAdd(
            transactional_id="x",
            producer=producer,
            partitions=[pb.TxnPartition(topic=topic, partition=number)],
            **{"transaction_version": 2, **more},
        )
        for topic, number in partitions
    ]


@pytest.mark.story("an-addition-for-each-partition")
async def test_what_a_call_adds_to_one_transaction_is_one_record(here: Coordinator) -> None:
    """Each record holds all partitions so far: one for each of 800 partitions would be 1.3 MB of them."""
    here.image = with_topic(NOTHING, "wide", 800, number=1)
    producer = await here.init()
    items = each_alone(producer, *(("wide", n) for n in range(800)))
    written = len(here.shard.log)
    added = (await here.service.add_partitions(pb.AddPartitionsRequest(transactions=items), CALLER)).transactions
    assert [codes(item) for item in added] == [[0]] * 800
    assert here.shard.record().partitions == {TopicPartition("wide", n) for n in range(800)}
    (entry,) = here.shard.log[written:]
    assert isinstance(entry, Entry)
    assert len(entry.value or b"") < 800 * 4 + 100


@pytest.mark.story("what-fitted-was-refused-with-what-did-not")
@pytest.mark.parametrize(
    ("limit", "value", "code"),
    [
        ("MOST_PARTITIONS", 5, ErrorCode.INVALID_REQUEST),
        ("LARGEST_ADDITION_BYTES", 157, ErrorCode.RECORD_LIST_TOO_LARGE),
    ],
)
async def test_of_what_a_call_adds_to_one_transaction_as_much_is_taken_as_fits(
    here: Coordinator, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, code: ErrorCode
) -> None:
    here.image = with_topic(NOTHING, "wide", 12, number=1)
    producer = await here.init()
    monkeypatch.setattr(transaction, limit, value)
    items = each_alone(producer, *(("wide", n) for n in range(8)))
    items[1].partitions.extend(pb.TxnPartition(topic="wide", partition=n) for n in range(1, 12))  # these never fit
    added = (await here.service.add_partitions(pb.AddPartitionsRequest(transactions=items), CALLER)).transactions
    told = [item.error.code or codes(item) for item in added]
    assert told == [[0], code, [0], [0], [0], [0], code, code]
    assert here.shard.record().partitions == {TopicPartition("wide", n) for n in (0, 2, 3, 4, 5)}


async def test_what_calls_of_one_turn_add_to_one_transaction_is_one_record(here: Coordinator) -> None:
    """As those that came in one message. Of two clients each has its own: the record says whose it is."""
    here.image = with_topic(NOTHING, "wide", 20, number=1)
    producer = await here.init()
    items = each_alone(producer, *(("wide", n) for n in range(20)))
    written = len(here.shard.log)
    callers = [CALLER if n < 15 else replace(CALLER, client_id="another") for n in range(20)]
    calls = [pb.AddPartitionsRequest(transactions=[item]) for item in items]
    added = await asyncio.gather(*map(here.service.add_partitions, calls, callers))
    assert [codes(item) for each in added for item in each.transactions] == [[0]] * 20
    assert here.shard.record().partitions == {TopicPartition("wide", n) for n in range(20)}
    assert len(here.shard.log) == written + 2


async def test_items_of_one_transaction_are_judged_each_by_its_partitions(here: Coordinator) -> None:
    producer = await here.init()
    items = each_alone(producer, ("t", 0), ("gone", 0), ("t", 1), ("t", 0))
    items[2].partitions.add(topic="gone", partition=1)
    added = (await here.service.add_partitions(pb.AddPartitionsRequest(transactions=items), CALLER)).transactions
    unknown, not_attempted = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert [codes(item) for item in added] == [[0], [unknown], [not_attempted, unknown], [0]]
    assert here.shard.record().partitions == {A}
    items = each_alone(producer, ("t", 0), ("t", 1), verify_only=True)
    added = (await here.service.add_partitions(pb.AddPartitionsRequest(transactions=items), CALLER)).transactions
    assert [codes(item) for item in added] == [[0], [ErrorCode.TRANSACTION_ABORTABLE]]


async def test_an_error_of_a_transaction_is_that_of_each_of_its_items(here: Coordinator) -> None:
    producer = await here.init()
    await here.add(producer, ("t", 0))
    after = await here.end(producer)
    items = [*each_alone(after, ("t", 0), ("t", 1)), *each_alone(producer, ("t", 0))]
    added = (await here.service.add_partitions(pb.AddPartitionsRequest(transactions=items), CALLER)).transactions
    concurrent, fenced = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED
    assert [item.error.code for item in added] == [concurrent, concurrent, fenced]


@pytest.mark.parametrize("version", [-(2**31), -1, 1, 3, 2**31 - 1])
async def test_a_version_that_is_not_known_is_the_nearest(here: Coordinator, version: int) -> None:
    producer = await here.init()
    assert codes(await here.add(producer, ("t", 0), transaction_version=version)) == [0]
    after = await here.end(producer, version)
    assert after.epoch == (1 if version > 1 else 0)


async def test_who_keeps_a_transaction_hears_whose_it_is(here: Coordinator) -> None:
    producer = await here.init()
    await here.add(producer, ("t", 0))

    async def keeping(name: str) -> pb.InitProducerResponse:
        request = pb.InitProducerRequest(transactional_id=name, timeout_ms=60_000, keep_prepared=True)
        return await here.service.init_producer(request, CALLER)

    response = await keeping("x")
    assert (response.producer, response.kept) == (TxnProducer(id=producer.id, epoch=1), producer)
    assert (await here.describe()).producer == response.producer, "who may end it"
    assert not (await keeping("new")).HasField("kept")


async def test_transactions_are_listed_by_what_they_are(here: Coordinator) -> None:
    await here.add(await here.init("open-1"), ("t", 0), name="open-1")
    await here.init("idle-1")
    here.shard.sleep(10)

    async def listed(**request: Any) -> list[str]:
        response = await here.service.list_transactions(pb.ListTransactionsRequest(**request), CALLER)
        assert all((entry.shard, entry.coordinator) == (3, 7) for entry in response.transactions)
        return [entry.transactional_id for entry in response.transactions]

    assert await listed() == ["open-1", "idle-1"]
    assert await listed(states=["ongoing"]) == ["open-1"]
    assert await listed(states=["Nothing"]) == []
    assert await listed(producer_ids=[FIRST_ID + 1]) == ["idle-1"]
    assert await listed(prefix="idle") == ["idle-1"]
    assert await listed(longer_than_ms=9_000) == ["open-1"]
    assert await listed(longer_than_ms=11_000) == []
    assert await listed(pattern="idle-[0-9]") == await listed(pattern=r"(\pL|-)+1", prefix="idle") == ["idle-1"]
    assert await listed(pattern="idle") == [], "the whole id has to match"
    assert await listed(shards=ShardNumbers(numbers=[2, 3])) == ["open-1", "idle-1"]
    for others in (ShardNumbers(numbers=[2, 4]), ShardNumbers()):
        assert await listed(shards=others) == []


@pytest.mark.parametrize(
    ("pattern", "cause"),
    [
        ("(", "missing )"),
        ("x" * 10_000_000, "longer than any id"),
        ("(" * 1_000 + "x" + "{9}" * 1_000 + ")" * 1_000, "repetition"),
        (("(" * 900 + "x" + "){2}" * 900), "repetition"),
        (r"\pL{50}", "too large"),
    ],
)
async def test_a_pattern_that_is_none_or_takes_too_much_is_refused(here: Coordinator, pattern: str, cause: str) -> None:
    with pytest.raises(OttlaError, match=re.escape(cause)) as raised:
        await here.service.list_transactions(pb.ListTransactionsRequest(pattern=pattern), CALLER)
    assert raised.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(str(raised.value)) < 1_000


@pytest.mark.usefixtures("slices_by_looks")
@pytest.mark.parametrize(
    ("ids", "pattern", "count"),
    [
        ([f"id-{n}" for n in range(100_000)], "(id|no)-.*7", 10_000),
        ([f"{n}{'xxyyxy' * 5_000}" for n in range(3)], "[012](x|y)*x(x|y){300}", 0),
    ],
)
async def test_a_listing_that_takes_long_leaves_the_loop_to_others(
    here: Coordinator, ids: list[str], pattern: str, count: int
) -> None:
    record = TransactionRecord(TransactionProducer(1, 0), 60_000)
    here.shard.machine._records.update(dict.fromkeys(ids, record))
    request = pb.ListTransactionsRequest(pattern=pattern)
    listing = asyncio.create_task(here.service.list_transactions(request, CALLER))
    turns = await turns_during(listing)
    assert len((await listing).transactions) == count
    assert turns > 20


async def test_a_shard_that_is_loading_hides_no_other(here: Coordinator) -> None:
    await here.init()
    here.loading = [4]
    response = await here.service.list_transactions(pb.ListTransactionsRequest(states=["no"]), CALLER)
    assert (response.error.code, *response.unknown_states) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no")
    assert len((await here.service.list_transactions(pb.ListTransactionsRequest(), CALLER)).transactions) == 1


async def test_a_description_says_what_an_end_waits_for_and_what_has_happened(here: Coordinator) -> None:
    assert (await here.describe()).error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    producer = await here.init()
    await here.add(producer, ("t", 0), ("t", 1))
    assert [p.partition for p in (await here.describe()).partitions] == [0, 1]
    await here.end(producer)
    described = await here.describe()
    assert (described.state, [p.partition for p in described.partitions]) == ("PrepareCommit", [0])
    assert (described.shard, described.coordinator, described.transaction_version) == (3, 7, 2)
    assert [event.kind for event in described.events] == ["initialized", "committed"]
    assert (described.events[0].client_id, described.events[0].client_host) == ("test", "h")


def test_what_is_set_for_the_cluster_holds_from_then_on(here: Coordinator) -> None:
    shards: Any = here
    listener = TxnConfigListener(TxnCoordinatorConfig(transaction_two_phase_commit_enable=True), shards)
    configs = {"transaction.max.timeout.ms": "5000", "transactional.id.expiration.ms": "7000"}
    altered = ClusterImage("c", configs={("broker", ""): ResourceConfigs(configs)})
    listener.on_image(NOTHING, altered)
    settings = here.shard.machine.settings
    assert (settings.max_timeout_ms, settings.id_expiration_ms, settings.two_phase_commit) == (5_000, 7_000, True)
    assert listener.settings == settings
    listener.on_image(altered, NOTHING)
    assert here.shard.machine.settings.max_timeout_ms == 900_000


async def test_what_is_open_and_how_it_ends_is_measured(here: Coordinator) -> None:
    metrics, clock = Metrics(), type("Clock", (), {"wall_ms": lambda self: here.shard.now.wall_ms})()
    shards: Any = here
    counted = TxnMetrics(shards, metrics, clock)
    producer = await here.init()
    await here.add(producer, ("t", 0))
    here.shard.sleep(30)
    assert (len(counted._open_since_ms()), counted._oldest_s()) == (1, 30.0)
    here.shard.sleep(31)
    for effect in here.shard.effects:
        counted.on_effect(3, 1, effect)
    ends = {dict(labels)["result"]: c.value for labels, c in metrics.samples["ottla_txn_ends_total"].items()}  # type: ignore[union-attr]  # counters
    assert ends == {"timed-out": 1, "committed": 0, "aborted": 0, "fenced": 0}
    assert counted._oldest_s() == 0
    states = metrics.tables["ottla_txn_ids"].read
    assert {state: ids for (state,), ids in states().items() if ids} == {"PrepareAbort": 1}
    here.shard.sleep(2)
    here.shard.complete()
    counted.on_effect(3, 1, here.shard.effects[-1])
    took = metrics.histogram("ottla_txn_complete_seconds", "")
    assert (sum(took.counts), took.sum_s) == (1, 3.0), (
        "it has lasted too long 61 s after its start, and timed out at 60 s"
    )
    assert {state: ids for (state,), ids in states().items() if ids} == {"CompleteAbort": 1}
    here.shard.apply(Entry(encode_key("x"), None))
    assert set(states().values()) == {0}
    assert set(Shard(log=here.shard.log).machine.states.values()) == {0}
