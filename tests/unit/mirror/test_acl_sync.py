"""What a mirror does about ACLs when a cluster takes none, does not allow it, or has all of them already."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from contextlib import contextmanager
from threading import Event
from typing import Any, cast

import pytest

import ottla
from ottla_core.errors import ErrorCode
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.resource import PatternType, ResourceType
from ottla_mirror.machines.flows import ClusterSettings, FlowSettings, MirrorSettings
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.syncing import acl_sync
from ottla_mirror.syncing.acl_sync import AclSync
from ottla_proto.operation import Operation

DISABLED = ottla.errors.FatalError(ErrorCode.SECURITY_DISABLED, "this cluster has no ACLs")
FORBIDDEN = ottla.AuthorizationError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")


def acl(name: str) -> Acl:
    return Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)


class Side:
    """A cluster, and its admin, that has ACLs. It raises `listing` or `creating`, if they are set."""

    def __init__(self, *acls: Acl) -> None:
        self.acls = set(acls)
        self.listing: ottla.OttlaError | None = None
        self.creating: ottla.OttlaError | None = None
        self.lists, self.creates = 0, 0

    @contextmanager
    def open_admin(self, name: str) -> Any:
        yield self

    def topic_acls(self) -> Collection[Acl]:
        self.lists += 1
        if self.listing:
            raise self.listing
        return set(self.acls)

    def create_acls(self, acls: Iterable[Acl]) -> None:
        self.creates += 1
        if self.creating:
            raise self.creating
        self.acls.update(acls)


class State:
    acts = True


class Steps(Event):
    """The steps of a chore, which do not last. It is stopped after `left` of them."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def wait(self, timeout: float | None = None) -> bool:
        self.left -= 1
        return self.left < 0


def acl_sync_of(east: Side, west: Side, state: State | None = None, **flow_settings: Any) -> AclSync:
    flow = FlowSettings("east", "west", sync_acls=True, **flow_settings)
    settings = MirrorSettings((ClusterSettings("east", ("e:1",)), ClusterSettings("west", ("w:1",))), (flow,))
    fakes = cast("Any", east), cast("Any", west), TopicNames(flow, settings), cast("Any", state or State())
    return AclSync(flow, *fakes)


def run(sync: AclSync, steps: int) -> None:
    """Have it work for so many seconds, and again after an error, as its thread does."""
    stopping = Steps(steps)
    cast("Any", sync).stopping = stopping
    while stopping.left > 0:
        try:
            sync.work()
        except ottla.OttlaError as error:
            sync.trouble = str(error)


def test_acls_are_compared_at_once_and_then_once_in_the_flow_s_interval() -> None:
    east, west = Side(acl("a")), Side()
    sync = acl_sync_of(east, west, sync_acls_interval_s=60)
    run(sync, 1)
    assert west.acls == {acl("east.a")}
    east.acls.add(acl("b"))
    run(sync, 59)
    assert (east.lists, west.creates) == (1, 1)
    run(sync, 1)
    assert west.acls == {acl("east.a"), acl("east.b")}
    run(sync, 60)
    assert (east.lists, west.creates) == (3, 2), "nothing was missing any more"


def test_a_mirror_that_does_not_act_for_its_flow_compares_no_acls_and_does_so_at_once_when_it_acts() -> None:
    east, west, state = Side(acl("a")), Side(), State()
    sync = acl_sync_of(east, west, state)
    run(sync, 1)
    state.acts = False
    run(sync, 1000)
    assert east.lists == 1
    state.acts = True
    run(sync, 1)
    assert east.lists == 2


@pytest.mark.parametrize("side", ["east", "west"])
def test_a_cluster_without_an_authorizer_is_no_trouble_and_is_logged_once(
    side: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clusters = {"east": Side(acl("a")), "west": Side()}
    clusters[side].listing = DISABLED
    sync = acl_sync_of(clusters["east"], clusters["west"], sync_acls_interval_s=10)
    run(sync, 30)
    assert sync.trouble == ""
    assert clusters[side].lists == 3
    assert caplog.messages == [f"flow east->west: no ACLs are copied, because {side} has no authorizer"]
    clusters[side].listing = None
    run(sync, 10)
    assert clusters["west"].acls == {acl("east.a")}


@pytest.mark.parametrize(
    ("side", "fails", "words"),
    [
        ("east", "listing", "may not list the ACLs of east .*; allow it by `ottla acl add USER describe cluster`"),
        ("west", "listing", "may not list the ACLs of west .*; allow it by `ottla acl add USER alter cluster`"),
        ("west", "creating", "may not create ACLs in west .*; allow it by `ottla acl add USER alter cluster`"),
    ],
)
def test_a_right_that_the_mirror_lacks_is_named_and_is_asked_for_every_half_a_minute(
    side: str, fails: str, words: str
) -> None:
    clusters = {"east": Side(acl("a")), "west": Side()}
    setattr(clusters[side], fails, FORBIDDEN)
    sync = acl_sync_of(clusters["east"], clusters["west"])
    run(sync, 1)
    assert re.search(words, sync.trouble)
    assert "(CLUSTER_AUTHORIZATION_FAILED)" in sync.trouble
    run(sync, int(acl_sync._AGAIN_S) - 1)
    assert clusters["east"].lists == 1
    setattr(clusters[side], fails, None)
    run(sync, 1)
    assert (sync.trouble, clusters["west"].acls) == ("", {acl("east.a")})
