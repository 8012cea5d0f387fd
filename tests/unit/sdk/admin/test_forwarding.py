"""The addresses that Admin calls: brokers forward calls to other services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ottla
from ottla_proto import client_pb2 as pb
from ottla_proto import controller_pb2
from ottla_proto.common_pb2 import ShardsResponse
from ottla_proto.contracts import Group, Method


class Brokers:
    """Brokers 0 and 1. Broker 0 is named as the controller. `called` has the calls, except those for metadata."""

    def __init__(self, **answers: Any) -> None:
        self.called: list[tuple[str, Method[Any, Any], Any]] = []
        self._answers = answers

    def connect(self, address: str) -> Any:
        return _Connection(self, address)

    def call(self, address: str, method: Method[Any, Any], request: Any) -> Any:
        if isinstance(request, pb.MetadataRequest):
            brokers = [pb.BrokerNode(id=n, address=f"b{n}:1") for n in range(2)]
            return pb.MetadataResponse(brokers=brokers, controller=pb.ControllerNode(address="b0:1"))
        self.called.append((address, method, request))
        return self._answers[method.name]


class _Connection:
    def __init__(self, brokers: Brokers, address: str) -> None:
        self._brokers = brokers
        self._address = address

    def call(self, method: Method[Any, Any], request: Any, *, timeout: float) -> Any:
        return self._brokers.call(self._address, method, request)

    def close(self) -> None: ...


def brokers_of_configs() -> Brokers:
    resource = controller_pb2.ConfigResource(type=controller_pb2.CONFIG_RESOURCE_BROKER, name="1")
    described = controller_pb2.DescribeConfigsResponse(resources=[controller_pb2.ConfigsDescribed(resource=resource)])
    altered = controller_pb2.AlterConfigsResponse(resources=[controller_pb2.ConfigsAlterResult(resource=resource)])
    return Brokers(DescribeConfigs=described, AlterConfigs=altered)


@pytest.mark.parametrize(
    "call",
    [
        lambda configs, **place: configs.get(**place),
        lambda configs, **place: configs.set({"log.retention.ms": 1}, **place),
        lambda configs, **place: configs.unset("log.retention.ms", **place),
    ],
)
@pytest.mark.parametrize(
    ("place", "called"),
    [({"broker": 1}, "b1:1"), ({"broker": 7}, "b0:1"), ({"topic": "t"}, "b0:1"), ({}, "b0:1")],
)
def test_a_call_about_a_broker_goes_to_that_broker(
    call: Callable[..., None], place: dict[str, Any], called: str
) -> None:
    """Kafka's brokers reject what is about another one. All else is for the controller, or who stands in for it."""
    brokers = brokers_of_configs()
    with ottla.Admin("b0:1", request_timeout=1, _transport=brokers.connect) as admin:
        call(admin.configs, **place)
    assert [address for address, *_ in brokers.called] == [called]


def test_a_broker_knows_all_shards() -> None:
    shards = ShardsResponse()
    shards.shards.add(shard=1, phase="serving", coordinator=5, next_offset=7, for_ms=1500)
    shards.shards.add(shard=0, phase="unowned", coordinator=-1)
    brokers = Brokers(Shards=shards)
    with ottla.Admin("b0:1", request_timeout=1, _transport=brokers.connect) as admin:
        unowned, served = admin.groups.shards()
    assert [method for _, method, _ in brokers.called] == [Group.SHARDS]
    assert (unowned.shard, unowned.phase, unowned.coordinator, unowned.next_offset) == (0, "unowned", None, None)
    assert (served.shard, served.phase, served.coordinator, served.seconds) == (1, "serving", 5, 1.5)
    assert (served.next_offset, unowned.is_good, served.is_good) == (7, False, True)
