"""Brokers without sockets, beneath the clients' connections: they keep logs in memory and do what a test scripts.

    from ottla.client.kafka.apis import PRODUCE

    cluster = ScriptedCluster({"t": 3})
    cluster.will(PRODUCE, Reject(ErrorCode.NOT_LEADER_OR_FOLLOWER), Break())
    producer = Producer("b0:1", topic="t", _transport=cluster.connect)

Steps are taken one by one by the requests of their API, whichever broker gets them; without a step a request succeeds.
`cluster.seen` holds every request in the order of arrival. The private calls of ottla (docs/adr/0028) are scripted and
noted as the messages of their contract.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from threading import Condition
from time import monotonic
from typing import Any, Final

from ottla.client.kafka.apis import AnyApi
from ottla.fakes.scripted_group import ScriptedGroups
from ottla.fakes.scripted_line import Break, Hang, Hold, Reject, ScriptedTransport, Step
from ottla.fakes.scripted_log import ScriptedLog
from ottla.fakes.scripted_parts import epoch_ends, listed_offsets, produced
from ottla.fakes.scripted_private import is_served, respond_privately, stated
from ottla.fakes.scripted_rejections import rejection
from ottla.fakes.scripted_session import Key, ScriptedSessions, has_something
from ottla.fakes.scripted_txn import ScriptedTransactions
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.host_port import HostPort
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
)
from ottla_core.kafka.private_messages import OttlaCallRequest
from ottla_core.model import LATEST_TIMESTAMP, TopicId, TopicPartition
from ottla_core.records.batch import read_header
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2
from ottla_proto.contracts import Method

__all__ = ["Break", "Hang", "Hold", "Reject", "ScriptedCluster"]

_NO_ID: Final = bytes(16)
_READ_COMMITTED: Final = 1


class ScriptedCluster:
    """Brokers b0:1, b1:1, … with `topics` (name → partitions), led in turn."""

    def __init__(self, topics: Mapping[str, int] | None = None, *, brokers: int = 1) -> None:
        self.changed = Condition()
        self.seen: list[tuple[str, Any]] = []
        self.logs: dict[TopicPartition, ScriptedLog] = {}
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        self.addresses = [f"b{n}:1" for n in range(brokers)]
        self._ids: dict[str, TopicId] = {}
        self._steps: dict[str, deque[Step | None]] = {}
        self.released = 0
        self.racks: dict[int, str] = {}
        self.stopped: set[str] = set()
        self.coordinator = 0  # the broker at whose address the groups' coordinator answers
        self.versions: dict[str, int] = {}
        """The highest version that the brokers serve, by the name of the API. They serve the others as far as the
        client knows them."""
        self.groups = ScriptedGroups(self.changed, self._ids)
        self.sessions = ScriptedSessions()
        self._producer_ids = itertools.count(1000)
        self.transactions = ScriptedTransactions(self.groups, self._producer_ids)
        self._topic_ids = itertools.count(1)
        for name, count in (topics or {}).items():
            self.add_topic(name, count)

    def add_topic(self, name: str, count: int) -> None:
        """Create a topic, or add partitions to it."""
        with self.changed:
            if name not in self._ids:
                self._ids[name] = TopicId(next(self._topic_ids).to_bytes(16, "big"))
            for number in range(count):
                partition = TopicPartition(name, number)
                self.logs.setdefault(partition, ScriptedLog())
                self.leaders.setdefault(partition, (number % len(self.addresses), 0))

    def topic_id(self, name: str) -> TopicId:
        """The id of the topic that has this name now."""
        with self.changed:
            return self._ids[name]

    def drop_topic(self, name: str) -> None:
        """Delete a topic; one that is added under its name later is another."""
        with self.changed:
            del self._ids[name]
            for partition in [partition for partition in self.logs if partition.topic == name]:
                del self.logs[partition], self.leaders[partition]

    def will(self, api: AnyApi | Method[Any, Any], *steps: Step | None) -> None:
        """Script the results of the next requests of an API, or of a private call; None is a success."""
        with self.changed:
            self._steps.setdefault(_name_of(api), deque()).extend(steps)

    def forget(self, api: AnyApi | Method[Any, Any]) -> None:
        """Drop the steps that were not taken."""
        with self.changed:
            self._steps.pop(_name_of(api), None)

    def release(self) -> None:
        """Answer what is on hold."""
        with self.changed:
            self.released += 1
            self.changed.notify_all()

    def until(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """Wait until `condition`, looked at after each request. AssertionError after `timeout` seconds."""
        with self.changed:
            assert self.changed.wait_for(condition, timeout), f"not within {timeout} s"

    def requests(self, kind: type[Any]) -> list[Any]:
        """The requests of one type so far, in order of arrival."""
        with self.changed:
            return [request for _, request in self.seen if isinstance(request, kind)]

    def records(self, topic: str, partition: int) -> list[RawRecord]:
        """What is in a partition's log, in order."""
        with self.changed:
            batches = list(self.logs[TopicPartition(topic, partition)].batches)
        return [record for batch in batches for record in read_records(batch.records)]

    def values(self, topic: str, partition: int) -> list[bytes | None]:
        """The values in a partition's log, in order."""
        return [value for _, _, _, value, _ in self.records(topic, partition)]

    def move_leader(self, topic: str, partition: int, *, broker: int, epoch: int) -> None:
        """Give a partition another leader."""
        with self.changed:
            self.leaders[TopicPartition(topic, partition)] = (broker, epoch)

    def truncate(self, topic: str, partition: int, *, before: int) -> None:
        """Drop the batches that end at or below an offset, as retention does."""
        with self.changed:
            self.logs[TopicPartition(topic, partition)].drop_before(before)

    def lose(self, topic: str, partition: int, *, after: int) -> None:
        """Drop the batches that begin at or after an offset: the next leader does not have them."""
        with self.changed:
            self.logs[TopicPartition(topic, partition)].drop_after(after)

    def stop(self, broker: int) -> None:
        """Make a broker hang, as SIGSTOP does: its connections stay open, and it answers nothing."""
        with self.changed:
            self.stopped.add(self.addresses[broker])

    def go_on(self, broker: int) -> None:
        """Let a hanging broker continue, with everything that it was sent."""
        with self.changed:
            self.stopped.discard(self.addresses[broker])
            self.changed.notify_all()

    @property
    def connect(self) -> ScriptedTransport:
        """The transport of one client."""
        return ScriptedTransport(self)

    # ---- what brokers do ---------------------------------------------------------------------------------------

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized features of the cluster."""
        return {"transaction.version": self.transactions.version}

    def version(self, api: AnyApi) -> int:
        """The highest version of an API that the brokers serve, -1 if they do not serve it."""
        served = (*_OF_BROKERS, *self.transactions.served, *self.groups.served)
        return self.versions.get(api.name, api.versions[-1]) if issubclass(api.request, served) else -1

    def take_step(self, address: str, api: AnyApi, request: Message) -> Step | None:
        """Note a request, and return its step."""
        with self.changed:
            self.seen.append((address, stated(request)))
            self.changed.notify_all()
            steps = self._steps.get(api.name)
            return steps.popleft() if steps else None

    def respond(
        self, address: str, api: AnyApi, version: int, request: Message, is_over: Callable[[], bool]
    ) -> Message:
        """The response of a broker that works. A wait for records ends early once `is_over()`."""
        transaction_version = TRANSACTIONS_V2 if version >= api.transactions_v2_from else TRANSACTIONS_V1
        with self.changed:
            try:
                match request:
                    case ProduceRequest():
                        response: Message = self._produce(address, request, transaction_version)
                    case FetchRequest():
                        response = self._fetch(address, request, is_over)
                    case ListOffsetsRequest():
                        response = self._offsets(address, request)
                    case MetadataRequest():
                        response = self._metadata(request)
                    case InitProducerIdRequest(transactional_id=None):
                        response = InitProducerIdResponse(producer_id=next(self._producer_ids))
                    case OffsetForLeaderEpochRequest():
                        response = self._epoch_ends(address, request)
                    case FindCoordinatorRequest():
                        response = self._coordinators(request)
                    case OttlaCallRequest():
                        response = respond_privately(request, self.transactions)
                    case _ if isinstance(request, self.transactions.served):
                        response = self.transactions.respond(request, transaction_version)
                    case _:
                        response = self.groups.respond(request)
            except OttlaError as error:
                response = rejection(api, request, error.code, error.message)
            self.changed.notify_all()
            return response

    def rejection(self, address: str, api: AnyApi, request: Message, step: Reject) -> Message:
        """The response that rejects a request, or each of its partitions."""
        if isinstance(request, FetchRequest):
            with self.changed:
                session = self.sessions.of(address, request)
                rejected = {key: FetchResponse.PartitionData(error_code=step.code) for key in session.requested}
                response: Message = _fetched(rejected, session.id)
        else:
            response = rejection(api, request, step.code, step.message)
        if step.leader is not None:
            self._name_leader(response, *step.leader)
        return response

    def _name_leader(self, response: Any, broker: int, epoch: int) -> None:
        """Add the new leader to each partition of a response to Produce or Fetch (KIP-951)."""
        host, port = HostPort.parse(self.addresses[broker])
        response.node_endpoints = [type(response).NodeEndpoint(node_id=broker, host=host, port=port)]
        leader = type(response).LeaderIdAndEpoch(leader_id=broker, leader_epoch=epoch)
        for topic in response.responses:
            for part in topic.partitions if isinstance(response, FetchResponse) else topic.partition_responses:
                part.current_leader = leader

    def _named(self, topic_id: bytes, name: str, number: int) -> TopicPartition | None:
        """Return the partition that a request names by its topic's id or name, or None if it does not exist."""
        names = {found: name for name, found in self._ids.items()}
        of_id = name if topic_id == _NO_ID else names.get(TopicId(topic_id))
        partition = None if of_id is None else TopicPartition(of_id, number)
        return partition if partition in self.logs else None

    def _led(self, address: str, topic_id: bytes, name: str, number: int, current_epoch: int = -1) -> TopicPartition:
        """Return the partition that a request names, if the broker leads it. Raises Kafka's errors."""
        partition = self._named(topic_id, name, number)
        if partition is None:
            is_by_id = topic_id != _NO_ID
            code = ErrorCode.UNKNOWN_TOPIC_ID if is_by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise OttlaError(code, "no such partition")
        leader, epoch = self.leaders[partition]
        if self.addresses[leader] != address:
            raise OttlaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not the leader")
        if 0 <= current_epoch < epoch:
            raise OttlaError(ErrorCode.FENCED_LEADER_EPOCH, "an old epoch")
        return partition

    def _produce(self, address: str, request: ProduceRequest, transaction_version: int) -> ProduceResponse:
        return produced(request, lambda topic, part: self._append(address, topic, part, request, transaction_version))

    def _append(
        self,
        address: str,
        topic: ProduceRequest.TopicProduceData,
        part: ProduceRequest.PartitionProduceData,
        request: ProduceRequest,
        transaction_version: int,
    ) -> ProduceResponse.PartitionProduceResponse:
        response = ProduceResponse.PartitionProduceResponse(index=part.index, base_offset=-1)
        records = bytes(part.records or b"")
        try:
            partition = self._led(address, topic.topic_id, topic.name, part.index)
            header = read_header(records)
            if header.is_transactional:
                producer = header.producer_id, header.producer_epoch
                name = request.transactional_id or ""
                self.transactions.add(name, producer, transaction_version, partition, self.logs[partition])
            response.base_offset = self.logs[partition].append(records, self.leaders[partition][1])
        except OttlaError as error:
            response.error_code, response.error_message = error.code, error.message
        return response

    def _fetch(self, address: str, request: FetchRequest, is_over: Callable[[], bool]) -> FetchResponse:
        """Wait for records, as long as the client allows."""
        session = self.sessions.of(address, request)
        until = monotonic() + request.max_wait_ms / 1000
        while True:
            found = {key: self._read(address, key, part, request) for key, part in session.requested.items()}
            left = until - monotonic()
            is_ripe = any(map(has_something, found.values())) and address not in self.stopped
            if is_ripe or left <= 0 or is_over() or not session.requested:
                news = {key: data for key, data in found.items() if session.news(key, data)}
                return _fetched(news, session.id)
            self.changed.wait(left)

    def _read(
        self, address: str, key: Key, part: FetchRequest.FetchPartition, request: FetchRequest
    ) -> FetchResponse.PartitionData:
        topic_id, name, number = key
        near = [broker for broker, rack in self.racks.items() if rack == request.rack_id]
        nearest = self.addresses[near[0]] if near else None
        response = FetchResponse.PartitionData(partition_index=number)
        try:
            partition = self._named(topic_id, name, number)
            if partition is None or address != nearest:
                partition = self._led(address, topic_id, name, number, part.current_leader_epoch)
            log = self.logs[partition]
            response.high_watermark, response.log_start_offset = log.end, log.start
            response.last_stable_offset = log.last_stable_offset
            if not log.start <= part.fetch_offset <= log.end:
                response.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                return response
            if nearest is not None and address != nearest:
                response.preferred_read_replica = near[0]
                return response
            is_committed = request.isolation_level == _READ_COMMITTED
            end = log.last_stable_offset if is_committed else log.end
            response.records = log.read(part.fetch_offset, part.partition_max_bytes, end)
            response.aborted_transactions = [
                FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=first)
                for producer_id, first, marker in log.aborted
                if is_committed and marker >= part.fetch_offset
            ]
        except OttlaError as error:
            response.error_code = error.code
        return response

    def _epoch_ends(self, address: str, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        def end(
            name: str, part: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
        ) -> OffsetForLeaderEpochResponse.EpochEndOffset:
            response = OffsetForLeaderEpochResponse.EpochEndOffset(partition=part.partition)
            try:
                partition = self._led(address, _NO_ID, name, part.partition, part.current_leader_epoch)
                current = self.leaders[partition][1]
                response.leader_epoch, response.end_offset = self.logs[partition].epoch_end(part.leader_epoch, current)
            except OttlaError as error:
                response.error_code = error.code
            return response

        return epoch_ends(request, end)

    def _offsets(self, address: str, request: ListOffsetsRequest) -> ListOffsetsResponse:
        def found(
            name: str, part: ListOffsetsRequest.ListOffsetsPartition
        ) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
            response = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=part.partition_index)
            try:
                log = self.logs[self._led(address, _NO_ID, name, part.partition_index, part.current_leader_epoch)]
                is_stable = request.isolation_level == _READ_COMMITTED and part.timestamp == LATEST_TIMESTAMP
                response.offset = log.last_stable_offset if is_stable else log.offset_for(part.timestamp)
            except OttlaError as error:
                response.error_code = error.code
            return response

        return listed_offsets(request, found)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        brokers = [
            MetadataResponse.MetadataResponseBroker(
                node_id=number, host=place.host, port=place.port, rack=self.racks.get(number)
            )
            for number, place in enumerate(map(HostPort.parse, self.addresses))
        ]
        names: Iterable[str] = self._ids if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(cluster_id="scripted", brokers=brokers, topics=list(map(self._topic, names)))

    def _topic(self, name: str) -> MetadataResponse.MetadataResponseTopic:
        if name not in self._ids:
            return MetadataResponse.MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=partition.partition, leader_id=leader, leader_epoch=epoch
            )
            for partition, (leader, epoch) in sorted(self.leaders.items())
            if partition.topic == name
        ]
        return MetadataResponse.MetadataResponseTopic(name=name, topic_id=self._ids[name], partitions=partitions)

    def _coordinators(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """`coordinator` coordinates every group and every transactional id."""
        host, port = HostPort.parse(self.addresses[self.coordinator])
        if not request.coordinator_keys:  # before version 4
            return FindCoordinatorResponse(node_id=self.coordinator, host=host, port=port)
        found = FindCoordinatorResponse.Coordinator
        return FindCoordinatorResponse(
            coordinators=[
                found(key=key, node_id=self.coordinator, host=host, port=port) for key in request.coordinator_keys
            ]
        )


_OF_BROKERS: Final = (
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    InitProducerIdRequest,
    OffsetForLeaderEpochRequest,
    FindCoordinatorRequest,
    OttlaCallRequest,
)


def _name_of(api: AnyApi | Method[Any, Any]) -> str:
    """Return the name by which steps are kept: that of an API, or of a private call. Raises ValueError for a method
    that clients do not call privately."""
    if not isinstance(api, Method):
        return api.name
    if not is_served(api):
        raise ValueError(f"{api.service}.{api.name} is no private call: script the API of Kafka that carries it")
    return f"{api.service}.{api.name}"


def _fetched(data: Mapping[Key, FetchResponse.PartitionData], session_id: int) -> FetchResponse:
    topics: dict[tuple[bytes, str], list[FetchResponse.PartitionData]] = {}
    for (topic_id, name, number), part in data.items():
        part.partition_index = number
        topics.setdefault((topic_id, name), []).append(part)
    of_topic = FetchResponse.FetchableTopicResponse
    return FetchResponse(
        session_id=session_id,
        responses=[of_topic(topic_id=key[0], topic=key[1], partitions=parts) for key, parts in topics.items()],
    )
