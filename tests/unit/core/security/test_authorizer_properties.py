"""The authorizer beside one that looks at every ACL."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_authorizer import (
    ACL_HOSTS,
    ACL_PRINCIPALS,
    HOSTS,
    OPERATIONS,
    PRINCIPALS,
    TYPES,
    NaiveAuthorizer,
    Request,
    matches_resource,
    random_acls,
    random_request,
)

from ottla_core.security.acl import Acl, Permission
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.decision import Decision
from ottla_core.security.decisions import Decisions
from ottla_core.security.resource import SUPPORTED_OPERATIONS, PatternType
from ottla_proto.operation import Operation

NAMES = st.text("ab*#", min_size=1, max_size=4) | st.sampled_from(["*", "h", "hardcode"])
ACLS = st.builds(
    Acl,
    st.sampled_from(TYPES),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(ACL_PRINCIPALS),
    st.sampled_from(ACL_HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
REQUESTS = st.builds(
    Request,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS[1:]),
    st.sampled_from(TYPES),
    NAMES,
)
SUPER_USERS = st.sampled_from([frozenset[str](), frozenset({"User:bob"})])


def check(naive: NaiveAuthorizer, request: Request) -> None:
    authorizer = Authorizer(
        {at.to_bytes(16, "big"): acl for at, acl in enumerate(naive.acls)},
        revision=1,
        super_users=naive.super_users,
        allow_everyone_if_no_acl_found=naive.allow_everyone,
    )
    who, operation, kind, name = (
        (request.principal, request.host),
        request.operation,
        request.resource_type,
        request.name,
    )
    decision = authorizer.decide(*who, operation, kind, name)
    assert decision.is_allowed is naive.is_allowed(request)
    check_rule(decision, naive.acls)
    if isinstance(decision.rule, Acl):
        assert matches_resource(decision.rule, request)
    decision_on_any = authorizer.decide_any(*who, operation, kind)
    assert decision_on_any.is_allowed is naive.is_allowed_on_any(request)
    check_rule(decision_on_any, naive.acls)
    decisions = Decisions(*who)
    for _ in range(2):
        assert decisions.decide(authorizer, operation, kind, name) == decision
        assert decisions.decide_any(authorizer, operation, kind) == decision_on_any
    bits = authorizer.operations_of(*who, kind, name)
    for each in Operation:
        is_allowed = naive.is_allowed(Request(*who, each, kind, name))
        assert bool(bits >> each & 1) is (each in SUPPORTED_OPERATIONS[kind] and is_allowed)


def check_rule(decision: Decision, acls: Sequence[Acl]) -> None:
    if isinstance(decision.rule, Acl):
        assert decision.rule in acls
        assert (decision.rule.permission is Permission.ALLOW) is decision.is_allowed


@given(st.lists(ACLS, max_size=8), REQUESTS, SUPER_USERS, st.booleans())
def test_it_decides_as_who_looks_at_every_acl(
    acls: list[Acl], request: Request, super_users: frozenset[str], allow_everyone: bool
) -> None:
    check(NaiveAuthorizer(acls, super_users, allow_everyone), request)


@pytest.mark.parametrize("seed", range(8))
def test_it_decides_so_among_many_acls_that_meet(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        check(NaiveAuthorizer(random_acls(chance, most=40), frozenset(), chance.random() < 0.3), random_request(chance))
