"""producer.metrics: what was sent, under Kafka's names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripted_requests import parts_of

import ottla.aio
from ottla.client.kafka.apis import PRODUCE
from ottla.errors import DeliveryError, ErrorCode
from ottla.fakes.scripted import Hold, Reject, ScriptedCluster
from ottla.producer.metrics import METRICS
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import ProduceRequest

DOCS = Path(__file__).parents[4] / "docs/use/producer.md"


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    return Producer("b0:1", topic="t", retry_backoff=0.01, _transport=cluster.connect, **arguments)


def test_what_was_sent_is_counted() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, linger=60, delivery_timeout=120) as producer:
        assert set(producer.metrics.values()) == {0.0, 32.0 * 1024 * 1024}
        producer.send_many(["x" * 100] * 10)
        found = producer.metrics
    (request,) = cluster.requests(ProduceRequest)
    assert list(found) == list(METRICS)
    assert (found["record-send-total"], found["request-total"], found["batch-total"]) == (10, 1, 1)
    assert found["byte-total"] == found["batch-size-max"] == len(parts_of(request)[0].records)
    assert found["records-per-request-avg"] == 10
    assert 0 < found["request-latency-avg"] == found["request-latency-max"] < 10_000
    assert 0 < found["record-queue-time-avg"] < 10_000
    assert found["buffer-available-bytes"] == found["buffer-total-bytes"]


def test_retries_and_errors_are_counted_by_the_record() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Reject(ErrorCode.NOT_ENOUGH_REPLICAS), Reject(ErrorCode.INVALID_RECORD, "no"))
    producer = producer_of(cluster, linger=0.05)
    for n in range(3):
        producer.send(str(n))
    with pytest.raises(DeliveryError):
        producer.close()
    found = producer.metrics
    assert [found[f"record-{what}-total"] for what in ("send", "retry", "error")] == [3, 3, 3]


async def test_what_is_under_way_is_seen_in_both_worlds() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hold())
    async with ottla.aio.Producer("b0:1", topic="t", _transport=cluster.connect) as producer:
        sending = producer.send("x")
        cluster.until(lambda: any(isinstance(body, ProduceRequest) for _, body in cluster.seen))
        found = producer.metrics
        assert found["requests-in-flight"] == 1
        assert found["buffer-available-bytes"] < found["buffer-total-bytes"]
        cluster.release()
        await sending
        assert producer.metrics["requests-in-flight"] == 0


def test_the_page_lists_them_all() -> None:
    listed = dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", DOCS.read_text(), re.MULTILINE))
    assert {name: listed.get(name) for name in METRICS} == METRICS
