"""A transactional batch waits for its verification: whom it keeps waiting, what ends it, and what is verified anew."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from batches import raw_batch, raw_record
from logs import SMALL
from produced import produced
from replicas import PARTITION, Brokers
from transactional_logs import end_of
from waiting import until

from ottla_broker.peers.transactions import TransactionVerifier
from ottla_broker.replication.disk_log import WalkedBatches
from ottla_broker.replication.leading import ACKS_ALL
from ottla_broker.replication.pending import MOST_BYTES
from ottla_broker.replication.produce import ProducedTransaction, ReplicaAppend, append
from ottla_broker.replication.replica import Replica
from ottla_broker.storage.log_config import LogConfig
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import TopicPartition
from ottla_core.records.batch import CONTROL, HEADER_SIZE, TRANSACTIONAL
from ottla_core.records.compression import Codec, Compression, compress
from ottla_core.records.varint import encode_varint as varint
from ottla_proto.common_pb2 import TxnProducer


class Gate:
    """A verifier that answers when it is opened."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, TopicPartition, int, int]] = []
        self._answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def verify(
        self,
        transactional_id: str,
        producer: TxnProducer,
        partition: TopicPartition,
        version: int,
        coordinator_epoch: int,
    ) -> None:
        self.asked.append((transactional_id, producer.id, producer.epoch, partition, version, coordinator_epoch))
        await self._answered

    def close(self) -> None:
        self._answered = asyncio.get_running_loop().create_future()

    def open(self, error: OttlaError | None = None) -> None:
        self._answered.set_result(None) if error is None else self._answered.set_exception(error)


def led_replica(directory: Path) -> Replica:
    brokers = Brokers(directory, (1,))
    brokers.apply(Partition(replicas=(1,), leader=1, leader_epoch=1, isr=(1,)))
    return brokers.replicas[1]


def batch(producer_id: int, sequence: int = 0, *, attributes: int = TRANSACTIONAL, epoch: int = 3) -> bytes:
    return raw_batch(
        raw_record(0), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, attributes=attributes
    )


def of(gate: Gate, version: int = 2) -> ProducedTransaction:
    return ProducedTransaction("t-1", version, cast(TransactionVerifier, gate))


def begin(replica: Replica, records: bytes, transaction: ProducedTransaction | None) -> Any:
    return append(replica, replica.led_in(None), records, 1, Slice(60.0), transaction)


@pytest.mark.rule(39)
async def test_the_first_batch_of_a_transaction_waits_until_it_is_verified(tmp_path: Path) -> None:
    replica, gate = led_replica(tmp_path), Gate()
    first, second = (begin(replica, batch(7, sequence), of(gate)) for sequence in (0, 1))
    await until(lambda: gate.asked)
    assert gate.asked == [("t-1", 7, 3, TopicPartition("t", PARTITION.partition), 2, -1)]
    assert replica.log.log_end_offset == 0
    gate.open()
    assert [(await each).appended.base_offset for each in (first, second)] == [0, 1]
    await until(lambda: not replica.pending)
    assert isinstance(begin(replica, batch(7, 2), of(gate)), ReplicaAppend), "the transaction is open here"
    assert len(gate.asked) == 1


async def test_it_keeps_no_other_producer_waiting(tmp_path: Path) -> None:
    replica, gate = led_replica(tmp_path), Gate()
    waiting = begin(replica, batch(7), of(gate))
    await until(lambda: gate.asked)
    assert isinstance(begin(replica, batch(8, attributes=0), None), ReplicaAppend)
    gate.open()
    assert (await waiting).appended.base_offset == 1


@pytest.mark.rule(39)
async def test_what_a_marker_overtakes_is_not_appended(tmp_path: Path) -> None:
    """The coordinator has answered, and ended the transaction right after: it would be open for ever."""
    replica, gate = led_replica(tmp_path), Gate()
    waiting = begin(replica, batch(7), of(gate, version=1))
    await until(lambda: gate.asked)
    replica.guards.on_marker(7)
    gate.open()
    with pytest.raises(OttlaError) as raised:
        await waiting
    assert raised.value.code == ErrorCode.INVALID_TXN_STATE
    assert replica.log.log_end_offset == 0


