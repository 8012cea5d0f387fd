"""Records that keep a batch from being taken are named, and clients send the others again (KIP-467)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

import ottla
from ottla.testing import Cluster

RECORDS = [(b"a", b"1"), (None, b"2"), (b"b", b"3"), (None, b"4"), (b"c", b"5")]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(group_coordinators=0) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create("compacted", config={"cleanup.policy": "compact"})
        yield cluster


def test_librdkafka_blames_the_records_without_a_key_and_sends_the_others_again(cluster: Cluster) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "linger.ms": 10_000, "enable.idempotence": False}
    producer = Producer(settings)
    errors: dict[bytes | None, KafkaError | None] = {}

    def send(records: list[tuple[bytes | None, bytes]]) -> None:
        for key, value in records:
            producer.produce("compacted", value, key, on_delivery=lambda e, m: errors.update({m.value(): e}))
        assert producer.flush(60) == 0, "all at once: a flush lingers for nothing"

    send(RECORDS)
    codes = {value: error.code() for value, error in errors.items() if error is not None}
    bad, innocent = KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD
    assert codes == {b"1": innocent, b"2": bad, b"3": innocent, b"4": bad, b"5": innocent}
    send([record for record in RECORDS if codes[record[1]] == innocent])
    assert [value for value, error in errors.items() if error is None] == [b"1", b"3", b"5"]
    assert [record.value for record in cluster.read("compacted", value="bytes")] == [b"1", b"3", b"5"]
