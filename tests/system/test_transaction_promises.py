"""What Kafka promises of transactions in a sentence each: what is asked when, in which order, and what counts when."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tests.fuzz.kafka_wire import KafkaWire
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster
from ottla_broker.replication.leading import Leading
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_core.records.batch import iter_headers
from ottla_core.records.reader import read_records
from ottla_core.rpc.client import Peer
from ottla_group_coordinator.service import GroupService
from ottla_proto import txn_pb2 as pb
from ottla_proto.contracts import Txn
from ottla_txn_coordinator.machines.records import TransactionRecord, decode_key, decode_value
from ottla_txn_coordinator.machines.states import TransactionState
from ottla_txn_coordinator.service import TxnService


class Watched:
    """`held`: while there is something in it, owners of groups refuse markers. `asked` are the calls that transactions
    made of their coordinators. `logged_before` has, of each topic, what `__transaction_state` held when the first
    batch of a transaction came to be appended there."""

    def __init__(self) -> None:
        self.held: list[bool] = []
        self.asked: list[str] = []
        self.shards: set[Leading] = set()
        self.logged_before: dict[str, dict[str, TransactionRecord]] = {}

    def logged(self) -> dict[str, TransactionRecord]:
        found: dict[str, TransactionRecord] = {}
        for shard in self.shards:
            data = shard.log.read(0, 1 << 24, shard.offsets.high_watermark)
            for at, header in iter_headers(data):
                for _, _, key, value, _ in () if header.is_control else read_records(data[at : at + header.size_bytes]):
                    assert key is not None
                    assert value is not None
                    found[decode_key(key) or ""] = decode_value(value) or pytest.fail("a record of an unknown kind")
        return found


@pytest.fixture(scope="module")
def watched() -> Watched:
    return Watched()


@pytest.fixture(scope="module")
def cluster(watched: Watched) -> Iterator[Cluster]:
    append, append_owned, write_markers = Leading.append, Leading.append_owned, GroupService.write_txn_markers

    def watched_append(self: Leading, *args: Any, transactional: bool = False, **how: Any) -> Any:
        topic = self.disk.topic
        if transactional and topic not in watched.logged_before:
            watched.logged_before[topic] = watched.logged()
        return append(self, *args, transactional=transactional, **how)

    def watched_append_owned(self: Leading, *args: Any) -> Any:
        if self.disk.topic == "__transaction_state":
            watched.shards.add(self)
        return append_owned(self, *args)

    async def held_markers(self: GroupService, *args: Any) -> Any:
        if watched.held:
            raise OttlaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not now")
        return await write_markers(self, *args)

    def noted(name: str) -> Any:
        method = getattr(TxnService, name)

        async def asked(self: TxnService, request: Any, context: Any) -> Any:
            watched.asked.append(name)
            return await method(self, request, context)

        return asked

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Leading, "append", watched_append)
        monkeypatch.setattr(Leading, "append_owned", watched_append_owned)
        monkeypatch.setattr(GroupService, "write_txn_markers", held_markers)
        for name in ("init_producer", "add_partitions", "add_offsets", "end_txn"):
            monkeypatch.setattr(TxnService, name, noted(name))
        with Cluster(group_coordinators=1, txn_coordinators=1) as cluster:
            yield cluster


@pytest.fixture
def producer(cluster: Cluster, topic: str) -> Iterator[ottla.Producer[None, int]]:
    with ottla.Producer[None, int](cluster.bootstrap, topic=topic, transactional_id=topic) as producer:
        producer.init_transactions()
        yield producer


@pytest.mark.feature(79)
@pytest.mark.rule(51)
def test_offsets_of_a_transaction_count_with_its_marker_and_not_before(
    cluster: Cluster, admin: ottla.Admin, producer: ottla.Producer[None, int], topic: str, watched: Watched
) -> None:
    """The former ones hold meanwhile, though the transaction is decided."""
    partition, group = TopicPartition(topic, 0), f"{topic}-group"
    with ottla.Consumer(topic, bootstrap=cluster.bootstrap, group=group, commit="manual") as consumer:
        as_whom = consumer.group_metadata

    def end(offset: int, *, committed: bool) -> None:
        producer.begin_transaction()
        producer.send_offsets_to_transaction({partition: offset}, as_whom)
        assert admin.groups.committed(group).get(partition) == before
        (producer.commit_transaction if committed else producer.abort_transaction)()

    before: int | None = None
    for offset, committed in ((3, True), (5, False), (7, True)):
        watched.held.append(True)
        end(offset, committed=committed)
        assert admin.transactions.describe(topic).state == ("PrepareCommit" if committed else "PrepareAbort")
        assert admin.groups.committed(group).get(partition) == before
        watched.held.clear()
        wait_until(lambda: admin.transactions.describe(topic).state.startswith("Complete"))
        before = offset if committed else before
        assert admin.groups.committed(group)[partition] == before


@pytest.mark.feature(143)
def test_to_begin_a_transaction_is_a_matter_of_the_client_alone(
    admin: ottla.Admin, producer: ottla.Producer[None, int], topic: str, watched: Watched
) -> None:
    """Until its first record or offset no one else knows of it, and then there is nothing to end either."""
    asked, known = list(watched.asked), admin.transactions.describe(topic)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        assert admin.transactions.describe(topic) == known
        end()
    assert watched.asked == asked
    producer.begin_transaction()
    producer.send(1).result(LIMIT_S)
    assert watched.asked == [*asked, "add_partitions"]
    producer.abort_transaction()


@pytest.mark.feature(144)
def test_a_partition_is_in_the_coordinators_log_before_the_first_record_is_in_its_own(
    producer: ottla.Producer[None, int], topic: str, watched: Watched
) -> None:
    producer.begin_transaction()
    producer.send(1, partition=1).result(LIMIT_S)
    logged = watched.logged_before[topic][topic]
    assert logged.state is TransactionState.ONGOING
    assert logged.partitions == {TopicPartition(topic, 1)}
    producer.abort_transaction()


@pytest.mark.parametrize("committed", [True, False])
def test_who_keeps_an_open_transaction_decides_on_it(
    cluster: Cluster, admin: ottla.Admin, producer: ottla.Producer[None, int], topic: str, committed: bool
) -> None:
    producer.begin_transaction()
    producer.send(7, partition=0).result(LIMIT_S)
    keeper = Peer(cluster.txn_coordinators[0].address)
    call = partial(keeper.call, timeout=20)
    kept = call(
        Txn.INIT_PRODUCER,
        pb.InitProducerRequest(transactional_id=topic, timeout_ms=60_000, keep_prepared=True),
    )
    described = admin.transactions.describe(topic)
    assert (described.state, described.producer_epoch) == ("Ongoing", kept.producer.epoch)
    with pytest.raises(ottla.FencedError):
        producer.commit_transaction()
    end = pb.EndTxnRequest(transactional_id=topic, producer=kept.producer, committed=committed, transaction_version=2)
    assert call(Txn.END_TXN, end).producer.epoch == kept.kept.epoch + 2
    keeper.close()
    wait_until(lambda: admin.transactions.describe(topic).state.startswith("Complete"))
    with ottla.Producer(cluster.bootstrap, topic=topic, transactional_id=topic) as newer, newer.transaction() as tx:
        tx.send(8, partition=0)
    assert [record.value for record in cluster.read(topic)] == ([7, 8] if committed else [8])


@pytest.mark.rule(31, 43)
@pytest.mark.parametrize("version", [3, 4, 5])
def test_offsets_of_a_transaction_that_was_timed_out_are_refused_for_good(
    cluster: Cluster, admin: ottla.Admin, topic: str, watched: Watched, version: int
) -> None:
    """While its abort is under way, too: a code by which the client tried again would keep it until that is done."""
    group = f"{topic}-group"
    with KafkaWire(cluster.bootstrap.split(",")[0]) as kafka:
        init = InitProducerIdRequest(
            transactional_id=topic, transaction_timeout_ms=300, producer_id=-1, producer_epoch=-1
        )
        made = kafka.ask(init, 4, InitProducerIdResponse)
        producer = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
        add = AddOffsetsToTxnRequest(transactional_id=topic, group_id=group, **producer)
        watched.held.append(True)
        assert kafka.ask(add, 3, AddOffsetsToTxnResponse).error_code == 0
        offset = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition
        partition = offset(partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata="")
        commit = TxnOffsetCommitRequest(
            transactional_id=topic,
            group_id=group,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
            **producer,
        )
        for state in ("PrepareAbort", "CompleteAbort"):
            wait_until(lambda state=state: admin.transactions.describe(topic).state == state)
            [answered] = kafka.ask(commit, version, TxnOffsetCommitResponse).topics
            assert [p.error_code for p in answered.partitions] == [ErrorCode.INVALID_PRODUCER_EPOCH]
            watched.held.clear()
