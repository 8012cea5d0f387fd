"""send_many: every row has an outcome, and a bad one harms no other."""

from __future__ import annotations

from typing import Any

import pytest

import ottla.aio
from ottla.client.kafka.apis import PRODUCE
from ottla.consumer.consumer import Consumer
from ottla.errors import BufferFullError, ConfigError, ErrorCode, RecordTooLargeError, SerializationError
from ottla.fakes.scripted import Hang, Reject, ScriptedCluster
from ottla.producer.delivery import RecordMetadata
from ottla.producer.producer import Producer
from ottla.producer.producer_record import ProducerRecord


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    return Producer("b0:1", topic="t", linger=60, delivery_timeout=120, _transport=cluster.connect, **arguments)


def test_rows_are_values_pairs_records_and_what_was_read() -> None:
    cluster = ScriptedCluster({"t": 1, "other": 1})
    with producer_of(cluster) as producer:
        result = producer.send_many(
            ["plain", ("k", {"a": 1}), ProducerRecord("x", key="y", topic="other", headers={"h": "1"}, timestamp=9)]
        )
        assert (result.ok[0][:3], result.ok[1][:3]) == (("t", 0, 0), ("t", 0, 1))
        assert result.ok[2] == RecordMetadata("other", 0, 0, 9)
        assert result
        with Consumer("other", bootstrap="b0:1", start="earliest", stop="end", _transport=cluster.connect) as reader:
            assert producer.send_many(reader, topic="t").ok == [RecordMetadata("t", 0, 2, 9)]
        assert producer.send_many([]).ok == []
    assert cluster.values("t", 0) == [b"plain", b'{"a":1}', b"x"]
    assert list(cluster.records("t", 0)[2][4]) == [("h", b"1")]


def test_a_bad_row_fails_alone_with_its_place() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, max_request_size=2000) as producer:
        rows = ["a", object(), "b", "x" * 3000, (1, 2, 3), "c"]
        result = producer.send_many(iter(rows))
    assert [(failed.number, failed.row) for failed in result.failed] == [(n, rows[n]) for n in (1, 3, 4)]
    kinds = [type(failed.error) for failed in result.failed]
    assert kinds == [SerializationError, RecordTooLargeError, SerializationError]
    assert [place.offset for place in result.ok] == [0, 1, 2]
    assert not result
    assert repr(result) == "<BatchResult: 3 ok, 3 failed>"


def test_what_the_broker_refuses_is_in_the_result_and_nowhere_else() -> None:
    cluster = ScriptedCluster({"t": 2})
    cluster.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "no"), Reject(ErrorCode.INVALID_RECORD, "no"))
    with producer_of(cluster) as producer:  # closing raises nothing: send_many asked
        result = producer.send_many(["a", "b"])
        assert [failed.row for failed in result.failed] == ["a", "b"]
        assert {failed.error.code for failed in result.failed} == {ErrorCode.INVALID_RECORD}
    with pytest.raises(ConfigError, match="closed"):
        producer.send_many(["c"])


def test_rows_behind_a_buffer_that_stays_full_are_not_tried() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hang())
    producer = producer_of(cluster, max_block=0.05, buffer_memory=2000, batch_size=1000, request_timeout=0.3)
    result = producer.send_many(str(n) * 900 for n in range(10, 20))
    producer.close()
    assert len(result.ok) + len(result.failed) == 10
    assert {type(failed.error) for failed in result.failed} == {BufferFullError}
    assert len({id(failed.error) for failed in result.failed}) == 1
    assert cluster.values("t", 0) == [str(n).encode() * 900 for n in range(10, 10 + len(result.ok))]


async def test_asyncio_has_it_too() -> None:
    cluster = ScriptedCluster({"t": 1})
    async with ottla.aio.Producer("b0:1", topic="t", _transport=cluster.connect) as producer:
        result = await producer.send_many([*map(str, range(1000)), {5}])
    assert [place.offset for place in result.ok] == list(range(1000))
    assert [failed.row for failed in result.failed] == [{5}]