@pytest.mark.rule(39)
@pytest.mark.parametrize("is_over", [False, True])
async def test_with_transactions_v2_an_answer_that_a_marker_overtakes_is_asked_for_anew(
    tmp_path: Path, is_over: bool
) -> None:
    """The first batch of a transaction comes while the markers of the one before are on their way."""
    replica, gate = led_replica(tmp_path), Gate()
    waiting = begin(replica, batch(7), of(gate))
    await until(lambda: gate.asked)
    replica.led_in(None).append_marker(end_of(7, 3))
    gate.open()
    gate.close()
    await until(lambda: len(gate.asked) == 2)
    assert replica.log.log_end_offset == 1, "the marker alone"
    assert [epoch for *_, epoch in gate.asked] == [-1, 1], "no answer older than the marker's coordinator counts"
    gate.open(OttlaError(ErrorCode.PRODUCER_FENCED, "it has ended") if is_over else None)
    if not is_over:
        assert (await waiting).appended.base_offset == 1
        return
    with pytest.raises(OttlaError) as raised:
        await waiting
    assert raised.value.code == ErrorCode.PRODUCER_FENCED
    assert not replica.guards._guards


@pytest.mark.rule(39)
async def test_a_transaction_that_ends_while_its_batch_is_walked_takes_it_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was open when the batch came, so that the coordinator was not asked yet."""
    replica, gate = led_replica(tmp_path), Gate()
    replica.led_in(None).append(batch(7), transactional=True)

    async def walk(records: bytes, *, is_slow: bool) -> WalkedBatches:
        replica.led_in(None).append_marker(end_of(7, 3, v2=False))
        return WalkedBatches(records, replica.log.config)

    monkeypatch.setattr(replica.disk, "walk", walk)
    waiting = append(replica, replica.led_in(None), batch(7, 1), 1, Slice(0.0), of(gate, version=1))
    gate.open(OttlaError(ErrorCode.INVALID_TXN_STATE, "it has ended"))
    with pytest.raises(OttlaError) as raised:
        await waiting
    assert raised.value.code == ErrorCode.INVALID_TXN_STATE
    assert not replica.log.producers.has_open(7, 3)


async def test_a_verification_that_fails_or_is_given_up_leaves_nothing_behind(tmp_path: Path) -> None:
    replica, gate = led_replica(tmp_path), Gate()
    waiting = [begin(replica, batch(producer_id), of(gate)) for producer_id in range(1_000)]
    await until(lambda: gate.asked)
    for each in waiting[::2]:
        each.cancel()
    gate.open(OttlaError(ErrorCode.PRODUCER_FENCED, "another has come"))
    await until(lambda: not replica.pending and not replica.pending_bytes.held)
    assert not replica.guards._guards
    assert replica.log.log_end_offset == 0


@pytest.mark.rule(39)
@pytest.mark.parametrize(
    "other", [batch(8), batch(7, 0, epoch=4), batch(8, attributes=0)], ids=["producer", "epoch", "plain"]
)
@pytest.mark.parametrize("is_first", [False, True])
async def test_what_comes_with_a_transactional_batch_is_of_the_same_transaction(
    tmp_path: Path, other: bytes, is_first: bool
) -> None:
    """One of them is looked up: the other one would open a transaction that the coordinator does not know."""
    replica, gate = led_replica(tmp_path), Gate()
    gate.open()
    both = (other, batch(7)) if is_first else (batch(7), other)

    async def together() -> None:
        await begin(replica, b"".join(both), of(gate))

    with pytest.raises(OttlaError) as raised:
        await together()
    assert raised.value.code == ErrorCode.INVALID_RECORD
    assert replica.log.log_end_offset == 0
    assert (await begin(replica, batch(7) + batch(7, 1), of(gate))).appended.base_offset == 0


@pytest.mark.rule(39)
async def test_what_was_verified_under_another_leadership_is_verified_anew(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, (1, 2))
    brokers.apply(Partition(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1, 2)))
    replica, gate = brokers.replicas[1], Gate()
    waiting = begin(replica, batch(7), of(gate))
    await until(lambda: gate.asked)
    for epoch, leader in ((2, 2), (3, 1)):
        brokers.apply(Partition(replicas=(1, 2), leader=leader, leader_epoch=epoch, isr=(1, 2)))
    gate.open()
    with pytest.raises(OttlaError) as raised:
        await waiting
    assert raised.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.log.log_end_offset == 0


async def outcome(begun: Any) -> int | ErrorCode:
    """The offset of a batch, or the reason why it was not appended."""
    try:
        return cast(int, (await begun if isinstance(begun, asyncio.Future) else begun).appended.base_offset)
    except OttlaError as error:
        return ErrorCode(error.code)


def now(replica: Replica, records: bytes, transaction: ProducedTransaction | None) -> Any:
    """Begin to append; an error that is raised at once becomes a failed future."""
    try:
        return begin(replica, records, transaction)
    except OttlaError as error:
        failed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        return failed


class Script:
    """A verifier that answers as it is written, and yes after that."""

    def __init__(self, *answers: ErrorCode | None) -> None:
        self.asked = 0
        self._answers = [*answers]

    async def verify(self, *_: Any) -> None:
        self.asked += 1
        await asyncio.sleep(0)
        if self._answers and (code := self._answers.pop(0)) is not None:
            raise OttlaError(code, "as it is written")


def by(script: Script, version: int) -> ProducedTransaction:
    return ProducedTransaction("t-1", version, cast(TransactionVerifier, script))


@pytest.mark.rule(25, 39)
@pytest.mark.story("sequence-3-before-0")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("failure", "behind"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
async def test_no_batch_overtakes_one_whose_verification_failed(
    tmp_path: Path, version: int, failure: ErrorCode, behind: ErrorCode
) -> None:
    """The txn-coordinator is away for the first question, and back for the second."""
    replica, script = led_replica(tmp_path), Script(failure)
    waiting = [now(replica, batch(7, sequence), by(script, version)) for sequence in range(3)]
    assert [await outcome(each) for each in waiting] == [failure, behind, behind]
    assert script.asked == 1, "what waited behind it is not asked about"
    late = now(replica, batch(7, 3), by(script, version))
    assert await outcome(late) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "it came before its client heard of that"
    again = [now(replica, batch(7, sequence), by(script, version)) for sequence in range(4)]
    assert [await outcome(each) for each in again] == [0, 1, 2, 3]
    assert not replica.log.producers.first_sequences


@pytest.mark.rule(25, 39)
@pytest.mark.story("sequence-3-before-0")
async def test_no_batch_overtakes_one_that_was_given_up(tmp_path: Path) -> None:
    """Its request timed out while it waited."""
    replica, gate = led_replica(tmp_path), Gate()
    first, second = (begin(replica, batch(7, sequence), of(gate, version=1)) for sequence in (0, 1))
    await until(lambda: gate.asked)
    first.cancel()
    gate.open()
    assert await outcome(second) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [await outcome(now(replica, batch(7, sequence), of(gate, version=1))) for sequence in (0, 1)] == [0, 1]


@pytest.mark.rule(25)
async def test_no_batch_overtakes_one_for_which_there_was_no_room(tmp_path: Path) -> None:
    replica, script = led_replica(tmp_path), Script()
    replica.pending_bytes.take(MOST_BYTES)
    assert await outcome(now(replica, batch(7), by(script, 1))) == ErrorCode.REQUEST_TIMED_OUT
    replica.pending_bytes.give_back(MOST_BYTES)
    assert await outcome(now(replica, batch(7, 1), by(script, 1))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await outcome(now(replica, batch(7), by(script, 1))) == 0


@pytest.mark.rule(25)
async def test_no_batch_of_a_transaction_overtakes_one_that_found_too_few_replicas(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, (1, 2), replace(SMALL, min_insync_replicas=2))
    replica, transaction = brokers.replicas[1], by(Script(), 1)
    alone = Partition(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1,))
    brokers.apply(alone)

    def produce(sequence: int) -> Any:
        return append(replica, brokers.leading(1), batch(7, sequence), ACKS_ALL, Slice(60.0), transaction)

    assert await outcome(produce(0)) == ErrorCode.NOT_ENOUGH_REPLICAS
    brokers.apply(replace(alone, isr=(1, 2), partition_epoch=1))
    assert await outcome(produce(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [await outcome(produce(sequence)) for sequence in (0, 1)] == [0, 1]


@pytest.mark.rule(25)
@pytest.mark.story("a-refused-batch-kept-its-producer-out")
@pytest.mark.parametrize("slice_s", [60.0, 0.0], ids=["at once", "in the queue"])
async def test_a_batch_that_is_refused_for_good_keeps_no_later_one_out(tmp_path: Path, slice_s: float) -> None:
    """The batches of a request whose slice is over are queued. The first one's transaction need not be aborted."""
    replica = led_replica(tmp_path)

    async def produce(records: bytes) -> int | ErrorCode:
        try:
            return await outcome(append(replica, replica.led_in(None), records, 1, Slice(slice_s)))
        except OttlaError as error:
            return ErrorCode(error.code)

    assert await produce(batch(7, attributes=CONTROL)) == ErrorCode.INVALID_RECORD
    assert await produce(batch(7, 1, attributes=0)) == 0


