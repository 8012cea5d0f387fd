"""The raw Kafka client of the world sends what its caller wants sent. Of metadata it keeps only leader epochs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from errno import EBADMSG
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.client.kafka.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    END_TXN,
    FETCH,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT_BY_NAME,
    OFFSET_FETCH_BY_NAME,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT_BY_NAME,
    AnyApi,
    Api,
)
from ottla.client.kafka.frames import FrameReader, request_frame, response_in
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    EndTxnRequest,
    FetchRequest,
    HeartbeatRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from ottla_core.records.batch import TRANSACTIONAL, BatchHeader, Buffer, check_stored, iter_headers
from ottla_core.records.control import marker_of
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder

KAFKA_PORT: Final = 9092
_PROTOCOL: Final = "range"
_CONSUMER_HEARTBEAT: Final = Api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, range(2))
ACKS_ALL: Final = -1
_TOPIC: Final = 2
"""The type of a topic among the resources that have configs."""
_CONNECT_S: Final = 3.0


class Answer(NamedTuple):
    """An answer has the error code of a partition, and an offset."""

    code: int
    offset: int


class Producer(NamedTuple):
    """A producer has its id and epoch from a coordinator or a broker, unless `code` is an error."""

    code: int
    id: int
    epoch: int


class Member(NamedTuple):
    """This identifies a member of a group in one of its generations, or with one of its epochs."""

    id: str
    generation: int
    instance_id: str | None = None


class Joined(NamedTuple):
    """A member has joined, unless `code` is an error. If it leads the group, `members` has the ids of all."""

    code: int
    member: Member
    members: list[str]


class Fetched(NamedTuple):
    code: int
    high_watermark: int
    log_start_offset: int
    records: Buffer
    last_stable_offset: int
    aborted: list[tuple[int, int]]
    """First offsets and producer ids of the aborted transactions in `records`."""
    preferred: int = -1
    """The broker that is to be asked instead, because it is in the client's rack (KIP-392), or -1."""

    def next_offset(self, offset: int) -> int:
        """Return the offset at which a reader goes on. Compaction leaves batches without records, which count, too."""
        return max([offset, *(header.next_offset for _, header in iter_headers(self.records))])


