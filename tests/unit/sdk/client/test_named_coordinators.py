"""How coordinators are found, and remembered."""

from __future__ import annotations

import pytest
from answering import Answer, AnsweringBrokers

from ottla.admin.group_descriptions import listing
from ottla.client import named_coordinators
from ottla.client.cluster import ClusterClient
from ottla.client.coordinators import Coordinators
from ottla.client.kafka.apis import FIND_COORDINATOR, HEARTBEAT, LIST_GROUPS
from ottla.consumer.group.heartbeats import heartbeat
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.membership import MemberIdentity
from ottla_core.kafka.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ottla_core.routing import GROUP, TXN

B0, B1 = "b0:1", "b1:1"


class Brokers(AnsweringBrokers):
    """Two brokers, which know the coordinator of each name."""

    def __init__(self, version: int = 6) -> None:
        super().__init__(brokers=2)
        self.versions = {FIND_COORDINATOR.name: version}

    def searches(self) -> list[tuple[int, list[str]]]:
        """Return the kind and the names in each search."""
        return [
            (each.key_type, list(each.coordinator_keys) or [each.key]) for each in self.requests(FindCoordinatorRequest)
        ]


def coordinators_of(brokers: Brokers, kind: str = GROUP) -> Coordinators:
    return Coordinators(ClusterClient([B0], brokers.connect), kind)


@pytest.mark.parametrize("version", FIND_COORDINATOR.versions)
@pytest.mark.parametrize(("kind", "key_type"), [(GROUP, 0), (TXN, 1)])
def test_a_broker_names_the_coordinator_which_is_remembered_until_it_moves(
    version: int, kind: str, key_type: int
) -> None:
    brokers = Brokers(version)
    brokers.coordinators = {"g": B1}
    coordinators = coordinators_of(brokers, kind)
    assert [coordinators.of("g", timeout=1.0) for _ in range(3)] == [B1] * 3
    assert brokers.searches() == [(key_type, ["g"])]
    brokers.coordinators = {"g": B0}
    coordinators.forget()
    assert coordinators.of("g", timeout=1.0) == B0


def test_several_names_are_one_request() -> None:
    brokers = Brokers()
    brokers.coordinators = {"a": B0, "b": B1, "c": B0}
    coordinators = coordinators_of(brokers)
    assert coordinators.of("a", timeout=1.0) == B0
    assert coordinators.of_all(["a", "b", "c"], timeout=1.0) == {"a": B0, "b": B1, "c": B0}
    assert brokers.searches() == [(0, ["a"]), (0, ["b", "c"])]


def test_names_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_coordinators, "_REMEMBERED", 2)
    brokers = Brokers()
    brokers.coordinators = dict.fromkeys("abc", B0)
    coordinators = coordinators_of(brokers)
    for name in "ababcb":
        coordinators.of(name, timeout=1.0)
    assert [names for _, names in brokers.searches()] == [["a"], ["b"], ["c"], ["b"]]


def test_a_broker_that_is_too_old_for_several_names_is_asked_for_one_at_a_time() -> None:
    brokers = Brokers(version=3)
    brokers.coordinators = {"a": B0, "b": B1}
    assert coordinators_of(brokers).of_all(["a", "b"], timeout=1.0) == {"a": B0, "b": B1}
    assert brokers.searches() == [(0, ["a"]), (0, ["b"])]


@pytest.mark.parametrize("version", [3, 6])
@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_name_without_a_coordinator_is_reported_and_not_remembered(version: int, code: ErrorCode) -> None:
    brokers = Brokers(version)
    brokers.coordinators = {"g": code}
    coordinators = coordinators_of(brokers)
    with pytest.raises(OttlaError, match="the group 'g' has no coordinator at the moment") as raised:
        coordinators.of("g", timeout=1.0)
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert raised.value.hint == "try again; a new cluster has no coordinators in its first seconds"
    brokers.coordinators = {"g": B1}
    assert coordinators.of("g", timeout=1.0) == B1


@pytest.mark.parametrize("version", [3, 6])
def test_another_error_is_raised_as_the_broker_reports_it(version: int) -> None:
    brokers = Brokers(version)
    brokers.coordinators = {"a": B0, "g": ErrorCode.INVALID_GROUP_ID}
    with pytest.raises(OttlaError, match="no") as raised:
        coordinators_of(brokers).of_all(["a", "g"], timeout=1.0)
    assert raised.value.code == ErrorCode.INVALID_GROUP_ID


def test_a_call_follows_the_coordinator() -> None:
    brokers = Brokers()
    brokers.coordinators = {"g": B0}
    coordinators = coordinators_of(brokers)
    assert coordinators.of("g", timeout=1.0) == B0
    brokers.coordinators = {"g": B1}
    answers: Answer = {B0: OttlaError(ErrorCode.NOT_COORDINATOR, "not here"), B1: HeartbeatResponse()}
    brokers.answers = {HEARTBEAT.name: answers}
    coordinators.exchange("g", heartbeat("g", MemberIdentity()), timeout=5.0)
    assert [address for address, _, request in brokers.asked if isinstance(request, HeartbeatRequest)] == [B0, B1]


def test_a_listing_asks_every_broker_and_all_of_them_again_if_one_is_loading() -> None:
    brokers = Brokers()
    a, b = (ListGroupsResponse(groups=[ListGroupsResponse.ListedGroup(group_id=name)]) for name in "ab")
    loading = OttlaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    brokers.answers = {LIST_GROUPS.name: {B0: a, B1: [loading, b]}}
    listings = coordinators_of(brokers).listed(listing(()), timeout=5.0)
    assert [group.name for each in listings for group in each.found] == ["a", "b"]
    asked = [address for address, _, request in brokers.asked if isinstance(request, ListGroupsRequest)]
    assert (asked, brokers.searches()) == ([B0, B1, B0, B1], [])
