"""Which ACLs a flow's copies get."""

from __future__ import annotations

from typing import Any

import pytest

from ottla_core.security.acl import Acl, Permission
from ottla_core.security.resource import PatternType, ResourceType
from ottla_mirror.machines.acl_plan import plan_acls
from ottla_mirror.machines.flows import ClusterSettings, FlowSettings, MirrorSettings
from ottla_mirror.machines.topic_names import TopicNames
from ottla_proto.operation import Operation

ALLOW, DENY = Permission.ALLOW, Permission.DENY
EVERY_OPERATION = [each for each in Operation if each not in (Operation.UNKNOWN, Operation.ANY)]


def names(**flow_settings: Any) -> TopicNames:
    flow = FlowSettings("east", "west", **flow_settings)
    clusters = ClusterSettings("east", ("e:1",)), ClusterSettings("west", ("w:1",))
    return TopicNames(flow, MirrorSettings(clusters, (flow,)))


def acl(
    operation: Operation = Operation.READ,
    name: str = "orders",
    permission: Permission = ALLOW,
    *,
    resource_type: ResourceType = ResourceType.TOPIC,
    pattern_type: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
) -> Acl:
    return Acl(resource_type, name, pattern_type, principal, host, operation, permission)


def test_an_acl_of_a_topic_is_copied_under_the_name_of_its_copy_for_the_same_principal_and_host() -> None:
    read = acl(host="10.0.0.0/8", principal="User:CN=bob,O=x")
    assert plan_acls(names(), [read], []) == [acl(name="east.orders", host=read.host, principal=read.principal)]
    assert plan_acls(names(policy="identity"), [read], []) == [read]
    assert plan_acls(names(policy="marked"), [read], []) == [read]


def test_no_acl_lets_anybody_write_to_a_copy() -> None:
    allowed = {each: plan_acls(names(), [acl(each)], []) for each in EVERY_OPERATION}
    assert allowed.pop(Operation.WRITE) == []
    assert allowed.pop(Operation.ALL) == [acl(Operation.READ, "east.orders")]
    assert allowed == {each: [acl(each, "east.orders")] for each in allowed}


def test_what_is_denied_is_denied_for_the_copy_too() -> None:
    denied = [acl(each, permission=DENY) for each in EVERY_OPERATION]
    assert plan_acls(names(), denied, []) == [acl(each, "east.orders", DENY) for each in EVERY_OPERATION]


@pytest.mark.parametrize(
    "other",
    [
        acl(name="tmp"),
        acl(name="__consumer_offsets"),
        acl(name="west.orders"),
        acl(name="east.checkpoints.internal"),
        acl(name="*"),
        acl(pattern_type=PatternType.PREFIXED),
        acl(resource_type=ResourceType.GROUP),
    ],
    ids=["excluded", "internal", "from the target", "the mirror's", "every topic", "a prefix", "a group"],
)
@pytest.mark.parametrize("policy", ["prefix", "identity"])
def test_only_acls_of_topics_that_the_flow_copies_are_copied(other: Acl, policy: str) -> None:
    assert plan_acls(names(policy=policy, exclude=("tmp", "__.*")), [other, acl()], []) == plan_acls(
        names(policy=policy), [acl()], []
    )


def test_only_what_the_target_lacks_is_created_and_nothing_twice() -> None:
    existing = [acl(), acl(Operation.ALL), acl(Operation.DESCRIBE)]
    copies = [acl(Operation.DESCRIBE, "east.orders"), acl(Operation.WRITE, "east.orders"), acl()]
    assert plan_acls(names(), existing, copies) == [acl(name="east.orders")]
    assert plan_acls(names(), existing, [*copies, acl(name="east.orders")]) == []


@pytest.mark.parametrize("odd", [acl(Operation.UNKNOWN), acl(host="10.0.0.0/99"), acl(principal="alice")])
def test_an_acl_that_no_cluster_takes_keeps_no_other_from_being_copied(odd: Acl) -> None:
    assert plan_acls(names(), [odd, acl()], []) == [acl(name="east.orders")]
