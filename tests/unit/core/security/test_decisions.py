"""The decisions that a connection has already got."""

from __future__ import annotations

from ottla_core.security.acl import Acl, Permission
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.decision import Decision
from ottla_core.security.decisions import Decisions
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto.operation import Operation

TOPIC = ResourceType.TOPIC


class Counting(Authorizer):
    """An authorizer that counts what it is asked."""

    asked = 0

    def decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        self.asked += 1
        return super().decide(principal, host, operation, resource_type, name)


def counting(revision: int, *permissions: Permission) -> Counting:
    acls = [
        Acl(TOPIC, "t", PatternType.PREFIXED, "User:alice", "10.0.0.1", Operation.WRITE, each) for each in permissions
    ]
    return Counting({at.to_bytes(16, "big"): acl for at, acl in enumerate(acls)}, revision=revision)


def test_the_same_question_is_asked_once() -> None:
    authorizer, decisions = counting(1, Permission.ALLOW), Decisions("User:alice", "10.0.0.1")
    for _ in range(3):
        assert decisions.decide(authorizer, Operation.WRITE, TOPIC, "t1").is_allowed
        assert decisions.decide(authorizer, Operation.DESCRIBE, TOPIC, "t1").is_allowed
        assert not decisions.decide(authorizer, Operation.READ, TOPIC, "t1").is_allowed
        assert not decisions.decide(authorizer, Operation.WRITE, ResourceType.GROUP, "t1").is_allowed
        assert decisions.decide(authorizer, Operation.WRITE, TOPIC, "t2").is_allowed
        assert not decisions.decide(authorizer, Operation.WRITE, TOPIC, "u").is_allowed
        assert decisions.decide_any(authorizer, Operation.WRITE, TOPIC).is_allowed
        assert not decisions.decide_any(authorizer, Operation.READ, TOPIC).is_allowed
    assert (authorizer.asked, len(decisions)) == (8, 8)


def test_another_revision_is_asked_anew() -> None:
    decisions = Decisions("User:alice", "10.0.0.1")
    for revision, permissions, is_allowed in (
        (4, [Permission.ALLOW], True),
        (5, [Permission.ALLOW, Permission.DENY], False),
        (6, [], False),
        (7, [Permission.ALLOW], True),
        (3, [], False),
    ):
        authorizer = counting(revision, *permissions)
        assert decisions.decide(authorizer, Operation.WRITE, TOPIC, "t1").is_allowed is is_allowed
        assert decisions.decide_any(authorizer, Operation.WRITE, TOPIC).is_allowed is is_allowed
        assert len(decisions) == 2


def test_decisions_are_bounded() -> None:
    authorizer, decisions = counting(1, Permission.ALLOW), Decisions("User:alice", "10.0.0.1", most_entries=10)
    for at in range(25):
        assert decisions.decide(authorizer, Operation.WRITE, TOPIC, f"t{at}").is_allowed
        assert 1 <= len(decisions) <= 10


def test_a_long_name_is_not_kept() -> None:
    authorizer, decisions = counting(1, Permission.ALLOW), Decisions("User:alice", "10.0.0.1")
    assert decisions.decide(authorizer, Operation.WRITE, TOPIC, "t" * 249).is_allowed
    assert decisions.decide(authorizer, Operation.WRITE, TOPIC, "t" * 250).is_allowed
    assert len(decisions) == 1
