"""Keeps the cluster small while it is fuzzed: makes again what was deleted, deletes what was made.

And has members in new groups each time: groups still work then, and requests can speak of those that are there.
"""

from __future__ import annotations

import itertools
import time
from typing import Any, Final

from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafka.protocol.consumer import JoinGroupRequest, JoinGroupResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from tests.fuzz.kafka_wire import KafkaWire
from tests.fuzz.world import BASE_TOPICS, CANARY, INTERNAL, PROTOCOL, PROTOCOL_TYPE, Member, World

_LIMIT_MS: Final = 10_000
_MADE_HERE: Final = (CANARY, *BASE_TOPICS)
_MOST_PARTITIONS: Final = 4
_CREATE_VERSION, _DELETE_VERSION, _METADATA_VERSION = 5, 4, 12
_JOIN_VERSION: Final = 3
"""The last that takes a member without an id."""
_SESSION_MS: Final = 30_000
_LATER: Final = (14, 15, 16)
"""While a shard is loaded. The broker itself waits before it says so."""
_LOAD_LIMIT_S: Final = 20.0
_MEMBERS: Final = 30
# What the cluster's defaults are changed to is not to meet the canary.
_CANARY_CONFIGS: Final = {"retention.ms": "-1", "min.insync.replicas": "1", "max.message.bytes": "1048588"}


_groups = (f"group-{n}" for n in itertools.count())


def tidy(port: int, world: World) -> None:
    """Raises OSError where the broker does not answer, and AssertionError where nobody can join a group."""
    with KafkaWire(f"127.0.0.1:{port}") as wire:
        there = _topics(wire)
        _delete(wire, [t.name for t in there if _is_to_go(t)])
        _create(wire, [name for name in _MADE_HERE if name not in {t.name for t in there if not _is_to_go(t)}])
        world.learn_ids([t.topic_id.bytes for t in _topics(wire) if t.name in BASE_TOPICS])
        world.learn_members([_join(wire, next(_groups)) for _ in range(_MEMBERS)])


def _join(wire: KafkaWire, group: str) -> Member:
    """Alone in its group, so at once."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=_SESSION_MS,
        rebalance_timeout_ms=_SESSION_MS,
        member_id="",
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"")],
    )
    give_up_at = time.monotonic() + _LOAD_LIMIT_S
    while True:
        joined = wire.ask(request, _JOIN_VERSION, JoinGroupResponse)
        if joined.error_code not in _LATER or time.monotonic() > give_up_at:
            break
    assert joined.error_code == 0, f"a join is answered with {joined.error_code}"
    return Member(group, joined.member_id, joined.generation_id)


def _topics(wire: KafkaWire) -> list[Any]:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    return list(wire.ask(request, _METADATA_VERSION, MetadataResponse).topics)


def _is_to_go(topic: Any) -> bool:
    return topic.name not in (*_MADE_HERE, INTERNAL) or len(topic.partitions) > _MOST_PARTITIONS


def _delete(wire: KafkaWire, names: list[str]) -> None:
    if names:
        wire.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=_LIMIT_MS), _DELETE_VERSION, DeleteTopicsResponse)


def _create(wire: KafkaWire, names: list[str]) -> None:
    if not names:
        return
    topic, config = CreateTopicsRequest.CreatableTopic, CreateTopicsRequest.CreatableTopic.CreatableTopicConfig
    topics = [
        topic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[config(name=k, value=v) for k, v in _CANARY_CONFIGS.items()] if name == CANARY else [],
        )
        for name in names
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=_LIMIT_MS, validate_only=False)
    wire.ask(request, _CREATE_VERSION, CreateTopicsResponse)
