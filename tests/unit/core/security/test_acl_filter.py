"""The filter of DescribeAcls and DeleteAcls."""

from __future__ import annotations

import pytest

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.acl_filter import AclFilter
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto.operation import Operation

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED, MATCH, ANY = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY


def acl(name: str, pattern_type: PatternType = LITERAL) -> Acl:
    return Acl(TOPIC, name, pattern_type, "User:alice", "10.0.0.1", Operation.READ, Permission.ALLOW)


ORDERS = acl("orders")


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (AclFilter(), True),
        (AclFilter(resource_type=TOPIC), True),
        (AclFilter(resource_type=GROUP), False),
        (AclFilter(principal="User:alice"), True),
        (AclFilter(principal="User:*"), False),
        (AclFilter(host="10.0.0.1"), True),
        (AclFilter(host="*"), False),
        (AclFilter(host="10.0.0.0/8"), False),
        (AclFilter(operation=Operation.READ), True),
        (AclFilter(operation=Operation.ALL), False),
        (AclFilter(operation=Operation.DESCRIBE), False),
        (AclFilter(permission=Permission.ALLOW), True),
        (AclFilter(permission=Permission.DENY), False),
    ],
)
def test_a_field_matches_itself_or_everything(wanted: AclFilter, *, matches: bool) -> None:
    assert wanted.matches(ORDERS) is matches


@pytest.mark.parametrize(
    ("name", "pattern_type", "finds"),
    [
        ("orders", LITERAL, {"orders"}),
        ("or", LITERAL, set()),
        ("or", PREFIXED, {"or-"}),
        ("orders", PREFIXED, set()),
        ("orders", ANY, {"orders"}),
        ("or", ANY, {"or-"}),
        ("*", ANY, {"*"}),
        ("*", LITERAL, {"*"}),
        ("orders", MATCH, {"orders", "or-", "*"}),
        ("orders.x", MATCH, {"or-", "*"}),
        ("other", MATCH, {"*"}),
        ("*", MATCH, {"*"}),
        (None, MATCH, {"orders", "or-", "*"}),
        (None, ANY, {"orders", "or-", "*"}),
        (None, LITERAL, {"orders", "*"}),
        (None, PREFIXED, {"or-"}),
    ],
)
def test_a_name_is_compared_by_the_type_of_the_pattern(
    name: str | None, pattern_type: PatternType, finds: set[str]
) -> None:
    acls = {"orders": ORDERS, "or-": acl("or", PREFIXED), "*": acl("*")}
    wanted = AclFilter(name=name, pattern_type=pattern_type)
    assert {named for named, each in acls.items() if wanted.matches(each)} == finds


@pytest.mark.parametrize(
    "wanted",
    [
        AclFilter(resource_type=ResourceType.UNKNOWN),
        AclFilter(pattern_type=PatternType.UNKNOWN),
        AclFilter(operation=Operation.UNKNOWN),
        AclFilter(permission=Permission.UNKNOWN),
    ],
)
def test_a_filter_with_an_unknown_code_is_rejected(wanted: AclFilter) -> None:
    with pytest.raises(OttlaError) as rejected:
        wanted.check()
    assert rejected.value.code == ErrorCode.INVALID_REQUEST
    AclFilter().check()
