"""Which users and roles etcd is asked for, by what it has already."""

from __future__ import annotations

from dataclasses import replace

from google.protobuf.message import Message

from ottla_proto import etcd_pb2 as pb
from ottla_stack.etcd_roles import ROLE, ROOT, Found, Wanted, changes

WANTED = Wanted("/ottla/c/", ["broker-0"], ["etcd"])
DONE = Found([WANTED.permission], {ROOT: [ROOT], "broker-0": [ROLE], "etcd": []})


def requested(found: Found) -> list[Message]:
    return list(changes(WANTED, found))


def test_an_etcd_that_has_everything_is_asked_for_nothing() -> None:
    assert requested(DONE) == []


def test_the_role_permits_the_keys_that_begin_with_the_prefix_and_no_others() -> None:
    assert WANTED.permission == pb.Permission(
        permType=pb.Permission.READWRITE, key=b"/ottla/c/", range_end=b"/ottla/c0"
    )


def test_an_empty_etcd_gets_the_role_before_those_who_have_it() -> None:
    names = [type(request).__name__ for request in requested(Found(None, {}))]
    assert names[:2] == ["AuthRoleAddRequest", "AuthRoleGrantPermissionRequest"]
    assert names.count("AuthUserAddRequest") == 3


def test_a_permission_of_the_role_that_is_not_wanted_is_revoked() -> None:
    more = pb.Permission(permType=pb.Permission.READ, key=b"/", range_end=b"0")
    revoked = pb.AuthRoleRevokePermissionRequest(role=ROLE, key=b"/", range_end=b"0")
    assert requested(replace(DONE, permissions=[WANTED.permission, more])) == [revoked]


def test_a_user_of_ours_with_a_role_too_many_loses_it() -> None:
    roles = {**DONE.roles, "broker-0": [ROLE, ROOT], "etcd": [ROLE]}
    expected = [pb.AuthUserRevokeRoleRequest(name="broker-0", role=ROOT)]
    expected += [pb.AuthUserRevokeRoleRequest(name="etcd", role=ROLE)]
    assert requested(replace(DONE, roles=roles)) == expected


def test_a_service_that_is_gone_loses_its_role_and_another_s_user_stays() -> None:
    roles = {**DONE.roles, "broker-1": [ROLE], "backup": ["reader"]}
    assert requested(replace(DONE, roles=roles)) == [pb.AuthUserRevokeRoleRequest(name="broker-1", role=ROLE)]
