"""Brokers without sockets, behind the interface of a transport: they keep logs in memory and do what a test scripts.

    cluster = ScriptedCluster({"t": 3})
    cluster.will(Client.PRODUCE, Reject(ErrorCode.NOT_LEADER_OR_FOLLOWER), Break())
    producer = Producer("b0:1", topic="t", _transport=cluster.connect)

Steps are taken one by one by the calls and frames of their method, whichever broker gets them; without a step a call
succeeds. `cluster.seen` holds every request in the order of arrival. Responses come on another thread.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from threading import Condition
from typing import Any

from google.protobuf.message import Message

from ottla.client.kafka.apis import Api
from ottla.fakes.scripted_group import ScriptedGroups
from ottla.fakes.scripted_log import ScriptedLog
from ottla.fakes.scripted_streams import Break, Hang, Hold, Reject, ScriptedConnection, Step
from ottla.fakes.scripted_txn import ScriptedTransactions
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.host_port import HostPort
from ottla_core.kafka.message import Message as KafkaMessage
from ottla_core.kafka.messages import FindCoordinatorRequest, FindCoordinatorResponse
from ottla_core.model import LATEST_TIMESTAMP, TopicId, TopicPartition
from ottla_core.records.batch import read_header
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord
from ottla_proto import broker_pb2 as pb
from ottla_proto import client_pb2, txn_pb2
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Method

__all__ = ["Break", "Hang", "Hold", "Reject", "ScriptedCluster"]


class ScriptedCluster:
    """Brokers b0:1, b1:1, … with `topics` (name → partitions), led in turn. `connect` is their transport."""

    def __init__(self, topics: Mapping[str, int] | None = None, *, brokers: int = 1) -> None:
        self.changed = Condition()
        self.seen: list[tuple[str, Message]] = []
        self.logs: dict[TopicPartition, ScriptedLog] = {}
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        self.addresses = [f"b{n}:1" for n in range(brokers)]
        self._ids: dict[str, TopicId] = {}
        self._steps: dict[str, deque[Step | None]] = {}
        self.released = 0
        self.racks: dict[int, str] = {}
        self.stopped: set[str] = set()
        self.coordinator = 0  # the broker at whose address the groups' coordinator answers
        self.groups = ScriptedGroups(self.changed, self._ids)
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

    def will(self, method: Method[Any, Any], *steps: Step | None) -> None:
        """Script the results of the next calls or frames of `method`; None is a success."""
        with self.changed:
            self._steps.setdefault(method.name, deque()).extend(steps)

    def forget(self, method: Method[Any, Any]) -> None:
        """Drop the steps of `method` that were not taken."""
        with self.changed:
            self._steps.pop(method.name, None)

    def release(self) -> None:
        """Answer what is on hold."""
        with self.changed:
            self.released += 1
            self.changed.notify_all()

    def until(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """Wait until `condition`, looked at after each request. AssertionError after `timeout` seconds."""
        with self.changed:
            assert self.changed.wait_for(condition, timeout), f"not within {timeout} s"

    def requests(self, kind: type[Message]) -> list[Any]:
        """The requests of one type so far, in order of arrival."""
        with self.changed:
            return [body for _, body in self.seen if isinstance(body, kind)]

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

    def connect(self, address: str) -> ScriptedConnection:
        """The transport."""
        return ScriptedConnection(self, address)

    # ---- what brokers do ---------------------------------------------------------------------------------------

    def take_step(self, address: str, method: Method[Any, Any], body: Message) -> Step | None:
        """Note a request, and return its step."""
        with self.changed:
            self.seen.append((address, body))
            self.changed.notify_all()
            steps = self._steps.get(method.name)
            return steps.popleft() if steps else None

    def respond(self, address: str, body: Message) -> Any:
        """The response of a broker that works."""
        with self.changed:
            match body:
                case client_pb2.ProduceRequest():
                    response = client_pb2.ProduceResponse(
                        partitions=[self._append(address, p, body) for p in body.partitions]
                    )
                    self.changed.notify_all()
                    return response
                case pb.FetchRequest():
                    return pb.FetchResponse(partitions=[self._read(address, p, body) for p in body.partitions])
                case pb.ListOffsetsRequest():
                    return pb.ListOffsetsResponse(
                        partitions=[self._offset(p, body.read_committed) for p in body.partitions]
                    )
                case client_pb2.MetadataRequest():
                    return self._metadata(body)
                case client_pb2.InitProducerIdRequest():
                    return client_pb2.InitProducerIdResponse(producer_id=next(self._producer_ids))
                case client_pb2.OffsetsForLeaderEpochRequest():
                    ends = [self._epoch_end(address, p) for p in body.partitions]
                    return client_pb2.OffsetsForLeaderEpochResponse(partitions=ends)
            of_coordinator = self.transactions.respond(body) or self.groups.respond(body)
            if of_coordinator is not None:
                self.changed.notify_all()
                return of_coordinator
        raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, f"scripted brokers don't support {type(body).__name__}")

    def exchange(self, api: Api, request: KafkaMessage) -> KafkaMessage:
        """The response to a message of Kafka's. `coordinator` coordinates every group and transactional id."""
        if not isinstance(request, FindCoordinatorRequest):
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, f"scripted brokers don't support {api.name}")
        with self.changed:
            host, port = HostPort.parse(self.addresses[self.coordinator])
        found = FindCoordinatorResponse.Coordinator
        return FindCoordinatorResponse(
            coordinators=[
                found(key=key, node_id=self.coordinator, host=host, port=port) for key in request.coordinator_keys
            ]
        )

    def broker_error(self, body: Any, step: Reject) -> Any:
        """The response that rejects every partition of a request."""
        error = Error(code=step.code, message=step.message)
        if isinstance(body, txn_pb2.AddPartitionsRequest):  # the last one is at fault, so none is added
            errors = [Error(code=ErrorCode.OPERATION_NOT_ATTEMPTED) for _ in body.transactions[0].partitions[1:]]
            return txn_pb2.AddPartitionsResponse(transactions=[txn_pb2.PartitionsAdded(partitions=[*errors, error])])
        leader = None
        if step.leader is not None:
            broker, epoch = step.leader
            leader = pb.Leader(broker_id=broker, leader_epoch=epoch, address=self.addresses[broker])
        kinds: dict[type, tuple[type, type]] = {
            client_pb2.ProduceRequest: (client_pb2.ProduceResponse, client_pb2.PartitionAppended),
            pb.FetchRequest: (pb.FetchResponse, pb.PartitionFetched),
        }
        if type(body) not in kinds:
            raise OttlaError(step.code, step.message)
        response, part = kinds[type(body)]
        return response(
            partitions=[
                part(topic_id=p.topic_id, partition=p.partition, error=error, current_leader=leader)
                for p in body.partitions
            ]
        )

    def _named(self, part: Any) -> TopicPartition | None:
        names = {topic_id: name for name, topic_id in self._ids.items()}
        name = names.get(part.topic_id)
        partition = None if name is None else TopicPartition(name, part.partition)
        return partition if partition in self.logs else None

    def _wrong(self, address: str, part: Any) -> Error | None:
        partition = self._named(part)
        if partition is None:
            return Error(code=ErrorCode.UNKNOWN_TOPIC_ID, message="no such topic id")
        leader, epoch = self.leaders[partition]
        if self.addresses[leader] != address:
            return Error(code=ErrorCode.NOT_LEADER_OR_FOLLOWER, message="not the leader")
        if isinstance(part, client_pb2.PartitionRecords):
            return None  # what is produced has no epoch of the leader
        if part.HasField("current_leader_epoch") and part.current_leader_epoch < epoch:
            return Error(code=ErrorCode.FENCED_LEADER_EPOCH, message="an old epoch")
        return None

    def _append(
        self, address: str, part: client_pb2.PartitionRecords, request: client_pb2.ProduceRequest
    ) -> client_pb2.PartitionAppended:
        response = client_pb2.PartitionAppended(
            topic_id=part.topic_id, partition=part.partition, base_offset=-1, log_append_time_ms=-1
        )
        wrong = self._wrong(address, part)
        if wrong is None:
            partition = self._named(part)
            assert partition is not None
            try:
                header = read_header(part.records)
                if header.is_transactional:
                    producer = header.producer_id, header.producer_epoch
                    self.transactions.add(request, producer, partition, self.logs[partition])
                response.base_offset = self.logs[partition].append(part.records, self.leaders[partition][1])
            except OttlaError as error:
                wrong = Error(code=error.code, message=error.message)
        if wrong is not None:
            response.error.CopyFrom(wrong)
        return response

    def _read(self, address: str, part: pb.FetchPartition, request: pb.FetchRequest) -> pb.PartitionFetched:
        response = pb.PartitionFetched(topic_id=part.topic_id, partition=part.partition)
        wrong = None if request.from_follower and address in self.addresses else self._wrong(address, part)
        if wrong is None:
            log = self.logs[self._named(part)]  # type: ignore[index]  # was looked up before
            response.high_watermark, response.log_start_offset = log.end, log.start
            response.last_stable_offset = log.last_stable_offset
            near = [number for number, rack in self.racks.items() if rack == request.rack]
            if not log.start <= part.fetch_offset <= log.end:
                wrong = Error(code=ErrorCode.OFFSET_OUT_OF_RANGE, message=f"{log.start} to {log.end} are there")
            elif near and not request.from_follower and self.addresses[near[0]] != address:
                response.preferred_read_replica = near[0]
            else:
                end = log.last_stable_offset if request.read_committed else log.end
                response.records = log.read(part.fetch_offset, part.max_bytes, end)
                for producer_id, first, marker in log.aborted if request.read_committed else ():
                    if marker >= part.fetch_offset:
                        response.aborted.add(producer_id=producer_id, first_offset=first)
        if wrong is not None:
            response.error.CopyFrom(wrong)
        return response

    def _epoch_end(self, address: str, part: client_pb2.EpochOfPartition) -> client_pb2.EpochEndOfPartition:
        wrong = self._wrong(address, part)
        response = client_pb2.EpochEndOfPartition(topic_id=part.topic_id, partition=part.partition, error=wrong)
        if wrong is None:
            partition = self._named(part)
            assert partition is not None
            epoch, end = self.logs[partition].epoch_end(part.leader_epoch, self.leaders[partition][1])
            response.end.leader_epoch, response.end.end_offset = epoch, end
        return response

    def _offset(self, part: pb.ListOffsetsPartition, read_committed: bool) -> pb.PartitionOffset:
        log = self.logs[self._named(part)]  # type: ignore[index]  # was looked up before
        stable = read_committed and part.timestamp_ms == LATEST_TIMESTAMP
        offset = log.last_stable_offset if stable else log.offset_for(part.timestamp_ms)
        return pb.PartitionOffset(
            topic_id=part.topic_id, partition=part.partition, offset=offset, timestamp_ms=-1, leader_epoch=-1
        )

    def _metadata(self, request: client_pb2.MetadataRequest) -> client_pb2.MetadataResponse:
        response = client_pb2.MetadataResponse(cluster_id="scripted")
        for number, address in enumerate(self.addresses):
            response.brokers.add(id=number, address=address, rack=self.racks.get(number, ""))
        for name in self._ids if request.all_topics else request.topics:
            topic = response.topics.add(name=name)
            if name not in self._ids:
                topic.error.code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            topic.topic_id = self._ids[name]
            for partition, (leader, epoch) in sorted(self.leaders.items()):
                if partition.topic == name:
                    topic.partitions.add(partition=partition.partition, leader=leader, leader_epoch=epoch)
        return response
