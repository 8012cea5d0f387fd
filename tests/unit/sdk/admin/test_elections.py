"""admin.partitions.elect_leaders: what is asked of the controller, and when it returns."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla.errors import ErrorCode
from ottla_proto import client_pb2 as pb
from ottla_proto import controller_pb2
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Method


class FakeCluster:
    """Brokers b0:1 and b1:1 and a controller. b1 hears of an election only after `lag` more questions."""

    def __init__(self, lag: int = 0) -> None:
        self.lag = lag
        self.epoch = 4
        self.response = controller_pb2.ElectLeadersResponse()
        self.asked: list[controller_pb2.ElectLeadersRequest] = []

    def connect(self, address: str) -> Any:
        return _Connection(self, address)

    def metadata(self, address: str) -> pb.MetadataResponse:
        epoch = self.epoch
        if address == "b1:1" and self.asked and self.lag:
            self.lag -= 1
            epoch -= 1
        response = pb.MetadataResponse(controller=pb.ControllerNode(address="c0:1"))
        for number in range(2):
            response.brokers.add(id=number, address=f"b{number}:1")
        topic = response.topics.add(name="t", topic_id=b"t" * 16)
        topic.partitions.add(partition=0, leader=1, leader_epoch=epoch, replicas=[1, 0], isr=[0, 1])
        return response

    def elect(self, request: controller_pb2.ElectLeadersRequest) -> controller_pb2.ElectLeadersResponse:
        self.asked.append(request)
        self.epoch += 1
        return self.response


class _Connection:
    def __init__(self, cluster: FakeCluster, address: str) -> None:
        self.cluster = cluster
        self.address = address

    def call(self, method: Method[Any, Any], request: Any, *, timeout: float) -> Any:
        if isinstance(request, pb.MetadataRequest):
            return self.cluster.metadata(self.address)
        assert self.address == "c0:1"
        return self.cluster.elect(request)

    def close(self) -> None: ...


def admin(cluster: FakeCluster) -> ottla.Admin:
    return ottla.Admin("b0:1", request_timeout=1, _transport=cluster.connect)


@pytest.mark.feature(114)
def test_it_returns_when_every_broker_knows_the_leaders() -> None:
    cluster = FakeCluster(lag=5)
    cluster.response.partitions.add(topic="t", partition=0, leader=1)
    assert admin(cluster).partitions.elect_leaders([("t", 0)]) == (ottla.Election("t", 0, 1),)
    assert cluster.lag == 0
    (request,) = cluster.asked
    assert (request.type, request.all_partitions) == (controller_pb2.ELECTION_PREFERRED, False)
    assert [(p.topic, p.partition) for p in request.partitions] == [("t", 0)]


def test_brokers_that_do_not_hear_of_it_are_named_at_the_deadline() -> None:
    cluster = FakeCluster(lag=1_000_000)
    cluster.response.partitions.add(topic="t", partition=0, leader=1)
    with pytest.raises(
        ottla.TimeoutError, match=r"leaders are elected, but some brokers had not learned of it after 0\.1 s"
    ):
        admin(cluster).partitions.elect_leaders([("t", 0)], timeout=0.1)


@pytest.mark.feature(114)
def test_of_all_partitions_unclean_and_what_went_wrong() -> None:
    cluster = FakeCluster(lag=1_000_000)
    for number, code in enumerate((ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)):
        cluster.response.partitions.add(topic="t", partition=number, leader=-1, error=Error(code=code, message="why"))
    first, second = admin(cluster).partitions.elect_leaders(unclean=True)
    (request,) = cluster.asked
    assert (request.type, request.all_partitions) == (controller_pb2.ELECTION_UNCLEAN, True)
    assert list(request.partitions) == []
    assert (first.was_needed, second.was_needed, second.leader) == (False, True, -1)
    assert second.error is not None
    assert (second.error.code, second.error.message) == (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "t-1: why")
    assert cluster.lag == 1_000_000, "nobody was elected, so there is nothing to wait for"


def test_a_partition_that_is_gone_meanwhile_is_not_waited_for() -> None:
    cluster = FakeCluster()
    cluster.response.partitions.add(topic="t", partition=7, leader=1)
    cluster.response.partitions.add(topic="deleted", partition=0, leader=1)
    assert len(admin(cluster).partitions.elect_leaders()) == 2


def test_the_elected_leader_is_looked_up_if_the_response_does_not_name_it() -> None:
    """Kafka's response does not say it."""
    cluster = FakeCluster()
    cluster.response.partitions.add(topic="t", partition=0, leader=-1)
    error = Error(code=ErrorCode.ELECTION_NOT_NEEDED, message="why")
    cluster.response.partitions.add(topic="t", partition=0, leader=-1, error=error)
    first, second = admin(cluster).partitions.elect_leaders()
    assert (first, second.leader) == (ottla.Election("t", 0, 1), -1)
