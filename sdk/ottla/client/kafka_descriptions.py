"""What Kafka's Metadata lacks, and newer messages of Kafka's say: which brokers are fenced, and which replicas are
eligible leaders.

Brokers of ottla add more about themselves in private fields (docs/adr/0028). Brokers that do not serve these messages
are described by their Metadata alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from ottla.client.cluster import ClusterClient
from ottla.client.kafka.apis import DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS
from ottla.client.kafka.exchange import Exchange
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ottla_core.model import TopicPartition

T = TypeVar("T")

_NO_CONTROLLER: Final = -1
_NOBODY: Final = (_NO_CONTROLLER, "", _NO_CONTROLLER)


class EligibleLeaders(NamedTuple):
    """The replicas of a partition outside its ISR that may become its leader, and those that might (KIP-966)."""

    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]


class DescribedBroker(NamedTuple):
    """A broker. Brokers of ottla also send their listeners, their epoch, and whether their disk takes no appends."""

    id: int
    address: str
    rack: str
    is_fenced: bool = False
    first_listener: str = ""
    listeners: Mapping[str, str] = MappingProxyType({})
    epoch: int = -1
    is_read_only: bool = False


class DescribedCluster(NamedTuple):
    """The cluster without topics. If there is no controller, its id and epoch are -1 and its address is ""."""

    cluster_id: str
    brokers: Sequence[DescribedBroker]
    controller_id: int = _NO_CONTROLLER
    controller_address: str = ""
    controller_epoch: int = _NO_CONTROLLER


def describe_cluster(cluster: ClusterClient, *, timeout: float) -> DescribedCluster | None:
    """Return the cluster without topics. None means that the broker does not serve the request."""
    return _if_served(cluster, description_of_cluster(), timeout)


def description_of_cluster() -> Exchange[DescribedCluster]:
    """Return the exchange that asks for the cluster without topics."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    return Exchange(DESCRIBE_CLUSTER, lambda _: request, _described)


def _described(response: DescribeClusterResponse) -> DescribedCluster:
    brokers = [_broker(broker) for broker in response.brokers]
    return DescribedCluster(response.cluster_id, brokers, *_controller(response))


def eligible_leaders(
    cluster: ClusterClient, topics: Collection[str], *, timeout: float
) -> dict[TopicPartition, EligibleLeaders]:
    """Return the eligible leaders of partitions that have any, in some topics or in all. The result is empty if the
    broker does not serve the request."""
    until = cluster.clock.monotonic() + timeout
    found: dict[TopicPartition, EligibleLeaders] = {}
    cursor: DescribeTopicPartitionsRequest.Cursor | None = None

    while (left_s := until - cluster.clock.monotonic()) > 0:
        part = _if_served(cluster, description_of_leaders(topics, cursor), left_s)
        if part is None:
            return {}
        more, cursor = part
        found |= more
        if cursor is None:
            return found
    raise error_from_code(ErrorCode.REQUEST_TIMED_OUT, f"the brokers described no more topics within {timeout:g} s")


def description_of_leaders(
    topics: Collection[str], cursor: DescribeTopicPartitionsRequest.Cursor | None
) -> Exchange[tuple[dict[TopicPartition, EligibleLeaders], DescribeTopicPartitionsRequest.Cursor | None]]:
    """Return the exchange that asks for the eligible leaders of topics from the cursor on, of all topics if none are
    named. The response also says where the next one begins."""
    names = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in sorted(topics)]
    request = DescribeTopicPartitionsRequest(topics=names, cursor=cursor)
    return Exchange(DESCRIBE_TOPIC_PARTITIONS, lambda _: request, _eligible)


def _eligible(
    response: DescribeTopicPartitionsResponse,
) -> tuple[dict[TopicPartition, EligibleLeaders], DescribeTopicPartitionsRequest.Cursor | None]:
    """Return the eligible leaders in a response, and where the next one begins."""
    found: dict[TopicPartition, EligibleLeaders] = {}
    for topic in response.topics:
        for each in topic.partitions:
            leaders = EligibleLeaders(tuple(each.eligible_leader_replicas or ()), tuple(each.last_known_elr or ()))
            if any(leaders):
                found[TopicPartition(topic.name or "", each.partition_index)] = leaders
    if (following := response.next_cursor) is None:
        return found, None
    return found, DescribeTopicPartitionsRequest.Cursor(
        topic_name=following.topic_name, partition_index=following.partition_index
    )


def _if_served(cluster: ClusterClient, asked: Exchange[T], timeout: float) -> T | None:
    """Return what the response of some broker means. None means that the broker does not serve the request, or says in
    its response that this version does not have it."""
    try:
        return cluster.exchange_any(asked, timeout=timeout)
    except OttlaError as error:
        if error.code == ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise


def _broker(broker: DescribeClusterResponse.DescribeClusterBroker) -> DescribedBroker:
    address = _address(broker)
    return DescribedBroker(
        broker.broker_id,
        address,
        broker.rack or "",
        broker.is_fenced,
        broker.first_listener or address,
        {listener.name: listener.address for listener in broker.listeners},
        broker.epoch,
        broker.read_only,
    )


def _address(broker: DescribeClusterResponse.DescribeClusterBroker) -> str:
    return str(HostPort(broker.host, broker.port))


def _controller(response: DescribeClusterResponse) -> tuple[int, str, int]:
    """Return the id, the address and the epoch of the elected controller, which brokers of ottla name. Kafka's brokers
    name a broker that forwards to it, whose epoch is -1."""
    if (elected := response.controller) is not None:
        return (elected.id, elected.address, elected.epoch) if elected.id != _NO_CONTROLLER else _NOBODY
    for broker in response.brokers:
        if broker.broker_id == response.controller_id:
            return broker.broker_id, _address(broker), _NO_CONTROLLER
    return _NOBODY
