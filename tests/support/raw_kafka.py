"""A raw producer and consumer of Kafka's protocol: every sequence, epoch and offset is the caller's choice.

It has one connection to a cluster of one broker, ottla's or Apache Kafka's. The outcome of a request is a plain tuple,
so that tables can hold it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.fuzz.kafka_wire import KafkaWire
from waiting import LIMIT_S, wait_until

from ottla_core.errors import ErrorCode
from ottla_core.records.batch import TRANSACTIONAL, iter_headers
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder

NO_OFFSET: Final = -1
V1, V2 = 11, 12
"""The versions of Produce by which a broker recognizes the versions of transactions."""
_SOON: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class Produced(NamedTuple):
    code: ErrorCode
    base_offset: int = NO_OFFSET


class Fetched(NamedTuple):
    """What one partition gave: `values` leave markers out, `aborted` has the first offsets of this producer's aborted
    transactions."""

    code: ErrorCode
    values: tuple[bytes, ...] = ()
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    aborted: tuple[int, ...] = ()


class Raw:
    """A producer with the id and epoch that it was given last, a consumer, and a topic with one partition."""

    def __init__(self, bootstrap: str) -> None:
        self.wire: Final = KafkaWire(bootstrap)
        self.topic: Final = f"raw-{uuid.uuid4().hex[:12]}"
        self.transactional_id: Final = f"id-{self.topic}"
        self.producer_id = -1
        self.epoch = -1
        self._create_topic()

    def close(self) -> None:
        self.wire.socket.close()

    # ---- who produces --------------------------------------------------------------------------------------------

    def init(self, *, transactional: bool = False) -> ErrorCode:
        """Get a producer id, and the next epoch of a transactional one.

        Apache Kafka creates the topic of its transactions when a client looks for a coordinator, not before.
        """
        if transactional:
            asked = FindCoordinatorRequest(key=self.transactional_id, key_type=1)
            self._until_settled(lambda: self.wire.ask(asked, 3, FindCoordinatorResponse))
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id if transactional else None,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        answer = self._until_settled(lambda: self.wire.ask(request, 4, InitProducerIdResponse))
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def add_partition(self) -> ErrorCode:
        """Add the partition to the transaction, as clients before transactions v2 do."""
        added = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=self.topic, partitions=[0])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[added],
        )
        results = "results_by_topic_v3_and_below"

        def ask() -> Any:
            answer = self.wire.ask(request, 3, AddPartitionsToTxnResponse)
            [topic] = getattr(answer, results)
            [partition] = topic.results_by_partition
            return _Coded(partition.partition_error_code)

        return ErrorCode(self._until_settled(ask).error_code)

    def end(self, *, commit: bool = True, version: int = 5) -> ErrorCode:
        """End the transaction and, with version 5, take the epoch that comes after it."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = self._until_settled(lambda: self.wire.ask(request, version, EndTxnResponse))
        if version >= 5 and answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    # ---- batches and markers -------------------------------------------------------------------------------------

    def batch(
        self, sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = False, value: bytes = b"v"
    ) -> bytes:
        """A batch of `count` records; `epoch` is added to the producer's own."""
        builder = new_builder(1 << 20)
        for _ in range(count):
            assert builder.append(int(time.time() * 1000), None, value)
        return builder.seal(
            producer_id=self.producer_id,
            producer_epoch=self.epoch + epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL if transactional else 0,
        )

    def produce(self, *batches: bytes, transactional: bool = False, version: int = V2) -> Produced:
        self.send(*batches, transactional=transactional, version=version)
        return self.produced(version)

    def send(self, *batches: bytes, transactional: bool = False, version: int = V2) -> None:
        data = ProduceRequest.TopicProduceData
        part = data.PartitionProduceData(index=0, records=b"".join(batches))
        request = ProduceRequest(
            transactional_id=self.transactional_id if transactional else None,
            acks=-1,
            timeout_ms=20_000,
            topic_data=[data(name=self.topic, partition_data=[part])],
        )
        self.wire.send(request, version)

    def produced(self, version: int = V2) -> Produced:
        """Return the answer to the oldest `send` that has none yet."""
        [topic] = self.wire.answer(version, ProduceResponse)[1].responses
        [part] = topic.partition_responses
        return Produced(ErrorCode(part.error_code), part.base_offset)

    def mark(self, *, epoch: int = 0, coordinator_epoch: int = 0, commit: bool = True) -> ErrorCode:
        """Write a marker into the partition, as a txn-coordinator does; `epoch` is added to the producer's own."""
        marker = WriteTxnMarkersRequest.WritableTxnMarker
        request = WriteTxnMarkersRequest(
            markers=[
                marker(
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch + epoch,
                    transaction_result=commit,
                    topics=[marker.WritableTxnMarkerTopic(name=self.topic, partition_indexes=[0])],
                    coordinator_epoch=coordinator_epoch,
                )
            ]
        )
        [result] = self.wire.ask(request, 1, WriteTxnMarkersResponse).markers
        return ErrorCode(result.topics[0].partitions[0].error_code)

    # ---- reading -------------------------------------------------------------------------------------------------

    def fetch(
        self, offset: int = 0, *, committed: bool = False, leader_epoch: int = -1, max_bytes: int = 1 << 20
    ) -> Fetched:
        asked = FetchRequest.FetchTopic
        part = asked.FetchPartition(
            partition=0,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=max_bytes,
        )
        request = FetchRequest(
            version=12,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(committed),
            session_id=0,
            session_epoch=-1,
            topics=[asked(topic=self.topic, partitions=[part])],
            forgotten_topics_data=[],
            rack_id="",
        )
        [topic] = self.wire.ask(request, 12, FetchResponse).responses
        [found] = topic.partitions
        aborted = tuple(each.first_offset for each in found.aborted_transactions or () if self._is_ours(each))
        return Fetched(
            ErrorCode(found.error_code),
            _values(found.records or b""),
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            aborted,
        )

    def _is_ours(self, aborted: Any) -> bool:
        return bool(aborted.producer_id == self.producer_id)

    def end_offset(self, *, committed: bool = False, leader_epoch: int = -1) -> tuple[ErrorCode, int]:
        """Return the end offset of all records, or of the `committed` ones."""
        return self._offset(-1, committed=committed, leader_epoch=leader_epoch)

    def _offset(self, timestamp: int, *, committed: bool, leader_epoch: int) -> tuple[ErrorCode, int]:
        asked = ListOffsetsRequest.ListOffsetsTopic
        part = asked.ListOffsetsPartition(partition_index=0, current_leader_epoch=leader_epoch, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[asked(name=self.topic, partitions=[part])],
            timeout_ms=20_000,
        )
        [topic] = self.wire.ask(request, 6, ListOffsetsResponse).topics
        [found] = topic.partitions
        return ErrorCode(found.error_code), found.offset

    def delete_records(self, offset: int) -> ErrorCode:
        topic = DeleteRecordsRequest.DeleteRecordsTopic
        part = topic.DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(topics=[topic(name=self.topic, partitions=[part])], timeout_ms=20_000)
        [found] = self.wire.ask(request, 2, DeleteRecordsResponse).topics
        return ErrorCode(found.partitions[0].error_code)

    def settle(self) -> None:
        """Wait until no transaction is open in the partition: its marker comes soon after its end."""
        wait_until(lambda: self.end_offset(committed=True) == self.end_offset())

    # ---- getting ready -------------------------------------------------------------------------------------------

    def _create_topic(self) -> None:
        topic = CreateTopicsRequest.CreatableTopic(
            name=self.topic, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000, validate_only=False)
        [created] = self.wire.ask(request, 5, CreateTopicsResponse).topics
        assert created.error_code == 0, ErrorCode(created.error_code)
        self._until_settled(lambda: _Coded(self.end_offset()[0]))

    def _until_settled(self, ask: Callable[[], Any]) -> Any:
        """Return the first answer that asks for no retry, or the last one when the time is over."""
        give_up_at = time.monotonic() + LIMIT_S
        while True:
            answer = ask()
            if answer.error_code not in _SOON or time.monotonic() > give_up_at:
                return answer
            time.sleep(0.02)


class _Coded(NamedTuple):
    error_code: int


def _values(records: bytes) -> tuple[bytes, ...]:
    return tuple(
        record[3] or b""
        for at, header in iter_headers(records)
        if not header.is_control
        for record in read_records(records[at : at + header.size_bytes])
    )
