"""ACLs are created and deleted by decisions of the controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from images import image_of

from ottla_controller.machines import acls
from ottla_controller.machines.acls import decide_create_acls, decide_delete_acls
from ottla_controller.machines.decision import Decision
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.acl_filter import AclFilter
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto.operation import Operation


def ids() -> Iterator[bytes]:
    return (n.to_bytes(16, "big") for n in range(1000))


def acl(name: str, principal: str = "User:alice", permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(ResourceType.TOPIC, name, PatternType.LITERAL, principal, "*", Operation.READ, permission)


def after(image: ClusterImage, decision: Decision[Any]) -> ClusterImage:
    return image.with_changes([write.change for write in decision.writes], image.revision + 1)


def created(*wanted: Acl) -> ClusterImage:
    image = image_of(1)
    return after(image, decide_create_acls(image, wanted, new_id=ids().__next__))


def test_an_acl_that_exists_is_not_created_again() -> None:
    image = created(acl("a"))
    new_id = iter([b"n" * 16]).__next__
    decision = decide_create_acls(image, [acl("a"), acl("b"), acl("b")], new_id=new_id)
    assert decision.response == [None, None, None]
    assert list(after(image, decision).acls.values()) == [acl("a"), acl("b")]


def test_an_invalid_acl_is_rejected_and_the_others_are_created() -> None:
    image = image_of(1)
    decision = decide_create_acls(image, [acl(""), acl("a")], new_id=ids().__next__)
    assert [getattr(error, "code", None) for error in decision.response] == [ErrorCode.INVALID_REQUEST, None]
    assert list(after(image, decision).acls.values()) == [acl("a")]


def test_the_number_of_acls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "MAX_ACLS", 2)
    decision = decide_create_acls(created(acl("a")), [acl("b"), acl("a"), acl("c")], new_id=ids().__next__)
    assert [getattr(error, "code", None) for error in decision.response] == [None, None, ErrorCode.POLICY_VIOLATION]


def test_the_number_of_acls_that_one_request_changes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    image = created(acl("a"), acl("b"))
    monkeypatch.setattr(acls, "MAX_PER_REQUEST", 1)
    with pytest.raises(OttlaError, match="creates 2 ACLs, and one request changes 1 at most"):
        decide_create_acls(image, [acl("c"), acl("d")], new_id=ids().__next__)
    with pytest.raises(OttlaError, match="deletes 2 ACLs"):
        decide_delete_acls(image, [AclFilter()])


def test_each_filter_reports_all_acls_that_it_matched() -> None:
    """One ACL may be matched by two filters. It is deleted once."""
    image = created(acl("a"), acl("b"), acl("b", "User:bob"))
    decision = decide_delete_acls(image, [AclFilter(name="b"), AclFilter(principal="User:bob"), AclFilter(name="c")])
    bobs = acl("b", "User:bob")
    assert decision.response == [[acl("b"), bobs], [bobs], []]
    assert len(decision.writes) == 2
    assert list(after(image, decision).acls.values()) == [acl("a")]


def test_a_filter_of_names_that_match_finds_other_names() -> None:
    image = created(acl("a"), acl("*"))
    decision = decide_delete_acls(image, [AclFilter(name="a", pattern_type=PatternType.MATCH), AclFilter(name="a")])
    assert decision.response == [[acl("a"), acl("*")], [acl("a")]]


def test_filters_are_compared_with_a_bounded_number_of_acls(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 filters in a cluster with 100,000 ACLs would stop the controller for an hour."""
    image = created(acl("a"), acl("b"))
    with pytest.raises(OttlaError, match="has 10001 filters of ACLs, and one request changes 10000 at most"):
        decide_delete_acls(image, [AclFilter(name="a")] * 10_001)
    monkeypatch.setattr(acls, "_MOST_COMPARISONS", 3)
    with pytest.raises(OttlaError, match="compared with 3 ACLs at most"):
        decide_delete_acls(image, [AclFilter(principal="User:bob")] * 2)
    assert decide_delete_acls(image, [AclFilter(name="a")] * 3).response == [[acl("a")]] * 3


def test_a_filter_that_this_release_does_not_know_deletes_nothing() -> None:
    image = created(acl("a"))
    decision = decide_delete_acls(image, [AclFilter(operation=Operation.UNKNOWN), AclFilter(name="c")])
    rejected, matched = decision.response
    assert (getattr(rejected, "code", None), matched) == (ErrorCode.INVALID_REQUEST, [])
    assert not decision.writes


def test_the_revision_of_the_acls_is_that_of_their_last_change() -> None:
    image = created(acl("a"))
    assert image.acls_revision == image.revision
    later = image.with_changes([], image.revision + 5)
    assert later.acls_revision == image.revision
