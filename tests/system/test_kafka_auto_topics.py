"""Topics that are created because a client of Kafka's protocol names them, and those that are not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_clients import CLIENTS, Client, Rec
from tests.fuzz.kafka_wire import KafkaWire
from waiting import wait_until

import ottla
from ottla_core.errors import ErrorCode
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

_names = (f"auto-{n}" for n in itertools.count())
_SAYS_FROM = 4
"""From this version of Metadata on a client says whether it wants topics to be created."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[KafkaWire]:
    with KafkaWire(cluster.bootstrap) as kafka:
        yield kafka


def named(kafka: KafkaWire, *names: str, version: int = 12, allowed: bool = True) -> list[Any]:
    """What Metadata tells of these topics."""
    topics = [MetadataRequest.MetadataRequestTopic(topic_id=None, name=name) for name in names]
    request = MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=allowed,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return list(kafka.ask(request, version, MetadataResponse).topics)


@contextmanager
def configured(admin: ottla.Admin, kafka: KafkaWire, name: str, value: object) -> Iterator[None]:
    """A config of the cluster, as it was afterwards; the broker hears of it in a moment."""
    before = admin.configs.get()[name].value
    try:
        admin.configs.set({name: value})
        yield
    finally:
        admin.configs.set({name: before})


@pytest.mark.parametrize("version", [0, 3, _SAYS_FROM, 12])
def test_a_topic_that_is_named_is_created_with_the_clusters_defaults(
    admin: ottla.Admin, kafka: KafkaWire, version: int
) -> None:
    name = next(_names)
    (told,) = named(kafka, name, version=version)
    assert (told.error_code, told.name, [p.leader_id for p in told.partitions]) == (0, name, [0])
    assert [len(t.partitions) for t in admin.topics.describe(name)] == [1]
    (again,) = named(kafka, name, version=version)
    assert (again.error_code, again.topic_id) == (0, told.topic_id)


@pytest.mark.parametrize("version", [_SAYS_FROM, 12])
def test_a_client_that_does_not_want_it_gets_no_topic(admin: ottla.Admin, kafka: KafkaWire, version: int) -> None:
    name = next(_names)
    (told,) = named(kafka, name, version=version, allowed=False)
    assert told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not admin.topics.exists(name)


def test_a_name_that_is_not_legal_is_told(kafka: KafkaWire) -> None:
    (illegal,) = named(kafka, "not legal")
    assert illegal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_of_very_many_names_some_are_created_at_a_time(admin: ottla.Admin, kafka: KafkaWire) -> None:
    prefix = next(_names)
    names = [f"{prefix}-{n}" for n in range(130)]
    codes = [topic.error_code for topic in named(kafka, *names)]
    assert set(codes) == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert codes.count(0) <= 100  # fewer where the controller is slow: the client retries
    wait_until(lambda: {topic.error_code for topic in named(kafka, *names)} == {0})


def test_where_it_is_disabled_nothing_is_created(admin: ottla.Admin, kafka: KafkaWire) -> None:
    with configured(admin, kafka, "auto.create.topics.enable", "false"):
        wait_until(lambda: named(kafka, next(_names))[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        name = next(_names)
        assert named(kafka, name)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not admin.topics.exists(name)
    wait_until(lambda: named(kafka, name)[0].error_code == 0)


def test_the_defaults_are_the_clusters_and_a_refusal_is_told(admin: ottla.Admin, kafka: KafkaWire) -> None:
    with configured(admin, kafka, "num.partitions", 3):
        wait_until(lambda: len(named(kafka, next(_names))[0].partitions) == 3)
        assert [len(topic.partitions) for topic in named(kafka, next(_names), next(_names))] == [3, 3]
    with configured(admin, kafka, "default.replication.factor", 9):
        wait_until(lambda: named(kafka, next(_names))[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR)
        refused = next(_names)
        assert named(kafka, refused)[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert not admin.topics.exists(refused)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_who_produces_to_a_topic_that_is_not_there_finds_it(cluster: Cluster, client: Client) -> None:
    name = next(_names)
    assert client.produce(cluster.bootstrap, name, [Rec(b"k", b"v")]) == [0]
    assert [r.value for r in client.consume(cluster.bootstrap, name, 1)] == [b"v"]
