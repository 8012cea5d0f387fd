"""The APIs of transactions in every version: what reaches the coordinators, and what clients hear."""

from __future__ import annotations

import struct
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from group_backend import GroupBackend, versions
from images import topic_id
from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest, UpdateFeaturesRequest
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from ottla_broker.kafka.apis import served
from ottla_broker.kafka.dispatch import Dispatcher
from ottla_broker.kafka.forwarding import coordinator_calls
from ottla_broker.kafka.network.connection import CloseConnectionError
from ottla_broker.kafka.wire.frames import Caller, KafkaContext, read_head
from ottla_broker.machines.guards import AddedBy, VerificationGuards
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.model import PartitionId
from ottla_core.telemetry import Metrics
from ottla_proto import group_pb2, txn_pb2
from ottla_proto.common_pb2 import Error, ShardNumbers, TxnProducer

INIT, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT, DESCRIBE, LIST = 22, 24, 25, 26, 28, 65, 66
PRODUCER = TxnProducer(id=7_000, epoch=3)
FENCED = Error(code=ErrorCode.PRODUCER_FENCED, message="another has come")
ABORTABLE = Error(code=ErrorCode.TRANSACTION_ABORTABLE, message="not in it")


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 0.0)


# ---- InitProducerId -------------------------------------------------------------------------------------------------


def init(version: int, producer_id: int = -1) -> Any:
    return InitProducerIdRequest(
        transactional_id="t-1", transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=2
    )


@pytest.mark.parametrize("version", versions(INIT))
async def test_a_transactional_id_gets_its_producer_from_the_coordinator(version: int) -> None:
    backend = GroupBackend(txn_pb2.InitProducerResponse(producer=PRODUCER))
    response = await backend.answer(init(version, producer_id=7_000), version)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 7_000, 3)
    [request] = backend.asked
    assert (request.transactional_id, request.timeout_ms) == ("t-1", 60_000)
    assert request.HasField("producer") == (version >= 3)


@pytest.mark.parametrize("version", versions(INIT))
async def test_a_new_instance_names_no_producer(version: int) -> None:
    backend = GroupBackend(txn_pb2.InitProducerResponse(producer=PRODUCER))
    await backend.answer(init(version), version)
    assert not backend.asked[0].HasField("producer")


@pytest.mark.rule(31)
@pytest.mark.parametrize("version", versions(INIT))
async def test_who_is_fenced_hears_what_its_version_knows(version: int) -> None:
    response = await GroupBackend(txn_pb2.InitProducerResponse(error=FENCED)).answer(init(version), version)
    known = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert (response.error_code, response.producer_id) == (known, -1)


@pytest.mark.parametrize("version", versions(INIT))
async def test_no_coordinator_is_an_error_that_clients_try_again_after(version: int) -> None:
    missing = OttlaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "none")
    response = await GroupBackend(missing).answer(init(version), version)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def init_6(*, two_phases: bool, keeps: bool) -> bytes:
    """A frame of version 6, byte by byte."""
    head = struct.pack(">hhih2sb", INIT, 6, 77, 2, b"me", 0)
    body = head + b"\4t-1" + struct.pack(">iqh??b", 60_000, -1, -1, two_phases, keeps, 0)
    return struct.pack(">i", len(body)) + body


async def answer_6(
    backend: GroupBackend, *, unstable: bool = True, two_phases: bool = False, keeps: bool = False
) -> Any:
    """Error code, producer, epoch, and those of a transaction that goes on."""
    view = memoryview(init_6(two_phases=two_phases, keeps=keeps))
    dispatcher = Dispatcher(cast(Any, backend), Metrics(), apis=served(unstable=unstable))
    parts = await cast(Any, dispatcher.handle(read_head(view), view, Caller("", "")))
    size, correlation, _, *fields, _ = struct.unpack(">iibihqhqhb", b"".join(parts))
    assert (size, correlation) == (32, 77)
    return fields[1:]


async def test_version_6_is_served_where_unstable_versions_are() -> None:
    backend = GroupBackend(*[txn_pb2.InitProducerResponse(producer=PRODUCER)] * 2)
    for two_phases in (False, True):
        assert await answer_6(backend, two_phases=two_phases) == [0, 7_000, 3, -1, -1]
    assert [request.two_phase_commit for request in backend.asked] == [False, True]
    assert not any(request.keep_prepared for request in backend.asked)
    with pytest.raises(CloseConnectionError, match="not supported"):
        await answer_6(backend, unstable=False)


