"""How coordinators are found, and remembered."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client import named_coordinators
from ottla.client.cluster import ClusterClient
from ottla.client.coordinators import Coordinators
from ottla.client.kafka.apis import FIND_COORDINATOR
from ottla.client.kafka.exchange import Exchange
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka import codec
from ottla_core.kafka.messages import FindCoordinatorRequest, FindCoordinatorResponse
from ottla_core.routing import GROUP, TXN
from ottla_proto import client_pb2
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group

B0, B1 = "b0:1", "b1:1"


class Brokers:
    """A transport to two brokers, which know the coordinator of each name. An int is an error."""

    def __init__(self, version: int = 6) -> None:
        self.version = version
        self.coordinators: dict[str, str | int] = {}
        self.asked: list[tuple[int, list[str]]] = []
        self.called: list[tuple[str, Any]] = []
        self.answers: dict[str, list[Any]] = {}

    def __call__(self, address: str) -> Any:
        return Broker(self, address)


class Broker:
    def __init__(self, brokers: Brokers, address: str) -> None:
        self._brokers = brokers
        self._address = address

    def exchange(self, asked: Exchange[Any], *, timeout: float) -> Any:
        assert (asked.api, timeout > 0) == (FIND_COORDINATOR, True)
        version = self._brokers.version
        body = codec.encode(asked.builder(timeout)(version), version)
        request = codec.decode(FindCoordinatorRequest, body, version)
        names = list(request.coordinator_keys) if version >= 4 else [request.key]
        self._brokers.asked.append((request.key_type, names))
        found = {name: self._found(self._brokers.coordinators.get(name, 15)) for name in names}
        if version >= 4:
            coordinators = [FindCoordinatorResponse.Coordinator(key=name, **found[name]) for name in names]
            response = FindCoordinatorResponse(coordinators=coordinators)
        else:
            response = FindCoordinatorResponse(**found[names[0]])
        return asked.result(codec.decode(FindCoordinatorResponse, codec.encode(response, version), version), "b0:1")

    def _found(self, known: str | int) -> dict[str, Any]:
        if isinstance(known, int):
            return {"error_code": known, "error_message": "no", "node_id": -1, "host": "", "port": -1}
        host, port = known.split(":")
        return {"node_id": 1, "host": host, "port": int(port)}

    def call(self, method: Any, request: Any, *, timeout: float) -> Any:
        if isinstance(request, client_pb2.MetadataRequest):
            brokers = [client_pb2.BrokerNode(id=n, address=address) for n, address in enumerate((B0, B1))]
            return client_pb2.MetadataResponse(brokers=brokers)
        self._brokers.called.append((self._address, request))
        answer = self._brokers.answers[self._address].pop(0)
        if isinstance(answer, OttlaError):
            raise answer
        return answer

    def close(self) -> None: ...


def coordinators_of(brokers: Brokers, kind: str = GROUP) -> Coordinators:
    return Coordinators(ClusterClient([B0], brokers), kind)


@pytest.mark.parametrize("version", FIND_COORDINATOR.versions)
@pytest.mark.parametrize(("kind", "key_type"), [(GROUP, 0), (TXN, 1)])
def test_a_broker_names_the_coordinator_which_is_remembered_until_it_moves(
    version: int, kind: str, key_type: int
) -> None:
    brokers = Brokers(version)
    brokers.coordinators = {"g": B1}
    coordinators = coordinators_of(brokers, kind)
    assert [coordinators.of("g", timeout=1.0) for _ in range(3)] == [B1] * 3
    assert brokers.asked == [(key_type, ["g"])]
    brokers.coordinators = {"g": B0}
    coordinators.forget()
    assert coordinators.of("g", timeout=1.0) == B0


def test_several_names_are_one_request() -> None:
    brokers = Brokers()
    brokers.coordinators = {"a": B0, "b": B1, "c": B0}
    coordinators = coordinators_of(brokers)
    assert coordinators.of("a", timeout=1.0) == B0
    assert coordinators.of_all(["a", "b", "c"], timeout=1.0) == {"a": B0, "b": B1, "c": B0}
    assert brokers.asked == [(0, ["a"]), (0, ["b", "c"])]


def test_names_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_coordinators, "_REMEMBERED", 2)
    brokers = Brokers()
    brokers.coordinators = dict.fromkeys("abc", B0)
    coordinators = coordinators_of(brokers)
    for name in "ababcb":
        coordinators.of(name, timeout=1.0)
    assert [names for _, names in brokers.asked] == [["a"], ["b"], ["c"], ["b"]]


def test_a_broker_that_is_too_old_for_several_names_is_asked_for_one_at_a_time() -> None:
    brokers = Brokers(version=3)
    brokers.coordinators = {"a": B0, "b": B1}
    assert coordinators_of(brokers).of_all(["a", "b"], timeout=1.0) == {"a": B0, "b": B1}
    assert brokers.asked == [(0, ["a"]), (0, ["b"])]


@pytest.mark.parametrize("version", [3, 6])
@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_name_without_a_coordinator_is_reported_and_not_remembered(version: int, code: int) -> None:
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
    brokers.answers = {
        B0: [OttlaError(ErrorCode.NOT_COORDINATOR, "not here")],
        B1: [pb.HeartbeatResponse()],
    }
    coordinators.call("g", Group.HEARTBEAT, pb.HeartbeatRequest(group="g"), timeout=5.0)
    assert [address for address, _ in brokers.called] == [B0, B1]


def test_a_listing_asks_every_broker_and_all_of_them_again_if_one_is_loading() -> None:
    brokers = Brokers()
    a, b = (pb.ListGroupsResponse(groups=[pb.ListedGroup(group=name)]) for name in "ab")
    loading = OttlaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    brokers.answers = {B0: [a, a], B1: [loading, b]}
    responses = coordinators_of(brokers).listed(Group.LIST_GROUPS, pb.ListGroupsRequest(), timeout=5.0)
    assert list(responses) == [a, b]
    assert brokers.asked == []
