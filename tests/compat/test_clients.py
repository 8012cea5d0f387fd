"""Unchanged Kafka clients against a cluster: what each writes, each reads, and so does the SDK over gRPC."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from kafka_clients import CLIENTS, Client, Rec
from waiting import wait_until

import ottla
from ottla_stack.cluster import Cluster

pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

_names = (f"compat-{n}" for n in itertools.count())
BASE_MS = 1_700_000_000_000
ALL = [pytest.param(client, id=client.name) for client in CLIENTS]
PLAIN = [Rec(b"k-%d" % n, b"value-%d" % n, (), BASE_MS + n) for n in range(50)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def create(cluster: Cluster, partitions: int = 1, **more: Any) -> str:
    name = next(_names)
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(name, partitions=partitions, **more)
    return name


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return create(cluster)


@pytest.mark.rule(66)
@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("client", ALL)
def test_acks(cluster: Cluster, topic: str, client: Client, acks: int) -> None:
    offsets = client.produce(cluster.kafka_bootstrap, topic, PLAIN, acks=acks)
    assert offsets == ([-1] * len(PLAIN) if acks == 0 else list(range(len(PLAIN))))
    wait_until(lambda: len(cluster.read(topic, value="bytes")) == len(PLAIN))
    assert client.consume(cluster.kafka_bootstrap, topic, len(PLAIN)) == PLAIN


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("client", ALL)
def test_what_one_writes_with_a_codec_all_read(cluster: Cluster, topic: str, client: Client, codec: str) -> None:
    records = [r._replace(value=b"compressible " * 20 + b"%d" % n) for n, r in enumerate(PLAIN)]
    client.produce(cluster.kafka_bootstrap, topic, records, codec=codec)
    for reader in CLIENTS:
        assert reader.consume(cluster.kafka_bootstrap, topic, len(records)) == records, reader.name
    assert [r.value for r in cluster.read(topic, value="bytes")] == [r.value for r in records]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_the_sdk_writes_with_a_codec_all_read(cluster: Cluster, topic: str, codec: str) -> None:
    values = [b"compressible " * 20 + b"%d" % n for n in range(50)]
    cluster.produce(topic, values, compression=codec)
    for reader in CLIENTS:
        got = reader.consume(cluster.kafka_bootstrap, topic, len(values))
        assert [r.value for r in got] == values, reader.name


@pytest.mark.parametrize("client", ALL)
def test_headers_null_keys_and_null_values(cluster: Cluster, topic: str, client: Client) -> None:
    records = [
        Rec(None, b"no key"),
        Rec(b"tombstone", None),
        Rec(b"", b""),
        Rec(b"k", b"v", (("a", b"1"), ("a", b"2"), ("ümlaut", b"\xff\0"))),
    ]
    client.produce(cluster.kafka_bootstrap, topic, records)
    for reader in CLIENTS:
        assert reader.consume(cluster.kafka_bootstrap, topic, len(records)) == records, reader.name


@pytest.mark.parametrize("client", ALL)
def test_from_an_offset_and_from_a_time(cluster: Cluster, topic: str, client: Client) -> None:
    client.produce(cluster.kafka_bootstrap, topic, PLAIN)
    assert client.consume(cluster.kafka_bootstrap, topic, 3, offset=20)[:3] == PLAIN[20:23]
    assert client.offset_for_time(cluster.kafka_bootstrap, topic, BASE_MS + 30) == 30
    assert client.offset_for_time(cluster.kafka_bootstrap, topic, BASE_MS) == 0
    assert client.offset_for_time(cluster.kafka_bootstrap, topic, BASE_MS + 1_000) in (None, len(PLAIN))


@pytest.mark.parametrize("client", ALL)
def test_an_idempotent_producer(cluster: Cluster, topic: str, client: Client) -> None:
    assert client.produce(cluster.kafka_bootstrap, topic, PLAIN, idempotent=True) == list(range(len(PLAIN)))
    assert [r.value for r in cluster.read(topic, value="bytes")] == [r.value for r in PLAIN]


@pytest.mark.parametrize("client", ALL)
def test_large_messages(cluster: Cluster, client: Client) -> None:
    topic = create(cluster, config={"max.message.bytes": "6000000"})
    records = [Rec(b"large", bytes([n]) * 5_000_000) for n in range(3)]
    client.produce(cluster.kafka_bootstrap, topic, records)
    assert client.consume(cluster.kafka_bootstrap, topic, 3) == records


@pytest.mark.rule(27)
@pytest.mark.parametrize("client", ALL)
def test_the_leader_dies_in_the_middle(client: Client) -> None:
    """Every acknowledged record is there once, in order."""
    with Cluster(brokers=3) as cluster:
        topic = create(cluster, replicas=3)
        with ottla.Admin(cluster.bootstrap) as admin:
            leader = admin.topics.describe(topic)[0].partitions[0].leader

        def records() -> Iterator[Rec]:
            for n in range(600):
                if n == 300:
                    cluster.brokers[leader].kill()
                yield Rec(None, b"%d" % n)

        offsets = client.produce(cluster.kafka_bootstrap, topic, records(), idempotent=True)
        assert offsets == list(range(600))
        wanted = [b"%d" % n for n in range(600)]
        assert [r.value for r in client.consume(cluster.kafka_bootstrap, topic, 600)] == wanted