async def test_version_6_keeps_what_is_prepared() -> None:
    kept = txn_pb2.InitProducerResponse(producer=PRODUCER, kept=TxnProducer(id=6_000, epoch=0))
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    backend = GroupBackend(kept, OttlaError(denied, "two-phase commit is not enabled"))
    assert await answer_6(backend, keeps=True) == [0, 7_000, 3, 6_000, 0]
    assert await answer_6(backend, keeps=True, two_phases=True) == [denied, -1, -1, -1, -1]
    assert [(request.keep_prepared, request.two_phase_commit) for request in backend.asked] == [
        (True, False),
        (True, True),
    ]


@pytest.mark.parametrize("unstable", [False, True])
def test_api_versions_shows_what_is_served(unstable: bool) -> None:
    apis = served(unstable=unstable)
    context = KafkaContext(0, 1, "", Reader(memoryview(b""), flexible=False), Caller("", ""))
    shown = b"".join(cast(Any, apis[18].handler(cast(Any, None), context)))
    assert (struct.pack(">hhh", INIT, 0, 6) in shown, struct.pack(">hhh", INIT, 0, 5) in shown) == (
        unstable,
        not unstable,
    )


# ---- AddPartitionsToTxn, AddOffsetsToTxn, EndTxn --------------------------------------------------------------------


def add(*numbers: int, topic: str = "t") -> Any:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t-1",
        v3_and_below_producer_id=7_000,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(numbers)),
        ],
    )


def codes(response: Any) -> dict[int, int]:
    return {
        partition.partition_index: partition.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    }


@pytest.mark.parametrize("version", versions(ADD_PARTITIONS))
async def test_partitions_are_added_by_the_coordinator(version: int) -> None:
    added = txn_pb2.PartitionsAdded(partitions=[Error(), Error(code=ErrorCode.CONCURRENT_TRANSACTIONS)])
    backend = GroupBackend(txn_pb2.AddPartitionsResponse(transactions=[added]))
    assert codes(await backend.answer(add(0, 2, 0), version)) == {0: 0, 2: ErrorCode.CONCURRENT_TRANSACTIONS}
    [transaction] = backend.asked[0].transactions
    assert [(p.topic, p.partition) for p in transaction.partitions] == [("t", 0), ("t", 2)], "each of them once"
    assert (transaction.producer, transaction.verify_only) == (PRODUCER, False)


@pytest.mark.rule(39)
async def test_the_leader_remembers_the_partitions_that_were_added_through_it() -> None:
    replicas = {n: SimpleNamespace(leads=n != 2, guards=VerificationGuards()) for n in range(3)}
    added = txn_pb2.PartitionsAdded(partitions=[Error(), Error(code=ErrorCode.CONCURRENT_TRANSACTIONS), Error()])
    backend = GroupBackend(txn_pb2.AddPartitionsResponse(transactions=[added]), OttlaError(1, "the call failed"))
    backend.led.update({PartitionId(topic_id(1), n): replica for n, replica in replicas.items()})
    for _ in range(2):
        await backend.answer(add(0, 1, 2), 3)
        has_added = [replica.guards.has_added(AddedBy("t-1", 7_000, 3)) for replica in replicas.values()]
        assert has_added == [True, False, False], "neither an error nor a call that fails takes it back"
    assert not any(replica.guards._guards for replica in replicas.values())


