"""The places where the markers of partitions are written, and the calls that bring many markers there at once.

A marker goes to the leader of its partition. For a partition of `__consumer_offsets`, which is a shard of groups, it
goes to the shard's owner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Final, NamedTuple, Protocol

from ottla_core.cluster.image import ClusterImage
from ottla_core.model import SHARD_TOPICS, PartitionId, TopicId, TopicPartition
from ottla_core.routing import GROUP
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.peers import Peers
from ottla_proto import broker_pb2, group_pb2
from ottla_proto.common_pb2 import Error, TxnMarker, TxnProducer
from ottla_proto.contracts import Broker, Group
from ottla_txn_coordinator.ending import Ending
from ottla_txn_coordinator.machines.states import COMMITTED

GROUPS_TOPIC: Final = SHARD_TOPICS[GROUP]
TIMEOUT_S: Final = 5.0
LATE_AFTER_S: Final = 1.0
"""How long a call waits for its slowest partition: for the replicas, or for the log of the shard of groups. After this
time a partition is late, and its markers are sent by separate calls, which wait for up to TIMEOUT_S."""

_ROOM_S: Final = 1.0
"""How much later the deadline of a call is, so that each partition gets an error of its own before it."""


class Unroutable(Enum):
    """Why no marker can be sent at the moment."""

    NO_LEADER = "it has no leader, or its shard no owner"
    UNKNOWN = "it is not in the metadata"


class Lateness(IntEnum):
    """How late the last marker of a partition was. Markers of different lateness share no call."""

    IN_TIME = 0
    LATE = 1
    """The marker was not confirmed within the time of its call."""
    ALONE = 2
    """A call of late markers ended by its deadline, so one of them may hold up the others. Each has a call of its
    own."""


class Destination(NamedTuple):
    """A leader of partitions, or an owner of shards of groups, for markers of partitions that are as late as `late`."""

    address: str
    of_groups: bool
    late: Lateness = Lateness.IN_TIME


class MarkerToWrite(NamedTuple):
    ending: Ending
    partition: TopicPartition
    topic_id: TopicId


class MarkerWriter(Protocol):
    """Brings markers to their destinations (`MarkerCalls`)."""

    async def write(self, destination: Destination, markers: Sequence[MarkerToWrite]) -> Sequence[Error]:
        """Write markers. Return one error for each, with code 0 if it is written. Raises OttlaError if none could be
        written."""
        ...


def find(image: ClusterImage, partition: TopicPartition) -> tuple[Destination, TopicId] | Unroutable:
    topic = image.topics.get(partition.topic)
    if topic is None or not 0 <= partition.partition < topic.partition_count:
        return Unroutable.UNKNOWN
    if partition.topic == GROUPS_TOPIC:
        owner = image.owner_of(GROUP, partition.partition)
        return Unroutable.NO_LEADER if owner is None else (Destination(owner.address, True), topic.id)
    leader = image.brokers.get(image.partitions[PartitionId(topic.id, partition.partition)].leader)
    return Unroutable.NO_LEADER if leader is None else (Destination(leader.address, False), topic.id)


class MarkerCalls:
    """A component: it connects at the first call. `on_image` is for the metadata follower."""

    def __init__(self, tls: InternalTls | None = None) -> None:
        self._peers: Final = Peers(client_id="txn-coordinator", tls=tls)

    async def start(self) -> None:
        """Do nothing: the first call connects."""

    async def stop(self) -> None:
        await self._peers.close()

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        if (old.brokers, old.coordinators) != (new.brokers, new.coordinators):
            self._peers.retain(
                {b.address for b in new.brokers.values()} | {c.address for c in new.coordinators.values()}
            )

    async def write(self, destination: Destination, markers: Sequence[MarkerToWrite]) -> Sequence[Error]:
        by_ending = defaultdict[Ending, list[int]](list)
        for number, marker in enumerate(markers):
            by_ending[marker.ending].append(number)
        call = self._to_groups if destination.of_groups else self._to_leader
        written = await call(destination, [(e, [markers[n] for n in at]) for e, at in by_ending.items()])
        errors = zip((n for at in by_ending.values() for n in at), (e for of in written for e in of), strict=True)
        return [error for _, error in sorted(errors, key=lambda numbered: numbered[0])]

    async def _to_leader(self, destination: Destination, of: Sequence[_OfEnding]) -> Sequence[Sequence[Error]]:
        timeout_s = _timeout_s(destination)
        request = broker_pb2.WriteTxnMarkersRequest(timeout_ms=int(timeout_s * 1000))
        for ending, markers in of:
            item = request.markers.add(marker=marker_of(ending))
            for _, partition, topic_id in markers:
                item.partitions.add(topic_id=topic_id, partition=partition.partition)
        calls = self._peers.at(destination.address).gathered(Broker.CALLS)
        call = calls.call(Broker.WRITE_TXN_MARKERS, request, timeout=timeout_s + _ROOM_S)
        return [written.partitions for written in (await call).markers]

    async def _to_groups(self, destination: Destination, of: Sequence[_OfEnding]) -> Sequence[Sequence[Error]]:
        timeout_s = _timeout_s(destination)
        request = group_pb2.WriteShardMarkersRequest(timeout_ms=int(timeout_s * 1000))
        for ending, markers in of:
            request.markers.add(marker=marker_of(ending), shards=[m.partition.partition for m in markers])
        calls = self._peers.at(destination.address).gathered(Group.CALLS)
        call = calls.call(Group.WRITE_TXN_MARKERS, request, timeout=timeout_s + _ROOM_S)
        return [written.shards for written in (await call).markers]


_OfEnding = tuple[Ending, list[MarkerToWrite]]


def _timeout_s(destination: Destination) -> float:
    return TIMEOUT_S if destination.late else LATE_AFTER_S


def marker_of(ending: Ending) -> TxnMarker:
    record = ending.record
    return TxnMarker(
        producer=TxnProducer(id=record.producer.id, epoch=record.producer.epoch),
        committed=record.state in COMMITTED,
        coordinator_epoch=ending.epoch,
        transaction_version=record.version,
    )
