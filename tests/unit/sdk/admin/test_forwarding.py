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
