"""Our authorizer beside Kafka's own StandardAuthorizer; and our checks of new ACLs and our filters beside Kafka's.

The names in requests begin with a character that comes after `*`. For others, Kafka 4.4's search for ACLs can fail or
never end: with an ACL for the group `(x`, its authorizer gives no answer about the group `(y`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, replace
from typing import Any

import pytest
from naive_authorizer import random_acl, random_acls, random_name, random_request
from peers.kafka.acl_judge import KafkaAclJudge
from tests.compat.cells import DIFFERS

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.acl_filter import AclFilter
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.resource import SUPPORTED_OPERATIONS, PatternType, ResourceType
from ottla_proto.operation import Operation

SETS = 2500
REQUESTS = 6
CHECKS = 4000
FILTERED = 4000
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
CODES = (*range(8), 99)
ADDRESSES = [
    *("", "*", "10.0.0.1", "somewhere", "::1", "10.0.0.0/8", "10.1.2.3/8", "0.0.0.0/0", "10.0.0.0/32", "10.0.0.0/33"),
    *("10.0.0.0/08", "10.0.0.0/", "/8", "/", "10.0.0.0/8/8", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/ 8", "10.0.0/8"),
    *("10.0.0.256/8", "10.0.0.0/255.0.0.0", "somewhere/8", "*/8", "10.0.0.0/８", "2001:db8::/32", "2001:db8::/129"),
    *("::/0", "::/00", "2001:db8::/0x8", "2001:db8/32", "::ffff:10.0.0.0/104", "::1.2.3.4/100", "1:2:3:4:5:6:7:8/64"),
]
ONLY_KAFKA_TAKES = ("010.0.0.0/8", "[::]/0", "::/+8", "fe80::1%1/64")
"""Ranges whose spelling says one thing to one reader and another to another, or nothing that a range can have."""

ONLY_FOR_FILTERS = ("UNKNOWN_SERVER_ERROR", "INVALID_REQUEST")
"""What Kafka's broker answers to ANY and MATCH in an ACL, because its own class for ACLs can't have them; and what its
controller answers to other values that an ACL can't have."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAclJudge]:
    with KafkaAclJudge() as judge:
        yield judge


@DIFFERS.cell
def test_both_authorizers_decide_alike(kafka: KafkaAclJudge) -> None:
    chance = random.Random(49)
    allowed = 0
    for number in range(SETS):
        acls = list(dict.fromkeys(random_acls(chance)))
        super_users = chance.choice([(), (), ("User:bob",), ("User:bob", "Role:alice")])
        allow_everyone = chance.random() < 0.3
        ours = Authorizer(
            {at.to_bytes(16, "big"): acl for at, acl in enumerate(acls)},
            revision=number,
            super_users=frozenset(super_users),
            allow_everyone_if_no_acl_found=allow_everyone,
        )
        kafka.load([astuple(acl) for acl in acls], super_users, allow_everyone=allow_everyone)
        for _ in range(REQUESTS):
            request = random_request(chance)
            request = replace(request, name=request.name.lstrip("*") or "a")
            who = request.principal, request.host
            what = int(request.operation), int(request.resource_type)
            decided = ours.decide(*who, request.operation, request.resource_type, request.name)
            on_any = ours.decide_any(*who, request.operation, request.resource_type)
            bits = ours.operations_of(*who, request.resource_type, request.name)
            about = f"set {number}, {request}, {[str(acl) for acl in acls]}, {super_users}, {allow_everyone}"
            assert decided.is_allowed is kafka.decide(*who, *what, request.name), about
            assert on_any.is_allowed is kafka.decide_any(*who, *what), about
            assert bits == kafka.operations_of(*who, what[1], request.name), about
            allowed += decided.is_allowed
    assert 0.2 < allowed / (SETS * REQUESTS) < 0.8, "both answers are common"


@DIFFERS.cell
@pytest.mark.parametrize("code", range(20))
def test_codes_have_kafkas_names(kafka: KafkaAclJudge, code: int) -> None:
    ours = [enum(code).name for enum in (ResourceType, PatternType, Permission, Operation)]
    assert ours == kafka.names(code)


@DIFFERS.cell
@pytest.mark.parametrize("resource_type", SUPPORTED_OPERATIONS)
def test_a_resource_supports_the_same_operations(kafka: KafkaAclJudge, resource_type: ResourceType) -> None:
    acl = Acl(resource_type, "*", LITERAL, "User:a", "*", Operation.ALL, Permission.ALLOW)
    kafka.load([astuple(acl)], (), allow_everyone=False)
    ours = Authorizer({b"": acl}, revision=1).operations_of("User:a", "10.0.0.1", resource_type, "r")
    assert ours == kafka.operations_of("User:a", "10.0.0.1", resource_type, "r")