class Connection(asyncio.Protocol):
    """Requests to one broker, which may be answered in any order. `answers` counts those of all connections."""

    answers = 0

    def __init__(self) -> None:
        self._transport: Any = None
        self._waiting: Final[dict[int, asyncio.Future[bytes]]] = {}
        self._ids: Final = itertools.count(1)
        self._reader: Final = FrameReader(lambda length, correlation_id: None)
        self.is_over = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            Connection.answers += 1
            waiting = self._waiting.pop(int.from_bytes(frame[4:8]), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the broker has closed the connection"))
        self._waiting.clear()

    async def ask(self, api: AnyApi, version: int, request: Message, timeout_s: float) -> Any:
        """Return the response. Raises OSError, of which TimeoutError is one."""
        number = next(self._ids)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._transport.writelines(request_frame(api, version, number, "world", request))
        try:
            async with asyncio.timeout(timeout_s):
                return response_in(api, version, await waiting)
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        self._transport.close()


class RawClient:
    def __init__(self) -> None:
        self._connections: Final[dict[str, Connection]] = {}
        self._epochs: Final[dict[tuple[UUID | None, int], int]] = {}
        """These are the highest leader epochs that brokers have named, by topic id and partition."""

    async def _connect(self, host: str) -> Connection:
        connection = self._connections.get(host)
        if connection is None or connection.is_over:
            async with asyncio.timeout(_CONNECT_S):
                _, connection = await asyncio.get_running_loop().create_connection(Connection, host, KAFKA_PORT)
            self._connections[host] = connection
        return connection

    async def ask(self, host: str, api: AnyApi, version: int, request: Message, timeout_s: float = 5.0) -> Any:
        connection = await self._connect(host)
        try:
            return await connection.ask(api, version, request, timeout_s)
        except TimeoutError:
            connection.close()
            raise

    async def create_topic(
        self, host: str, name: str, replicas: int, configs: dict[str, str], partitions: int = 1
    ) -> int:
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replicas,
                    configs=[
                        CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                        for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=5000,
        )
        response = await self.ask(host, CREATE_TOPICS, 7, request)
        return int(response.topics[0].error_code)

    async def delete_topic(self, host: str, topic_id: bytes) -> int:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=5000
        )
        return int((await self.ask(host, DELETE_TOPICS, 6, request)).responses[0].error_code)

    async def leader(self, host: str, topic: str, partition: int = 0) -> int:
        """Return the id of the leader that this broker names, or -1.

        As in Java's client, a leader of an earlier epoch than a broker has named before does not count (KIP-320). It
        may still serve, and has not seen what its successor has acknowledged.
        """
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        found = (await self.ask(host, METADATA, 12, request, 2.0)).topics[0]
        named = next((each for each in found.partitions if each.partition_index == partition), None)
        if named is None:
            return -1
        newest = self._epochs[found.topic_id, partition] = max(
            named.leader_epoch, self._epochs.get((found.topic_id, partition), -1)
        )
        return named.leader_id if named.leader_epoch == newest else -1

    async def produce(
        self,
        host: str,
        topic: str,
        records: bytes,
        acks: int,
        timeout_s: float,
        partition: int = 0,
        transactional_id: str | None = None,
    ) -> Answer:
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=int(timeout_s * 1000),
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=topic, partition_data=[ProduceRequest.PartitionProduceData(index=partition, records=records)]
                )
            ],
        )
        response = await self.ask(host, PRODUCE, 9, request, timeout_s + 1.0)
        produced = response.responses[0].partition_responses[0]
        return Answer(produced.error_code, produced.base_offset)

    async def produce_by_id(self, host: str, topic_id: bytes, records: bytes, acks: int, timeout_s: float) -> Answer:
        """Produce to partition 0 of the topic that has this id, whatever its name is."""
        request = ProduceRequest(
            acks=acks,
            timeout_ms=int(timeout_s * 1000),
            topic_data=[
                ProduceRequest.TopicProduceData(
                    topic_id=topic_id, partition_data=[ProduceRequest.PartitionProduceData(index=0, records=records)]
                )
            ],
        )
        response = await self.ask(host, PRODUCE, 13, request, timeout_s + 1.0)
        produced = response.responses[0].partition_responses[0]
        return Answer(produced.error_code, produced.base_offset)

    async def produce_in_order(
        self,
        host: str,
        topic: str,
        batches: Sequence[bytes],
        timeout_s: float,
        partition: int = 0,
        transactional_id: str | None = None,
    ) -> list[Answer]:
        """Send one request per batch, without a pause between them, and wait for all answers.

        A lost answer counts as NETWORK_EXCEPTION. Raises OSError if there is no connection.
        """
        await self._connect(host)

        async def produce(batch: bytes) -> Answer:
            try:
                return await self.produce(host, topic, batch, ACKS_ALL, timeout_s, partition, transactional_id)
            except OSError:
                return Answer(ErrorCode.NETWORK_EXCEPTION, -1)

        return await asyncio.gather(*map(produce, batches))

    async def fetch(
        self,
        host: str,
        topic: str,
        topic_id: bytes,
        offset: int,
        partition: int = 0,
        *,
        committed: bool = False,
        rack: str = "",
    ) -> Fetched:
        """Fetch from an offset, as a consumer in this rack. With `committed`, fetch as a read_committed consumer does.

        Raises OSError for a damaged batch, too: as in Java's consumer, its CRC does not let it pass.
        """
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(committed),
            rack_id=rack,
            topics=[
                FetchRequest.FetchTopic(
                    topic=topic,
                    topic_id=topic_id,
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                    ],
                )
            ],
        )
        response = await self.ask(host, FETCH, 13, request)
        found = response.responses[0].partitions[0]
        _check_crcs(found.records or b"")
        return Fetched(
            found.error_code,
            found.high_watermark,
            found.log_start_offset,
            found.records or b"",
            found.last_stable_offset,
            [(each.first_offset, each.producer_id) for each in found.aborted_transactions or ()],
            found.preferred_read_replica,
        )

    async def find_time(self, host: str, topic: str, timestamp_ms: int) -> Answer:
        """Look up the first record of partition 0 that is not older. The offset is -1 if there is none."""
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms)],
                )
            ],
        )
        found = (await self.ask(host, LIST_OFFSETS, 7, request)).topics[0].partitions[0]
        return Answer(found.error_code, found.offset)

    async def alter_configs(self, host: str, topic: str, configs: Mapping[str, str]) -> int:
        request = IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    resource_type=_TOPIC,
                    resource_name=topic,
                    configs=[
                        IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=0, value=value)
                        for name, value in configs.items()
                    ],
                )
            ]
        )
        return int((await self.ask(host, INCREMENTAL_ALTER_CONFIGS, 1, request)).responses[0].error_code)

    async def delete_records(self, host: str, topic: str, offset: int, partition: int = 0) -> Answer:
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequest.DeleteRecordsTopic(
                    name=topic,
                    partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=partition, offset=offset)],
                )
            ],
            timeout_ms=3000,
        )
        response = await self.ask(host, DELETE_RECORDS, 2, request)
        deleted = response.topics[0].partitions[0]
        return Answer(deleted.error_code, deleted.low_watermark)

    async def init_producer(self, host: str, transactional_id: str | None, timeout_ms: int = 60_000) -> Producer:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        response = await self.ask(host, INIT_PRODUCER_ID, 4, request)
        return Producer(response.error_code, response.producer_id, response.producer_epoch)

    async def add_partition(
        self, host: str, transactional_id: str, producer: Producer, topic: str, partition: int
    ) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        response = await self.ask(host, ADD_PARTITIONS_TO_TXN, 3, request)
        return int(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    async def end_transaction(self, host: str, transactional_id: str, producer: Producer, *, commit: bool) -> int:
        request = EndTxnRequest(**_of(transactional_id, producer), committed=commit)
        return int((await self.ask(host, END_TXN, 3, request)).error_code)

    async def add_offsets(self, host: str, transactional_id: str, producer: Producer, group: str) -> int:
        request = AddOffsetsToTxnRequest(**_of(transactional_id, producer), group_id=group)
        return int((await self.ask(host, ADD_OFFSETS_TO_TXN, 3, request)).error_code)

    async def commit_in_transaction(
        self, host: str, transactional_id: str, producer: Producer, group: str, topic: str, offset: int
    ) -> int:
        """Commit an offset of partition 0 for a group without members."""
        request = TxnOffsetCommitRequest(
            **_of(transactional_id, producer),
            group_id=group,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset
                        )
                    ],
                )
            ],
        )
        response = await self.ask(host, TXN_OFFSET_COMMIT_BY_NAME, 3, request)
        return int(response.topics[0].partitions[0].error_code)

    async def committed(self, host: str, group: str, topic: str, partition: int = 0) -> Answer:
        """Return the committed offset of a partition, unless a transaction that would change it is open."""
        request = OffsetFetchRequest(
            group_id=group,
            topics=[OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])],
            require_stable=True,
        )
        response = await self.ask(host, OFFSET_FETCH_BY_NAME, 7, request)
        if response.error_code or not response.topics:
            return Answer(response.error_code, -1)
        found = response.topics[0].partitions[0]
        return Answer(found.error_code, found.committed_offset)

    async def join_group(
        self,
        host: str,
        group: str,
        member_id: str,
        session_ms: int,
        rebalance_ms: int,
        metadata: bytes = b"",
        instance_id: str | None = None,
    ) -> Joined:
        """Join as a member with this id, or as a new one. Only the leader gets the ids of all members."""
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=metadata)],
        )
        response = await self.ask(host, JOIN_GROUP, 7, request, session_ms / 1000 + 2.0)
        members = [each.member_id for each in response.members]
        member = Member(response.member_id, response.generation_id, instance_id)
        return Joined(response.error_code, member, members)

    async def sync_group(
        self, host: str, group: str, member: Member, assignments: Mapping[str, bytes]
    ) -> tuple[int, bytes]:
        """Return an error code and the member's assignment. The leader sends the assignments of all members."""
        request = SyncGroupRequest(
            **_in_group(group, member),
            protocol_type="consumer",
            protocol_name=_PROTOCOL,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=id_, assignment=each)
                for id_, each in assignments.items()
            ],
        )
        response = await self.ask(host, SYNC_GROUP, 5, request)
        return response.error_code, response.assignment

    async def heartbeat(self, host: str, group: str, member: Member, timeout_s: float = 5.0) -> int:
        request = HeartbeatRequest(**_in_group(group, member))
        return int((await self.ask(host, HEARTBEAT, 4, request, timeout_s)).error_code)

    async def consumer_heartbeat(
        self, host: str, request: ConsumerGroupHeartbeatRequest, timeout_s: float
    ) -> ConsumerGroupHeartbeatResponse:
        response = await self.ask(host, _CONSUMER_HEARTBEAT, 1, request, timeout_s)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    async def leave_group(self, host: str, group: str, member_id: str) -> int:
        request = LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.MemberIdentity(member_id=member_id)])
        return int((await self.ask(host, LEAVE_GROUP, 4, request)).error_code)

    async def commit(
        self,
        host: str,
        group: str,
        member: Member,
        topic: str,
        offsets: Mapping[int, int],
        timeout_s: float = 5.0,
    ) -> int:
        """Commit an offset of each of these partitions. They are all accepted or all refused."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.id,
            group_instance_id=member.instance_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset
                        )
                        for partition, offset in offsets.items()
                    ],
                )
            ],
        )
        response = await self.ask(host, OFFSET_COMMIT_BY_NAME, 9, request, timeout_s)
        return int(response.topics[0].partitions[0].error_code)


def _check_crcs(records: Buffer) -> None:
    try:
        for at, _ in iter_headers(records):
            check_stored(records, at)
    except OttlaError as error:
        raise OSError(EBADMSG, str(error)) from None


def _of(transactional_id: str, producer: Producer) -> dict[str, Any]:
    """Return the fields by which requests name a transaction."""
    return {
        "transactional_id": transactional_id,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
    }


def _in_group(group: str, member: Member) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": member.generation,
        "member_id": member.id,
        "group_instance_id": member.instance_id,
    }


def batch_of(
    key: bytes,
    value: bytes,
    timestamp_ms: int,
    producer: Producer | None = None,
    sequence: int = -1,
    *,
    transactional: bool = False,
) -> bytes:
    builder = new_builder(1 << 20)
    assert builder.append(timestamp_ms, key, value)
    if producer is None:
        return builder.seal()
    return builder.seal(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL if transactional else 0,
    )


def batches_in(data: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Iterate over the batches with their headers."""
    for at, header in iter_headers(data):
        yield header, memoryview(data)[at : at + header.size_bytes]


def records_of(data: Buffer) -> list[tuple[int, bytes, bytes | None]]:
    """Return the records of batches as (offset, key, value)."""
    return [
        (offset, bytes(key or b""), None if value is None else bytes(value))
        for _, batch in batches_in(data)
        for offset, _, key, value, *_ in read_records(batch)
    ]


def without_aborted(fetched: Fetched) -> Iterator[memoryview]:
    """Iterate over the batches of records, without aborted transactions, as a read_committed consumer does."""
    to_come, aborted = sorted(fetched.aborted, reverse=True), set[int]()
    for header, batch in batches_in(fetched.records):
        while to_come and to_come[-1][0] <= header.last_offset:
            aborted.add(to_come.pop()[1])
        if header.is_control:
            marker = marker_of(batch)
            if marker is not None and not marker.committed:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            yield batch
