"""send_columns: rows of bytes by the column end up where `send` would put them; `flush` tells what became of them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.kafka.apis import PRODUCE
from ottla.errors import BufferFullError, ConfigError, DeliveryError, ErrorCode, RecordTooLargeError
from ottla.fakes.scripted import Hang, Reject, ScriptedCluster
from ottla.machines.partitioner import murmur2
from ottla.producer.producer import Producer
from ottla.producer.send_columns import ByteColumns


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    return Producer("b0:1", linger=60, delivery_timeout=120, _transport=cluster.connect, **arguments)


def test_rows_lie_where_send_would_put_them_and_in_their_order() -> None:
    cluster = ScriptedCluster({"t": 3})
    keys = [b"k%d" % (n % 7) for n in range(2_000)]
    values = [b"%d" % n for n in range(2_000)]
    with producer_of(cluster) as producer:
        producer.send_columns(ByteColumns(values, keys), "t")
    for partition in range(3):
        mine = [v for k, v in zip(keys, values, strict=True) if (murmur2(k) & 0x7FFFFFFF) % 3 == partition]
        assert cluster.values("t", partition) == mine


def test_every_column_of_a_row_arrives() -> None:
    cluster = ScriptedCluster({"t": 2})
    headers = ([("h", b"1"), ("h", None)], ())
    with producer_of(cluster) as producer:
        producer.send_columns(ByteColumns([b"v", None], [None, b"k"], headers, [1, 1]), "t")
        producer.send_columns(ByteColumns([b"x"], partitions=[0]), "t")
    (_, at, *first), (_, _, *second) = cluster.records("t", 1)
    assert (first, second) == ([None, b"v", [("h", b"1"), ("h", None)]], [b"k", None, []])
    assert at > 0
    assert cluster.values("t", 0) == [b"x"]


def test_rows_without_keys_fill_one_batch_after_the_other() -> None:
    cluster = ScriptedCluster({"t": 2})
    with producer_of(cluster, batch_size=1_000) as producer:
        producer.send_columns(ByteColumns([b"x" * 100] * 40), "t")
    counts = [len(cluster.values("t", partition)) for partition in (0, 1)]
    assert sum(counts) == 40
    assert min(counts) >= 8, "batches of about eight rows take turns"


def test_what_the_broker_refuses_is_raised_by_flush_and_once() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "no"))
    with producer_of(cluster) as producer:
        producer.send_columns(ByteColumns([b"a", b"b"]), "t")
        with pytest.raises(DeliveryError, match=r"2 records were not delivered; the first: .*no") as caught:
            producer.flush()
        assert caught.value.code == ErrorCode.INVALID_RECORD


def test_a_row_that_can_not_be_sent_is_the_end() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, max_request_size=2_000) as producer:
        with pytest.raises(RecordTooLargeError):
            producer.send_columns(ByteColumns([b"a", b"x" * 3_000, b"b"]), "t")
        with pytest.raises(ConfigError, match="no partition 1"):
            producer.send_columns(ByteColumns([b"c", b"d"], partitions=[None, 1]), "t")
    assert cluster.values("t", 0) == [b"a"]


def test_a_full_buffer_is_waited_for_as_long_as_send_would() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hang())
    limits = {"buffer_memory": 20_000, "batch_size": 10_000, "max_request_size": 10_000}
    producer = producer_of(cluster, max_block=0.1, **limits)
    with pytest.raises(BufferFullError):
        producer.send_columns(ByteColumns([b"x" * 1_000] * 100), "t")
    with pytest.raises(DeliveryError):
        producer.close(0)