@DIFFERS.cell
def test_every_name_is_every_name(kafka: KafkaAclJudge) -> None:
    """In Kafka, an ACL for `*` is none for a group that begins with `*`, so that whoever is denied has a way around."""
    acls = [
        Acl(ResourceType.GROUP, "*", LITERAL, "User:a", "*", Operation.READ, permission)
        for permission in (Permission.ALLOW, Permission.DENY)
    ]
    acls.append(replace(acls[0], name="*g", pattern_type=PREFIXED))
    kafka.load([astuple(acl) for acl in acls], (), allow_everyone=False)
    ours = Authorizer({at.to_bytes(16, "big"): acl for at, acl in enumerate(acls)}, revision=1)
    for name, kafka_allows in (("g", False), ("*g", True)):
        assert not ours.decide("User:a", "10.0.0.1", Operation.READ, ResourceType.GROUP, name).is_allowed
        assert kafka.decide("User:a", "10.0.0.1", Operation.READ, ResourceType.GROUP, name) is kafka_allows


@DIFFERS.cell
def test_both_take_the_same_new_acls(kafka: KafkaAclJudge) -> None:
    chance = random.Random(50)
    errors: Counter[str] = Counter()
    for _ in range(CHECKS):
        acl = _maybe_invalid(chance)
        errors[_error(acl)] += 1
        assert _error(acl) == kafka.check(astuple(acl)).replace(*ONLY_FOR_FILTERS), acl
    for host in ADDRESSES:
        acl = Acl(ResourceType.TOPIC, "t", LITERAL, "User:a", host, Operation.READ, Permission.ALLOW)
        assert _error(acl) == kafka.check(astuple(acl)), host
    assert errors.keys() == {"NONE", "INVALID_REQUEST"}
    assert min(errors.values()) > CHECKS / 5, "both answers are common"


@DIFFERS.cell
@pytest.mark.parametrize("host", ONLY_KAFKA_TAKES)
def test_ranges_that_only_kafka_takes(kafka: KafkaAclJudge, host: str) -> None:
    acl = Acl(ResourceType.TOPIC, "t", LITERAL, "User:a", host, Operation.READ, Permission.ALLOW)
    assert (_error(acl), kafka.check(astuple(acl))) == ("INVALID_REQUEST", "NONE")


@DIFFERS.cell
@pytest.mark.parametrize("host", ["2001:db8::1", "2001:DB8:0:0:0:0:0:1", "::ffff:10.0.0.1"])
def test_a_host_in_another_spelling_matches_only_here(kafka: KafkaAclJudge, host: str) -> None:
    """Kafka compares texts. There a DENY for `2001:db8::1` has no effect, although KIP-1276 says that it has one."""
    acl = Acl(ResourceType.TOPIC, "t", LITERAL, "User:a", host, Operation.READ, Permission.ALLOW)
    client = "10.0.0.1" if "10." in host else "2001:db8:0:0:0:0:0:1"
    kafka.load([astuple(acl)], (), allow_everyone=False)
    ours = Authorizer({b"": acl}, revision=1).decide("User:a", client, Operation.READ, ResourceType.TOPIC, "t")
    assert ours.is_allowed
    assert not kafka.decide("User:a", client, Operation.READ, ResourceType.TOPIC, "t")


@DIFFERS.cell
def test_filters_match_the_same_acls(kafka: KafkaAclJudge) -> None:
    chance = random.Random(51)
    matched = 0
    for _ in range(FILTERED):
        acl, other = random_acl(chance), random_acl(chance)
        like = chance.choice((acl, other))
        wanted = AclFilter(
            chance.choice((ResourceType.ANY, like.resource_type)),
            chance.choice((None, like.name, random_name(chance), "*")),
            chance.choice((PatternType.ANY, PatternType.MATCH, LITERAL, PREFIXED)),
            chance.choice((None, None, like.principal)),
            chance.choice((None, None, like.host)),
            chance.choice((Operation.ANY, Operation.ANY, like.operation)),
            chance.choice((Permission.ANY, like.permission)),
        )
        assert wanted.matches(acl) is kafka.matches(astuple(wanted), astuple(acl)), f"{wanted} {acl}"
        matched += wanted.matches(acl)
    assert 0.1 < matched / FILTERED < 0.9, "both answers are common"


def _maybe_invalid(chance: random.Random) -> Acl:
    """Return an ACL in which each field is invalid now and then. Kafka checks the cluster's name elsewhere."""
    acl = random_acl(chance)

    def one(usual: Any, *others: Any) -> Any:
        return usual if chance.random() < 0.9 else chance.choice(others)

    return Acl(
        ResourceType(one(acl.resource_type, *(code for code in CODES if code != ResourceType.CLUSTER))),
        one(acl.name, ""),
        PatternType(one(acl.pattern_type, *CODES)),
        one(acl.principal, "", "alice", ":", "User:", ":x", "User:a:b"),
        one(acl.host, *ADDRESSES),
        Operation(one(acl.operation, *range(16), 99)),
        Permission(one(acl.permission, *CODES)),
    )


def _error(acl: Acl) -> str:
    try:
        acl.check()
    except OttlaError as error:
        return error.name
    return ErrorCode.NONE.name