@pytest.mark.parametrize("version", versions(ADD_PARTITIONS))
async def test_beside_an_unknown_partition_none_is_added(version: int) -> None:
    backend = GroupBackend(txn_pb2.AddPartitionsResponse())
    assert codes(await backend.answer(add(0, 3), version)) == {
        0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert not backend.asked


@pytest.mark.rule(31)
@pytest.mark.parametrize("version", versions(ADD_PARTITIONS))
@pytest.mark.parametrize(
    "fenced",
    [
        txn_pb2.AddPartitionsResponse(error=FENCED),
        txn_pb2.AddPartitionsResponse(transactions=[txn_pb2.PartitionsAdded(error=FENCED)]),
    ],
)
async def test_an_error_of_the_whole_is_that_of_each_partition(
    version: int, fenced: txn_pb2.AddPartitionsResponse
) -> None:
    known = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert codes(await GroupBackend(fenced).answer(add(0, 1), version)) == {0: known, 1: known}


@pytest.mark.parametrize("version", versions(ADD_OFFSETS))
@pytest.mark.parametrize("error", [None, FENCED, ABORTABLE])
async def test_a_group_is_added_by_its_name(version: int, error: Error | None) -> None:
    backend = GroupBackend(txn_pb2.AddOffsetsResponse(error=error))
    request = AddOffsetsToTxnRequest(transactional_id="t-1", producer_id=7_000, producer_epoch=3, group_id="g")
    response = await backend.answer(request, version)
    assert response.error_code == _known(error, version, fenced_from=2, abortable_from=4)
    assert (backend.asked[0].group, backend.asked[0].producer) == ("g", PRODUCER)


@pytest.mark.parametrize("version", versions(END))
@pytest.mark.parametrize("error", [None, FENCED, ABORTABLE])
async def test_a_transaction_is_ended(version: int, error: Error | None) -> None:
    backend = GroupBackend(txn_pb2.EndTxnResponse(error=error, producer=PRODUCER))
    request = EndTxnRequest(transactional_id="t-1", producer_id=7_000, producer_epoch=2, committed=True)
    response = await backend.answer(request, version)
    assert response.error_code == _known(error, version, fenced_from=2, abortable_from=4)
    [asked] = backend.asked
    assert (asked.committed, asked.producer.epoch, asked.transaction_version) == (True, 2, 2 if version >= 5 else 1)
    if version >= 5 and error is None:
        assert (response.producer_id, response.producer_epoch) == (7_000, 3)


def _known(error: Error | None, version: int, *, fenced_from: int, abortable_from: int) -> int:
    if error is None:
        return 0
    if error is FENCED:
        return ErrorCode.PRODUCER_FENCED if version >= fenced_from else ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.TRANSACTION_ABORTABLE if version >= abortable_from else ErrorCode.INVALID_TXN_STATE


# ---- TxnOffsetCommit ------------------------------------------------------------------------------------------------


def commit(version: int) -> Any:
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition
    return TxnOffsetCommitRequest(
        transactional_id="t-1",
        group_id="g",
        producer_id=7_000,
        producer_epoch=3,
        generation_id=5,
        member_id="m",
        group_instance_id=None,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    partition(
                        partition_index=n, committed_offset=10 + n, committed_leader_epoch=4, committed_metadata="x"
                    )
                    for n in (0, 3)
                ],
            )
            for name in ("t", "unknown")
        ],
    )


@pytest.mark.parametrize("version", versions(COMMIT))
async def test_offsets_of_a_transaction_reach_the_groups_coordinator(version: int) -> None:
    done = group_pb2.PartitionOutcome(topic="t", partition=0)
    backend = GroupBackend(group_pb2.CommitOffsetsResponse(partitions=[done]))
    response = await backend.answer(commit(version), version)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {t.name: [(p.partition_index, p.error_code) for p in t.partitions] for t in response.topics} == {
        "t": [(0, 0), (3, unknown)],
        "unknown": [(0, unknown), (3, unknown)],
    }
    [asked] = backend.asked
    transaction = asked.transaction
    assert (transaction.transactional_id, transaction.producer) == ("t-1", PRODUCER)
    assert transaction.transaction_version == (2 if version >= 5 else 1)
    assert (asked.generation, asked.member.member_id) == ((5, "m") if version >= 3 else (-1, ""))
    [offset] = asked.offsets
    assert (offset.offset, offset.leader_epoch) == (10, 4 if version >= 2 else 0)


@pytest.mark.rule(31)
@pytest.mark.parametrize("version", versions(COMMIT))
@pytest.mark.parametrize("error", [FENCED, ABORTABLE])
async def test_offsets_of_one_that_is_fenced(version: int, error: Error) -> None:
    response = await GroupBackend(group_pb2.CommitOffsetsResponse(error=error)).answer(commit(version), version)
    [topic, _] = response.topics
    assert topic.partitions[0].error_code == _known(error, version, fenced_from=99, abortable_from=4)


# ---- describe and list ----------------------------------------------------------------------------------------------


async def test_a_transaction_is_described_as_its_coordinator_knows_it() -> None:
    described = txn_pb2.TransactionDescription(
        transactional_id="t-1",
        state="Ongoing",
        producer=PRODUCER,
        timeout_ms=60_000,
        started_at_ms=5,
        partitions=[txn_pb2.TxnPartition(topic="t", partition=n) for n in (0, 2)],
    )
    backend = GroupBackend(txn_pb2.DescribeTransactionsResponse(transactions=[described]))
    [state] = (
        await backend.answer(DescribeTransactionsRequest(transactional_ids=["t-1", "t-1"]), 0)
    ).transaction_states
    assert (state.error_code, state.transaction_state) == (0, "Ongoing")
    assert (state.producer_id, state.producer_epoch, state.transaction_timeout) == (7_000, 3, timedelta(seconds=60))
    assert state.transaction_start_time.timestamp() == 0.005
    assert [(topic.topic, list(topic.partitions)) for topic in state.topics] == [("t", [0, 2])]
    assert len(backend.asked) == 1, "each id once, however often it is named"


