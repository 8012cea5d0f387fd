"""Whom a client asks where any broker would do."""

from __future__ import annotations

import pytest

from ottla.client.cluster import ClusterClient
from ottla.client.described_groups import description
from ottla.client.kafka.apis import METADATA
from ottla.client.transport import Connection
from ottla.consumer.group.coordinator import CoordinatorClient
from ottla.errors import AuthenticationError, OttlaError
from ottla.fakes.scripted import Reject, ScriptedCluster
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import MetadataRequest


def asked(brokers: ScriptedCluster) -> list[str]:
    return [address for address, body in brokers.seen if isinstance(body, MetadataRequest)]


def test_a_broker_that_did_not_answer_comes_last_for_a_while() -> None:
    brokers = ScriptedCluster({"t": 1}, brokers=3)
    cluster = ClusterClient(["b0:1"], brokers.connect)
    cluster.fetch_metadata(timeout=5)
    brokers.stop(1)
    for _ in range(9):
        cluster.fetch_metadata(timeout=5)
    assert asked(brokers).count("b1:1") == 1
    brokers.stop(0)
    brokers.stop(2)
    brokers.go_on(1)
    cluster.fetch_metadata(timeout=5)
    assert asked(brokers)[-1] == "b1:1"


@pytest.mark.story("one-bad-certificate")
def test_a_broker_with_a_bad_certificate_keeps_no_client_from_the_others() -> None:
    brokers = ScriptedCluster({"t": 1}, brokers=3)
    cluster = ClusterClient(["b0:1", "b1:1"], brokers.connect)
    brokers.will(METADATA, Reject(ErrorCode.TLS_HANDSHAKE_FAILED))
    cluster.fetch_metadata(timeout=5)
    assert asked(brokers) == ["b0:1", "b1:1"]


@pytest.mark.story("a-broker-that-refers-to-the-bootstrap-addresses-ends-the-client")
def test_a_client_that_has_to_bootstrap_again_asks_the_given_addresses() -> None:
    brokers = ScriptedCluster({"t": 1}, brokers=3)
    cluster = ClusterClient(["b0:1"], brokers.connect)
    cluster.fetch_metadata(timeout=5)
    brokers.will(METADATA, Reject(ErrorCode.REBOOTSTRAP_REQUIRED))
    cluster.fetch_metadata(timeout=5)
    assert asked(brokers)[2:] == ["b0:1"]
    assert len(cluster.view.brokers) == 3


def test_a_client_that_no_broker_s_certificate_convinces_is_told_at_once() -> None:
    brokers = ScriptedCluster({"t": 1}, brokers=2)
    cluster = ClusterClient(["b0:1", "b1:1"], brokers.connect)
    brokers.will(METADATA, *[Reject(ErrorCode.TLS_HANDSHAKE_FAILED)] * 2)
    with pytest.raises(AuthenticationError):
        cluster.fetch_metadata(timeout=5)
    assert asked(brokers) == ["b0:1", "b1:1"]


def test_a_client_that_is_closed_connects_no_more_and_what_lives_with_it_has_ended() -> None:
    brokers = ScriptedCluster({"t": 1})
    cluster = ClusterClient(["b0:1"], brokers.connect)
    ended: list[str] = []
    cluster.at_close(lambda: ended.append("before"))
    cluster.close()
    cluster.close()
    cluster.at_close(lambda: ended.append("after"))
    assert ended == ["before", "after"]
    with pytest.raises(OttlaError, match="the client was closed"):
        cluster.fetch_metadata(timeout=5)
    assert asked(brokers) == []


def test_a_broker_that_answers_with_an_error_is_no_suspect() -> None:
    brokers = ScriptedCluster({"t": 1}, brokers=3)
    cluster = ClusterClient(["b0:1"], brokers.connect)
    cluster.fetch_metadata(timeout=5)
    brokers.will(METADATA, Reject(ErrorCode.NOT_CONTROLLER))
    cluster.fetch_metadata(timeout=5)
    brokers.seen.clear()
    for _ in range(6):
        cluster.fetch_metadata(timeout=5)
    assert set(asked(brokers)) == {"b0:1", "b1:1", "b2:1"}


def test_a_group_that_disconnects_from_its_coordinator_ends_nothing_else_there() -> None:
    """Over Kafka's protocol the coordinator is a broker, which may lead partitions."""
    brokers, opened = ScriptedCluster({"t": 1}, brokers=2), list[str]()

    def connect(address: str) -> Connection:
        opened.append(address)
        return brokers.connect(address)

    cluster = ClusterClient(["b0:1"], connect)
    coordinator = CoordinatorClient(cluster, "g", 5.0)
    assert coordinator.exchange(description("g", lambda group: group.group_id)) == "g"
    assert opened == ["b0:1", "b0:1"]
    others, of_group = cluster.connection("b0:1"), cluster.connection("b0:1", "group")
    assert opened == ["b0:1", "b0:1"]
    brokers.coordinator = 1
    coordinator.leave_if_moved()
    assert cluster.connection("b0:1") is others
    assert cluster.connection("b0:1", "group") is not of_group
    cluster.close()
