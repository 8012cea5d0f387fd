"""The addresses that Admin calls: brokers forward calls to other services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from answering import AnsweringBrokers

import ottla
from ottla.client.kafka.apis import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from ottla_core.kafka.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_proto.common_pb2 import ShardsResponse
from ottla_proto.contracts import Group


def brokers_of_configs() -> AnsweringBrokers:
    described = DescribeConfigsResponse.DescribeConfigsResult(error_message=None)
    altered = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(error_message=None)
    answers = {
        DESCRIBE_CONFIGS.name: DescribeConfigsResponse(results=[described]),
        INCREMENTAL_ALTER_CONFIGS.name: IncrementalAlterConfigsResponse(responses=[altered]),
    }
    return AnsweringBrokers(answers, brokers=2)


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
    kinds = DescribeConfigsRequest | IncrementalAlterConfigsRequest
    assert [address for address, _, request in brokers.asked if isinstance(request, kinds)] == [called]


def test_a_broker_knows_all_shards() -> None:
    shards = ShardsResponse()
    shards.shards.add(shard=1, phase="serving", coordinator=5, next_offset=7, for_ms=1500)
    shards.shards.add(shard=0, phase="unowned", coordinator=-1)
    brokers = AnsweringBrokers({"Group.Shards": OttlaCallResponse(body=shards.SerializeToString())})
    with ottla.Admin("b0:1", request_timeout=1, _transport=brokers.connect) as admin:
        unowned, served = admin.groups.shards()
    assert [call.method for call in brokers.requests(OttlaCallRequest)] == [Group.SHARDS.path]
    assert (unowned.shard, unowned.phase, unowned.coordinator, unowned.next_offset) == (0, "unowned", None, None)
    assert (served.shard, served.phase, served.coordinator, served.seconds) == (1, "serving", 5, 1.5)
    assert (served.next_offset, unowned.is_good, served.is_good) == (7, False, True)
