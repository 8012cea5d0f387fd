"""A broker with an authorizer: what a client that has no ACL is told, and what a super user may do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from tests.fuzz.kafka_wire import KafkaWire
from waiting import until

import ottla_broker.app
import ottla_controller.app
from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.cluster.memory import MemoryStore
from ottla_core.errors import ErrorCode

ON = {"authorizer_class_name": "StandardAuthorizer"}


def code(address: str) -> int:
    """What a client that lets a topic be created is told of it."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name="new")],
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    with KafkaWire(address) as wire:
        (topic,) = wire.ask(request, 9, MetadataResponse).topics
    return int(topic.error_code)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ErrorCode.NONE),
        (ON, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ({**ON, "super_users": "User:admin;User:ANONYMOUS"}, ErrorCode.NONE),
        ({**ON, "allow_everyone_if_no_acl_found": True}, ErrorCode.NONE),
    ],
)
async def test_a_client_may_do_what_the_settings_say(
    tmp_path: Path, settings: dict[str, Any], expected: ErrorCode
) -> None:
    store = MemoryStore()
    controller = ottla_controller.app.build(ControllerConfig(port=0, admin_port=0), store=store)
    config = BrokerConfig(node_id=0, data_dir=tmp_path, port=0, admin_port=0, kafka_port=0, **settings)
    broker = ottla_broker.app.build(config, store=store)
    try:
        for app in (controller, broker):
            await app.start()
        await until(lambda: broker.ready() is None)
        assert await asyncio.to_thread(code, broker.listeners["kafka"]()) == expected
    finally:
        for app in (broker, controller):
            await app.stop()
