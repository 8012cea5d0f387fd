"""OffsetForLeaderEpoch for many partitions: whether a log still has the records that were read from it (KIP-320)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.cluster import ClusterClient
from ottla.client.grouping import grouped
from ottla.client.kafka.apis import OFFSET_FOR_LEADER_EPOCH, own_error
from ottla.client.kafka.exchange import Exchange, Terms
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.list_offsets import no_leader
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.metadata import Route
from ottla.machines.position import NO_EPOCH
from ottla_core.kafka.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from ottla_core.model import PartitionId, TopicId, TopicPartition

_CONSUMER: Final = -1


class EpochEnd(NamedTuple):
    """A leader's result for one partition: the epoch, and the offset at which it ends, or an error."""

    leader_epoch: int = NO_EPOCH
    end_offset: int = -1
    error: OttlaError | None = None


def search(names: TopicNames, epochs: Sequence[tuple[Route, int]]) -> Exchange[Mapping[PartitionId, EpochEnd]]:
    """Return the exchange that asks one leader where the epochs of these partitions end in its log.

    Each partition has a result. Raises UNKNOWN_TOPIC_ID if the topic of a route is not known any more.
    """
    ids: dict[str, TopicId] = {}

    def build(terms: Terms) -> OffsetForLeaderEpochRequest:
        # Only now: a topic that was recreated while the request waited must not answer for the former one.
        by_topic = grouped((names.name_of(route.partition_id.topic_id), (route, epoch)) for route, epoch in epochs)
        ids.update((name, asked[0][0].partition_id.topic_id) for name, asked in by_topic.items())
        topics = [
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic=name, partitions=[_partition(route, epoch) for route, epoch in asked]
            )
            for name, asked in by_topic.items()
        ]
        return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics)

    def read(response: OffsetForLeaderEpochResponse) -> Mapping[PartitionId, EpochEnd]:
        found = {
            PartitionId(ids[topic.topic], each.partition): _answer(each)
            for topic in response.topics
            if topic.topic in ids
            for each in topic.partitions
        }
        lost = EpochEnd(error=OttlaError(ErrorCode.NETWORK_EXCEPTION, "the response did not contain the partition"))
        return {route.partition_id: found.get(route.partition_id, lost) for route, _ in epochs}

    return Exchange(OFFSET_FOR_LEADER_EPOCH, build, read)


def _partition(route: Route, epoch: int) -> OffsetForLeaderEpochRequest.OffsetForLeaderPartition:
    return OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=route.partition_id.partition, current_leader_epoch=route.leader_epoch, leader_epoch=epoch
    )


def _answer(found: OffsetForLeaderEpochResponse.EpochEndOffset) -> EpochEnd:
    return EpochEnd(found.leader_epoch, found.end_offset, own_error(found))


def epoch_ends(
    cluster: ClusterClient, epochs: Mapping[TopicPartition, int], *, timeout: float
) -> dict[TopicPartition, int]:
    """Return the offset at which each partition's leader epoch ends in its present leader's log.

    A leader that does not know the epoch returns the end of the last one before it. Partitions whose leaders know
    neither are left out. Each call gets `timeout` seconds, and is not repeated. Raises the brokers' errors.
    """
    view = cluster.fetch_metadata(dict.fromkeys(partition.topic for partition in epochs), timeout=timeout)
    by_leader: dict[str, dict[TopicPartition, Route]] = {}
    for partition in epochs:
        if (route := view.routes.get(partition)) is None:
            raise no_leader(view, partition)
        by_leader.setdefault(route.address, {})[partition] = route
    ends: dict[TopicPartition, int] = {}
    for address, routes in by_leader.items():
        asked = search(cluster.names, [(route, epochs[partition]) for partition, route in routes.items()])
        found = cluster.exchange(address, asked, timeout=timeout)
        for partition, route in routes.items():
            answer = found[route.partition_id]
            if answer.error is not None:
                raise error_from_code(answer.error.code, answer.error.message, of=partition, broker=address)
            if answer.end_offset >= 0:
                ends[partition] = answer.end_offset
    return ends
