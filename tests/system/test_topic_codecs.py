"""A topic's compression.type decides in which codec its records are on disk, whatever their producers have chosen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka_clients import CLIENTS, Client, Rec
from log_tools import segments
from waiting import wait_until

import ottla
from ottla.testing import Cluster
from ottla_core.records.batch import iter_headers
from ottla_core.records.compression import Codec

SETTINGS = {
    "producer": Codec.SNAPPY,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""The values of compression.type, and the codec on disk of batches that were sent with snappy."""
RECORDS = [Rec(b"key-%d" % n, b"value %d of a few that are alike; " % n * 9, (("h", b"x"),)) for n in range(300)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, txn_coordinators=1) as cluster:
        yield cluster


def on_disk(cluster: Cluster, admin: ottla.Admin, topic: str) -> list[str]:
    """Return the codec of each batch, which both replicas agree on. Markers of transactions are left out."""
    [info] = admin.topics.describe(topic)
    logs = [broker.data_dir / f"{info.id.replace('-', '')}-0" for broker in cluster.brokers]
    ours, theirs = (b"".join(path.read_bytes() for path in segments(log)) for log in logs)
    headers = [header for _, header in iter_headers(ours) if not header.is_control]
    assert headers == [header for _, header in iter_headers(theirs) if not header.is_control]
    return [Codec(header.codec).label for header in headers]


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    with ottla.Consumer(topic, bootstrap=cluster.bootstrap, start="earliest", stop="end", value="bytes") as consumer:
        return [record.value for record in consumer]


@pytest.mark.story("codec-of-the-topic-is-ignored")
@pytest.mark.parametrize("setting", SETTINGS)
def test_records_are_stored_in_the_codec_of_the_topic(cluster: Cluster, admin: ottla.Admin, setting: str) -> None:
    topic = f"t-{setting}"
    admin.topics.create(topic, partitions=1, replicas=2, config={"compression.type": setting})
    with ottla.Producer(cluster.bootstrap, topic=topic, compression="snappy", acks="all", value="bytes") as producer:
        for record in RECORDS:
            producer.send(record.value)
    assert set(on_disk(cluster, admin, topic)) == {SETTINGS[setting].label}
    assert values(cluster, topic) == [record.value for record in RECORDS]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_client_writes_and_reads_a_topic_with_a_codec(
    cluster: Cluster, admin: ottla.Admin, client: Client
) -> None:
    for setting in ("uncompressed", "lz4", "zstd"):
        topic = f"{client.name}-{setting}"
        admin.topics.create(topic, partitions=1, replicas=2, config={"compression.type": setting})
        client.produce(cluster.bootstrap, topic, RECORDS, codec="gzip", idempotent=True)
        assert set(on_disk(cluster, admin, topic)) == {SETTINGS[setting].label}
        assert client.consume(cluster.bootstrap, topic, len(RECORDS)) == RECORDS


def test_a_transaction_is_stored_in_the_codec_of_the_topic(cluster: Cluster, admin: ottla.Admin) -> None:
    admin.topics.create("in-transactions", partitions=1, replicas=2, config={"compression.type": "zstd"})
    with (
        ottla.Producer(cluster.bootstrap, transactional_id="t", compression="gzip", value="bytes") as producer,
        producer.transaction(),
    ):
        for record in RECORDS:
            producer.send(record.value, topic="in-transactions")
    assert set(on_disk(cluster, admin, "in-transactions")) == {"zstd"}
    # The transaction is decided once its producer has the answer, and its records are visible a moment later.
    wait_until(lambda: values(cluster, "in-transactions") == [record.value for record in RECORDS])


def test_a_change_takes_effect_while_a_producer_goes_on(cluster: Cluster, admin: ottla.Admin) -> None:
    admin.topics.create("changed", partitions=1, replicas=2)
    with ottla.Producer(
        cluster.bootstrap, topic="changed", compression="snappy", acks="all", value="bytes", linger=0
    ) as producer:

        def stored_in(codec: str) -> bool:
            producer.send(RECORDS[0].value).result(60)
            return on_disk(cluster, admin, "changed")[-1] == codec

        assert stored_in("snappy")
        admin.configs.set({"compression.type": "zstd"}, topic="changed")
        wait_until(lambda: stored_in("zstd"))
        admin.configs.set({"compression.type": "producer"}, topic="changed")
        wait_until(lambda: stored_in("snappy"))
        admin.configs.set({"compression.type": "gzip"})
        assert stored_in("snappy"), "the topic's own value comes before the brokers'"
        admin.configs.unset("compression.type", topic="changed")
        wait_until(lambda: stored_in("gzip"))
        admin.configs.unset("compression.type")
        wait_until(lambda: stored_in("snappy"))
    assert set(values(cluster, "changed")) == {RECORDS[0].value}
