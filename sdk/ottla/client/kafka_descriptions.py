"""What Kafka's Metadata lacks, and newer messages of Kafka's say: which brokers are fenced, and which replicas are
eligible leaders.

Brokers of ottla add more about themselves in private fields (docs/adr/0028). Brokers that do not serve these messages
are described by their Metadata alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from ottla.client.any_broker import Response, ask_any_broker
from ottla.client.cluster import ClusterClient
from ottla.client.kafka.apis import DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS, Api
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.host_port import HostPort
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ottla_core.model import TopicPartition
from ottla_proto import client_pb2 as pb

_NO_CONTROLLER: Final = -1


class EligibleLeaders(NamedTuple):
    """The replicas of a partition outside its ISR that may become its leader, and those that might (KIP-966)."""

    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]


def describe_cluster(cluster: ClusterClient, *, timeout: float) -> pb.MetadataResponse | None:
    """Return the cluster without topics. None means that the broker does not serve the request."""

    def request(version: int) -> DescribeClusterRequest:
        return DescribeClusterRequest(include_fenced_brokers=True)

    response = _ask(cluster, DESCRIBE_CLUSTER, request, DescribeClusterResponse, timeout)
    if response is None:
        return None
    if response.error_code:
        raise error_from_code(response.error_code, response.error_message or "")
    described = pb.MetadataResponse(cluster_id=response.cluster_id, brokers=map(_broker, response.brokers))
    if controller := _controller(response):
        described.controller.CopyFrom(controller)
    return described


def eligible_leaders(
    cluster: ClusterClient, topics: Collection[str], *, timeout: float
) -> dict[TopicPartition, EligibleLeaders]:
    """Return the eligible leaders of partitions that have any, in some topics or in all. The result is empty if the
    broker does not serve the request."""
    until = cluster.clock.monotonic() + timeout
    found: dict[TopicPartition, EligibleLeaders] = {}
    cursor: DescribeTopicPartitionsRequest.Cursor | None = None

    def request(version: int) -> DescribeTopicPartitionsRequest:
        names = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in sorted(topics)]
        return DescribeTopicPartitionsRequest(topics=names, cursor=cursor)

    while (left_s := until - cluster.clock.monotonic()) > 0:
        response = _ask(cluster, DESCRIBE_TOPIC_PARTITIONS, request, DescribeTopicPartitionsResponse, left_s)
        if response is None:
            return {}
        for topic in response.topics:
            for each in topic.partitions:
                leaders = EligibleLeaders(tuple(each.eligible_leader_replicas or ()), tuple(each.last_known_elr or ()))
                if any(leaders):
                    found[TopicPartition(topic.name or "", each.partition_index)] = leaders
        if response.next_cursor is None:
            return found
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
        )
    raise error_from_code(ErrorCode.REQUEST_TIMED_OUT, f"the brokers described no more topics within {timeout:g} s")


def _ask(
    cluster: ClusterClient, api: Api, request: Callable[[int], Message], response: type[Response], timeout: float
) -> Response | None:
    """Return the response of some broker, or None if the broker does not serve the request."""
    try:
        return ask_any_broker(cluster, api, request, response, timeout=timeout)
    except OttlaError as error:
        if error.code == ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise


def _broker(broker: DescribeClusterResponse.DescribeClusterBroker) -> pb.BrokerNode:
    address = _address(broker)
    return pb.BrokerNode(
        id=broker.broker_id,
        address=address,
        kafka_address=broker.first_listener or address,
        kafka_listeners={listener.name: listener.address for listener in broker.listeners},
        rack=broker.rack or "",
        epoch=broker.epoch,
        fenced=broker.is_fenced,
        read_only=broker.read_only,
    )


def _address(broker: DescribeClusterResponse.DescribeClusterBroker) -> str:
    return str(HostPort(broker.host, broker.port))


def _controller(response: DescribeClusterResponse) -> pb.ControllerNode | None:
    """Return the controller that a broker of ottla names, or else the broker that is a controller to clients."""
    if response.controller is not None:
        elected = response.controller
        if elected.id == _NO_CONTROLLER:
            return None
        return pb.ControllerNode(id=elected.id, address=elected.address, epoch=elected.epoch)
    for broker in response.brokers:
        if broker.broker_id == response.controller_id:
            return pb.ControllerNode(id=broker.broker_id, address=_address(broker), epoch=_NO_CONTROLLER)
    return None