@pytest.mark.rule(25)
async def test_nothing_of_a_transaction_is_taken_behind_its_first_batch_that_was_refused_for_good(
    tmp_path: Path,
) -> None:
    """As in Kafka: it can only be aborted."""
    replica, transaction = led_replica(tmp_path), by(Script(), 1)
    refused = batch(7, attributes=TRANSACTIONAL | CONTROL)
    waiting = [now(replica, records, transaction) for records in (refused, batch(7, 1))]
    assert [await outcome(each) for each in waiting] == [ErrorCode.INVALID_RECORD, ErrorCode.NOT_ENOUGH_REPLICAS]
    assert await outcome(now(replica, batch(7, 1), transaction)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    replica.log.producers.first_sequences.forget(7)
    assert await outcome(now(replica, batch(7, 1), transaction)) == 0


@pytest.mark.rule(25)
async def test_a_batch_that_is_wrong_by_itself_keeps_no_later_one_out(tmp_path: Path) -> None:
    """As in Kafka: a producer does not send it again."""
    replica = led_replica(tmp_path)
    too_large = produced(0, producer_id=7, epoch=3, value=b"v" * 900)
    replica.log.config = replace(replica.log.config, max_message_bytes=800)
    with pytest.raises(OttlaError, match=r"max\.message\.bytes"):
        begin(replica, too_large, None)
    assert isinstance(begin(replica, batch(7, 5, attributes=0), None), ReplicaAppend)


@pytest.mark.rule(25, 40)
@pytest.mark.story("late-batch-opened-a-transaction")
async def test_with_transactions_v2_an_unknown_producer_begins_at_0(tmp_path: Path) -> None:
    """Each transaction has an epoch of its own, so a partition needs no memory to tell that a batch is missing."""
    replica, script = led_replica(tmp_path), Script()
    assert await outcome(now(replica, batch(7, 4), by(script, 2))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await outcome(now(replica, batch(8, 4), by(script, 1))) == 0
    assert await outcome(now(replica, batch(7), by(script, 2))) == 1


@pytest.mark.rule(31)
async def test_a_transaction_of_an_older_epoch_is_refused_without_a_question(tmp_path: Path) -> None:
    replica, script = led_replica(tmp_path), Script()
    assert await outcome(now(replica, batch(7, epoch=4), by(script, 2))) == 0
    replica.led_in(None).append_marker(end_of(7, 5))
    assert await outcome(now(replica, batch(7, epoch=4), by(script, 2))) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert script.asked == 1


@pytest.mark.rule(25)
async def test_what_was_expected_under_another_leadership_is_forgotten(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, (1, 2))
    brokers.apply(Partition(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1, 2)))
    replica, script = brokers.replicas[1], Script(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert await outcome(now(replica, batch(7), by(script, 1))) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert len(replica.log.producers.first_sequences) == 1
    brokers.apply(Partition(replicas=(1, 2), leader=2, leader_epoch=2, isr=(1, 2)))
    assert not replica.log.producers.first_sequences


async def test_a_plain_batch_is_not_verified(tmp_path: Path) -> None:
    replica, gate = led_replica(tmp_path), Gate()
    assert isinstance(begin(replica, batch(7, attributes=0), of(gate)), ReplicaAppend)
    assert not gate.asked


async def test_a_transactional_batch_needs_a_transactional_id(tmp_path: Path) -> None:
    replica = led_replica(tmp_path)
    with pytest.raises(OttlaError):
        begin(replica, batch(7), None)
    assert replica.log.log_end_offset == 0


async def test_growth_by_the_topics_codec_counts_while_a_batch_is_verified(tmp_path: Path) -> None:
    replica, gate = led_replica(tmp_path), Gate()
    replica.log.config = LogConfig(compression=Compression(Codec.NONE))
    plain = raw_record(0, fields=varint(-1) + varint(9_000) + bytes(9_000) + varint(0))
    sent = raw_batch(
        compress(Codec.ZSTD, plain), producer_id=7, producer_epoch=3, base_sequence=0, attributes=TRANSACTIONAL | 4
    )
    waiting = begin(replica, sent, of(gate))
    await until(lambda: gate.asked)
    assert replica.pending_bytes.held == HEADER_SIZE + len(plain)
    gate.open()
    assert (await waiting).appended.size_bytes == HEADER_SIZE + len(plain)
    await until(lambda: not replica.pending_bytes.held)