async def test_an_unknown_transaction_has_an_error_of_its_own() -> None:
    unknown = txn_pb2.TransactionDescription(
        transactional_id="t-1", error=Error(code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    )
    backend = GroupBackend(txn_pb2.DescribeTransactionsResponse(transactions=[unknown]))
    [state] = (await backend.answer(DescribeTransactionsRequest(transactional_ids=["t-1"]), 0)).transaction_states
    assert (state.error_code, state.transaction_state) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "")


@pytest.mark.story("each-broker-asked-for-everything")
@pytest.mark.parametrize("version", versions(LIST))
async def test_each_broker_lists_the_shards_for_which_it_speaks(version: int) -> None:
    def listing(coordinator: Any, asked: Any) -> txn_pb2.ListTransactionsResponse:
        entry = txn_pb2.ListedTransaction(
            transactional_id=f"t-{coordinator.id}", producer_id=coordinator.id, state="Ongoing", shard=coordinator.id
        )
        listed = [entry] if coordinator.id in asked.shards.numbers else []
        shards = [shard for shard in asked.shards.numbers if shard % 2 == coordinator.id]
        return txn_pb2.ListTransactionsResponse(
            transactions=listed, unknown_states=["Nowhere"], shards=ShardNumbers(numbers=shards)
        )

    backend = GroupBackend(listing)
    request = ListTransactionsRequest(
        state_filters=["Ongoing", "Nowhere"],
        producer_id_filters=[1],
        duration_filter=9,
        transactional_id_pattern="t-.*",
    )
    response = await backend.answer(request, version)
    assert [(t.transactional_id, t.transaction_state) for t in response.transaction_states] == [
        ("t-0", "Ongoing"),
        ("t-1", "Ongoing"),
    ]
    assert list(response.unknown_state_filters) == ["Nowhere"]
    asked = backend.asked[0]
    assert (list(asked.states), list(asked.producer_ids)) == (["Ongoing", "Nowhere"], [1])
    assert asked.longer_than_ms == (9 if version >= 1 else 0)
    assert asked.pattern == ("t-.*" if version >= 2 else "")
    backend.node_id = 1
    response = await backend.answer(request, version)
    assert not response.transaction_states, "its other broker speaks for them"
    assert list(response.unknown_state_filters) == ["Nowhere"]
    assert backend.asked[-1].HasField("shards"), "else it would be asked for all of them"


@pytest.mark.parametrize("version", versions(LIST))
@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_REGULAR_EXPRESSION])
async def test_a_list_that_is_not_whole_says_why(version: int, code: ErrorCode) -> None:
    backend = GroupBackend(OttlaError(code, "gone"))
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern=None)
    response = await backend.answer(request, version)
    knows = version >= 2 or code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert response.error_code == (code if knows else ErrorCode.INVALID_REQUEST)
    assert backend.asked[0].pattern == ""


# ---- features -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(18))
async def test_which_features_are_finalized(version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    backend = GroupBackend()
    response = await backend.answer(request, version)
    if version >= 3:
        finalized = {f.name: f.max_version_level for f in response.finalized_features}
        assert finalized == {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2}
        assert response.finalized_features_epoch == backend.image.revision
        supported = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
        levels = {"eligible.leader.replicas.version": (0, 1), "group.version": (0, 1), "transaction.version": (0, 2)}
        assert supported == (levels if version >= 4 else {})


@pytest.mark.story("rejected-feature")
@pytest.mark.parametrize("version", versions(57))
@pytest.mark.parametrize(
    ("feature", "level", "accepted"),
    [
        ("transaction.version", 2, True),
        ("transaction.version", 1, False),
        ("eligible.leader.replicas.version", 1, True),
        ("eligible.leader.replicas.version", 0, False),
        ("metadata.version", 30, False),
    ],
)
async def test_a_feature_has_one_level(version: int, feature: str, level: int, accepted: bool) -> None:
    """A rejection is at the top of the response in every version: clients look nowhere else."""
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=feature, max_version_level=level, allow_downgrade=False, upgrade_type=1
    )
    request = UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[update], validate_only=False)
    response = await GroupBackend().answer(request, version)
    assert response.error_code == (0 if accepted else ErrorCode.INVALID_UPDATE_VERSION)
    if version < 2:  # Kafka gives results only where all updates were accepted
        assert [(r.feature, r.error_code) for r in response.results] == ([(feature, 0)] if accepted else [])
