"""send_batch: whole batches of another log, as a mirror hands them over."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_requests import parts_of

from ottla.errors import ConfigError, ErrorCode, OttlaError
from ottla.fakes.scripted import ScriptedCluster
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import ProduceRequest
from ottla_core.records.batch import HEADER_SIZE, read_header
from ottla_core.records.builder import SealedBatch
from ottla_core.records.compression import Codec
from ottla_core.records.twins import new_builder


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    return Producer("b0:1", linger=60, delivery_timeout=120, _transport=cluster.connect, **arguments)


def batch_of(*values: bytes) -> SealedBatch:
    builder = new_builder(1 << 20)
    for value in values:
        builder.append(1000, None, value)
    data = builder.seal(Codec.GZIP)
    return SealedBatch(read_header(data), data[HEADER_SIZE:])


def test_batches_are_delivered_in_their_order_beside_records_and_without_linger() -> None:
    cluster = ScriptedCluster({"t": 2})
    with producer_of(cluster) as producer:
        first = producer.send("a", topic="t", partition=1)
        second = producer.send_batch(batch_of(b"b", b"c"), "t", 1)
        third = producer.send_batch(batch_of(b"d"), "t", 1)
        assert [delivery.result(10).offset for delivery in (first, second, third)] == [0, 1, 3]
        assert second.result().timestamp == 1000
    assert cluster.values("t", 1) == [b"a", b"b", b"c", b"d"]


def test_the_producer_s_own_codec_is_not_that_of_a_batch() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, compression="zstd") as producer:
        producer.send_batch(batch_of(*[b"x" * 1000] * 10), "t", 0).result(10)
    (request,) = cluster.requests(ProduceRequest)
    assert read_header(parts_of(request)[0].records).codec == Codec.GZIP


@pytest.mark.story("mirror-of-a-topic-that-has-grown")
def test_a_partition_that_is_new_is_looked_up_and_one_that_is_not_there_is_named() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        producer.send_batch(batch_of(b"a"), "t", 0).result(10)
        cluster.add_topic("t", 3)
        producer.send_batch(batch_of(b"b"), "t", 2).result(10)
        with pytest.raises(ConfigError, match="t has no partition 7"):
            producer.send_batch(batch_of(b"c"), "t", 7)
    assert cluster.values("t", 2) == [b"b"]


@pytest.mark.story("producer-that-only-counted")
def test_partitions_that_were_counted_first_of_all_are_written() -> None:
    """What was only counted was not followed: a record for it waited for ever."""
    cluster = ScriptedCluster({"t": 2})
    with producer_of(cluster) as producer:
        assert producer.partitions_now("t") == 2
        delivery = producer.send_batch(batch_of(b"a"), "t", 1)
        assert delivery.result(10).offset == 0
    assert cluster.values("t", 1) == [b"a"]


def test_a_batch_for_a_topic_that_was_created_again_fails_and_the_rest_goes_on() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        topic_id = cluster.topic_id("t")
        producer.send_batch(batch_of(b"a"), "t", 0, topic_id=topic_id).result(10)
        cluster.drop_topic("t")
        cluster.add_topic("t", 1)
        late = producer.send_batch(batch_of(b"b"), "t", 0, topic_id=topic_id)
        with pytest.raises(OttlaError, match="t-0 was deleted and recreated") as raised:
            late.result(10)
        assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_ID
        producer.send_batch(batch_of(b"c"), "t", 0, topic_id=cluster.topic_id("t")).result(10)
    assert cluster.values("t", 0) == [b"c"]


def test_a_closed_producer_and_one_without_a_transaction_take_no_batch() -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster)
    producer.close()
    with pytest.raises(ConfigError, match="closed"):
        producer.send_batch(batch_of(b"a"), "t", 0)
    with producer_of(cluster, transactional_id="t") as transactional, pytest.raises(ConfigError, match="transaction"):
        transactional.send_batch(batch_of(b"a"), "t", 0)
