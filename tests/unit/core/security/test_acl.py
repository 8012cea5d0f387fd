"""Which ACLs may be created, and the codes of Kafka's enums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.resource import SUPPORTED_OPERATIONS, PatternType, ResourceType
from ottla_proto.operation import Operation

GOOD = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.WRITE, Permission.ALLOW)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"name": "*"},
        {"name": "or", "pattern_type": PatternType.PREFIXED},
        {"name": "*", "pattern_type": PatternType.PREFIXED},
        {"resource_type": ResourceType.CLUSTER, "name": "kafka-cluster"},
        {"resource_type": ResourceType.CLUSTER, "name": "kafka-cluster", "pattern_type": PatternType.PREFIXED},
        {"operation": Operation.ALL, "permission": Permission.DENY},
        {"operation": Operation.CREATE_TOKENS},
        {"principal": "User:*"},
        {"principal": "User:CN=a:b,O=c"},
        {"principal": ":"},
        {"host": "10.0.0.1"},
        {"host": "10.0.0.1/8"},
        {"host": "2001:db8::/32"},
        {"host": "a name"},
    ],
)
def test_what_kafka_takes(changed: dict[str, Any]) -> None:
    replace(GOOD, **changed).check()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": ""}, "the ACL's resource name is empty"),
        ({"resource_type": ResourceType.CLUSTER}, "the cluster can't be named 'orders'"),
        ({"resource_type": ResourceType.CLUSTER, "name": "*"}, "the cluster can't be named '*'"),
        ({"resource_type": ResourceType.ANY}, "can't have the resource type ANY"),
        ({"resource_type": ResourceType.UNKNOWN}, "can't have the resource type UNKNOWN"),
        ({"pattern_type": PatternType.ANY}, "can't have the pattern type ANY"),
        ({"pattern_type": PatternType.MATCH}, "can't have the pattern type MATCH"),
        ({"pattern_type": PatternType.UNKNOWN}, "can't have the pattern type UNKNOWN"),
        ({"operation": Operation.ANY}, "can't have the operation ANY"),
        ({"operation": Operation.UNKNOWN}, "can't have the operation UNKNOWN"),
        ({"permission": Permission.ANY}, "can't have the permission type ANY"),
        ({"permission": Permission.UNKNOWN}, "can't have the permission type UNKNOWN"),
        ({"principal": "alice"}, "the principal 'alice' has no type"),
        ({"principal": ""}, "the principal '' has no type"),
        ({"host": ""}, "the ACL's host is empty"),
        ({"host": "10.0.0.0/33"}, "the ACL's host '10.0.0.0/33' is not a range"),
    ],
)
def test_what_kafka_rejects(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(OttlaError) as rejected:
        replace(GOOD, **changed).check()
    assert rejected.value.code == ErrorCode.INVALID_REQUEST
    assert said in rejected.value.message
    assert rejected.value.hint


@pytest.mark.parametrize("enum", [ResourceType, PatternType, Permission, Operation])
def test_a_code_of_a_later_kafka_is_unknown(enum: Any) -> None:
    assert enum(99) is enum.UNKNOWN
    with pytest.raises(ValueError, match="TOPIC"):
        enum("TOPIC")


def test_every_operation_of_a_resource_is_one_that_an_acl_can_have() -> None:
    assert set(SUPPORTED_OPERATIONS) == set(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
    every = {operation for operations in SUPPORTED_OPERATIONS.values() for operation in operations}
    assert every == set(Operation) - {Operation.UNKNOWN, Operation.ANY, Operation.ALL}


def test_an_acl_is_told_in_one_line() -> None:
    assert str(GOOD) == "ALLOW User:alice WRITE on TOPIC LITERAL orders from host *"
