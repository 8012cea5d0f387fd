"""A mirror's writer to a cluster that takes nothing at the moment."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest
from waiting import wait_until

import ottla
from ottla.client.kafka.apis import PRODUCE
from ottla.fakes.scripted import Reject, ScriptedCluster
from ottla_core.errors import ErrorCode
from ottla_core.records.batch import HEADER_SIZE, read_header
from ottla_core.records.builder import SealedBatch
from ottla_core.records.twins import new_builder
from ottla_mirror.clusters import writer as module
from ottla_mirror.clusters.writer import Writer

DAY_S = 24 * 3600.0


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    monkeypatch.setattr(module, "_CLOSE_S", 0.2)
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, *[Reject(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")] * 10_000)
    producer = ottla.Producer[Any, Any](
        "b0:1", key="bytes", value="bytes", delivery_timeout=DAY_S, retry_backoff=0.01, _transport=cluster.connect
    )
    return Writer(producer)


def test_a_batch_that_is_refused_says_why(writer: Writer) -> None:
    builder = new_builder(1 << 20)
    builder.append(1, b"key", b"value")
    data = builder.seal()
    sent = writer.send_batch(SealedBatch(read_header(data), data[HEADER_SIZE:]), "t", 0, topic_id=None)
    wait_until(lambda: "the disk is full" in sent.refusal())
    writer.close()


@pytest.mark.story("writer-that-closed-for-a-day")
def test_closing_waits_for_seconds_and_not_for_the_delivery(writer: Writer) -> None:
    writer.send(b"value", key=b"key", topic="t")
    closing = Thread(target=writer.close, daemon=True)
    closing.start()
    closing.join(20)
    assert not closing.is_alive()
