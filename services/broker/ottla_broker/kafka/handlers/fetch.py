"""Fetch (key 1), versions 4 to 18: from the same logs and with the same waiting as over gRPC (rules 55 to 57, 68).

v5 adds the log start offset (KIP-107); v7 sessions (KIP-227); v9 the leader epoch (KIP-320); v11 racks (KIP-392); v12
tags, one with the new leader; v13 names topics by id (KIP-516); v15 moves the replica id into a tag (KIP-903); v16 adds
the endpoints of new leaders (KIP-951). v17 and v18 add tags of followers, which are not served here.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Final

from ottla_broker.kafka import fetch_wire
from ottla_broker.kafka.backend import Backend, known_epoch
from ottla_broker.kafka.errors import unknown_topic
from ottla_broker.kafka.fetch_request import FetchedPartition, FetchRequest, RequestedPartition
from ottla_broker.kafka.frames import KafkaContext, Parts
from ottla_broker.kafka.leaders import NewLeaders
from ottla_broker.replication.fetch import MAX_RESPONSE_BYTES, Consumers, FetchResult, PartitionFetch, closest_to, fetch
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.response_memory import ResponseRoom
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_core.slices import Slice, sliced

SPEED: Final = 8
"""Of reading by hand, beside the codec library: 600 partitions take some milliseconds."""
_NOWHERE: Final = PartitionId(TopicId(bytes(16)), -1)


def read(request: KafkaContext) -> FetchRequest:
    return fetch_wire.read(request.body, request.version)


async def answer(backend: Backend, asked: FetchRequest, request: KafkaContext) -> Parts:
    version, leaders = request.version, NewLeaders(backend, request.caller)
    if asked.replica_id >= 0:
        refused = FetchResult(_NOWHERE, error=_no_follower(asked.replica_id))
        parts = [FetchedPartition(each, refused) for each in asked.partitions]
        return fetch_wire.write(version, parts, leaders, isolation=asked.isolation)
    asked = replace(asked, partitions=list({(each.topic, each.number): each for each in asked.partitions}.values()))
    try:
        turn = backend.sessions.begin(asked, by_id=version >= fetch_wire.TOPIC_ID_FROM, now=time.monotonic())
    except OttlaError as error:
        return fetch_wire.write(version, (), leaders, isolation=asked.isolation, error_code=error.code)
    read = await _read(backend, version, replace(asked, partitions=turn.asked), request.caller.room)
    slice_ = Slice()
    told = turn.told(read)
    await slice_.rest()
    return fetch_wire.write(version, told, leaders, isolation=asked.isolation, session_id=turn.session_id)


async def _read(backend: Backend, version: int, asked: FetchRequest, room: ResponseRoom) -> list[FetchedPartition]:
    wants = await sliced(partial(_want, backend), asked.partitions)
    there = [want for want in wants if isinstance(want, PartitionFetch)]
    max_bytes = min(max(0, asked.max_bytes), MAX_RESPONSE_BYTES)
    fetched = iter(
        await fetch(
            there,
            _audience(backend, version, asked.rack),
            max_wait_s=0 if len(there) < len(wants) else max(0, asked.max_wait_ms) / 1000,
            min_bytes=min(asked.min_bytes, max_bytes),
            max_bytes=max_bytes,
            room=room,
        )
    )
    answered = (next(fetched) if isinstance(want, PartitionFetch) else want for want in wants)
    return [FetchedPartition(*each) for each in zip(asked.partitions, answered, strict=True)]


def _want(backend: Backend, asked: RequestedPartition) -> PartitionFetch | FetchResult:
    """What is to be read, or what is told of a topic that is not there."""
    partition_id = _id_of(backend, asked)
    if partition_id is None:
        return FetchResult(_NOWHERE, error=unknown_topic(str(asked.topic)))
    return PartitionFetch(partition_id, known_epoch(asked.leader_epoch), asked.offset, max(0, asked.max_bytes))


def _id_of(backend: Backend, asked: RequestedPartition) -> PartitionId | None:
    if isinstance(asked.topic, str):
        return backend.id_of(asked.topic, asked.number)
    return PartitionId(asked.topic, asked.number)


def _audience(backend: Backend, version: int, rack: str) -> Consumers:
    consumers = Consumers if version < fetch_wire.RACK_FROM else _NearbyConsumers
    closest = closest_to(rack, backend.image, backend.node_id)
    return consumers(backend.replicas, closest, from_follower=False)


class _NearbyConsumers(Consumers):
    """Of versions that know racks: any replica answers, and a leader may name a nearer one (KIP-392).

    The protocol does not say whether a leader has sent the consumer here.
    """

    def replica(self, want: PartitionFetch) -> Replica:
        replica = self._replicas.find(want.id)
        replica.check_epoch(want.leader_epoch)
        return replica

    def instead(self, want: PartitionFetch, replica: Replica) -> FetchResult | None:
        return super().instead(want, replica) if replica.leads else None


def _no_follower(replica_id: int) -> OttlaError:
    return OttlaError(
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        f"replica {replica_id} asks on a clients' listener, where replicas are not served",
        hint="brokers copy from each other over their own contract",
    )
