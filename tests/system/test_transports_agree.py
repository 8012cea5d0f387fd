"""Admin returns the same over Kafka's protocol as over gRPC: what Kafka's messages lack is in private fields."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

import ottla
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.transport import grpc_transport
from ottla.testing import Cluster
from ottla_broker.replication.replica import Replica
from ottla_broker.storage.compaction import Compaction
from ottla_core.model import TopicPartition

WITHOUT_EFFECT = {"preallocate": "true"}

_names = (f"t{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, txn_coordinators=1) as running:
        yield running


@pytest.fixture(scope="module")
def of_grpc(cluster: Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(cluster.bootstrap, _transport=grpc_transport("admin")) as admin:
        yield admin


@pytest.fixture(scope="module")
def of_kafka(cluster: Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(cluster.kafka_bootstrap, _transport=KafkaTransport("admin")) as admin:
        yield admin


@pytest.fixture
def name() -> str:
    return next(_names)


def test_configs(of_grpc: ottla.Admin, of_kafka: ottla.Admin, name: str) -> None:
    of_grpc.topics.create(name, config={"retention.ms": "7d"})
    assert of_kafka.configs.get(topic=name) == of_grpc.configs.get(topic=name)
    assert of_kafka.configs.get(broker=1) == of_grpc.configs.get(broker=1)
    assert not all(config.enforced for config in of_kafka.configs.get(broker=1).values())
    assert of_kafka.configs.of_topics(name) == of_grpc.configs.of_topics(name)


def test_warnings(of_grpc: ottla.Admin, of_kafka: ottla.Admin, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ottla.admin")

    def warnings_of(admin: ottla.Admin, topic: str) -> list[str]:
        caplog.clear()
        admin.topics.create(topic, config=WITHOUT_EFFECT)
        admin.configs.set(WITHOUT_EFFECT, topic=topic)
        return [record.message.replace(topic, "TOPIC") for record in caplog.records if record.name == "ottla.admin"]

    found = warnings_of(of_kafka, f"{name}-kafka")
    assert len(found) == 2
    assert found == warnings_of(of_grpc, f"{name}-grpc")


def test_log_directories(
    of_grpc: ottla.Admin, of_kafka: ottla.Admin, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_grpc.topics.create(name, assignments={0: [0], 1: [0]})
    monkeypatch.setattr(Replica, "has_late_transaction", property(lambda replica: replica.id.partition == 1))
    monkeypatch.setattr(Compaction, "failure", property(lambda _: "a batch is damaged", lambda *_: None), raising=False)
    (found,) = of_kafka.cluster.log_dirs(0)
    assert TopicPartition(name, 1) in found.late_transactions
    assert found.uncleanable[TopicPartition(name, 0)] == "a batch is damaged"
    (expected,) = of_grpc.cluster.log_dirs(0)
    assert found == replace(expected, usable_bytes=found.usable_bytes, replica_bytes=found.replica_bytes)
