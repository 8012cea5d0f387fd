"""A topic takes smaller batches than the producer makes: every record has its own outcome, reported once and in
order."""

from __future__ import annotations

from typing import Any

import pytest

import ottla.aio
from ottla.client.kafka.apis import PRODUCE
from ottla.errors import DeliveryError, ErrorCode, OttlaError, RecordTooLargeError
from ottla.fakes.scripted import Hold, ScriptedCluster
from ottla.machines.batches import ProducerBatch
from ottla.producer.delivery import Delivery
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import ProduceRequest
from ottla_core.model import TopicPartition
from ottla_core.records.batch import read_header


def cluster_of(max_message_bytes: int, partitions: int = 1) -> ScriptedCluster:
    cluster = ScriptedCluster({"t": partitions})
    for log in cluster.logs.values():
        log.max_message_bytes = max_message_bytes
    return cluster


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    defaults = {"linger": 60, "delivery_timeout": 120, "retry_backoff": 0.01, "_transport": cluster.connect}
    return Producer("b0:1", topic="t", **{**defaults, **arguments})


def value_of(number: int) -> str:
    return f"{number:03}" + "x" * 97


@pytest.mark.parametrize("idempotent", [True, False])
def test_every_record_has_its_own_offset_and_callbacks_keep_their_order(idempotent: bool) -> None:
    cluster = cluster_of(700)
    called: list[str] = []
    with producer_of(cluster, enable_idempotence=idempotent) as producer:
        sent = []
        for number in range(40):
            sent.append(producer.send(value_of(number)))
            sent[-1].add_done_callback(lambda delivery: called.append(repr(delivery.result().offset)))
        producer.flush()
        assert [delivery.result(0).offset for delivery in sent] == list(range(40))
        assert called == [repr(number) for number in range(40)]
        assert producer.metrics["record-send-total"] == 40
        assert producer.metrics["record-error-total"] == 0
        assert producer.metrics["batch-split-total"] == 7, "of 40 records, twice of 20, four times of 10"
    assert cluster.values("t", 0) == [value_of(number).encode() for number in range(40)]


def test_a_record_that_is_too_large_fails_alone() -> None:
    cluster = cluster_of(700)
    producer = producer_of(cluster)
    sent = [producer.send("x" * (1000 if number == 5 else 100)) for number in range(12)]
    with pytest.raises(DeliveryError, match="1 record was not delivered") as caught:
        producer.close()
    assert caught.value.failed == 1
    errors = [delivery.exception(0) for delivery in sent]
    assert [error is not None for error in errors] == [number == 5 for number in range(12)]
    assert isinstance(errors[5], RecordTooLargeError)
    assert [delivery.result(0).offset for delivery in sent[:5] + sent[6:]] == list(range(11))
    assert "failed" in repr(sent[5])
    assert "delivered" in repr(sent[6])
    assert producer.metrics["record-error-total"] == 1


def test_an_outcome_that_is_read_late_is_not_counted_as_a_failure() -> None:
    cluster = cluster_of(700)
    with producer_of(cluster) as producer:
        for number in range(12):
            last = producer.send("x" * (1000 if number == 11 else 100))
        producer._sender.flush(10)
        assert isinstance(last.exception(0), RecordTooLargeError)
        last.on_awaited()


def test_send_many_reports_outcomes_row_by_row() -> None:
    cluster = cluster_of(700)
    rows = ["x" * (1000 if number in (3, 8) else 100) for number in range(20)]
    with producer_of(cluster) as producer:
        result = producer.send_many(rows)
    assert [failed.number for failed in result.failed] == [3, 8]
    assert {type(failed.error) for failed in result.failed} == {RecordTooLargeError}
    assert [metadata.offset for metadata in result.ok] == list(range(18))


async def test_records_of_asyncio_have_the_outcomes_of_their_parts() -> None:
    cluster = cluster_of(700)
    async with ottla.aio.Producer("b0:1", topic="t", linger=0.01, _transport=cluster.connect) as producer:
        sent = [producer.send("x" * (1000 if number == 5 else 100)) for number in range(12)]
        outcomes: list[object] = []
        for sending in sent:
            try:
                outcomes.append((await sending).offset)
            except OttlaError as error:
                outcomes.append(error.code)
    assert outcomes == [0, 1, 2, 3, 4, ErrorCode.MESSAGE_TOO_LARGE, *range(5, 11)]


def batches_of(cluster: ScriptedCluster) -> list[int]:
    """How many records each batch in the log has."""
    return [read_header(batch.records).record_count for batch in cluster.logs[TopicPartition("t", 0)].batches]


def sent_behind_a_held_request(cluster: ScriptedCluster, **arguments: Any) -> list[Delivery]:
    """Send a record whose response is held until the others were sent."""
    cluster.will(PRODUCE, Hold())
    with producer_of(cluster, batch_size=1000, linger=0, enable_idempotence=False, **arguments) as producer:
        sent = [producer.send(value_of(0), key="k", partition=0)]
        cluster.until(lambda: bool(cluster.requests(ProduceRequest)))
        sent += [producer.send(value_of(number), key="k", partition=0) for number in range(1, 101)]
        cluster.release()
    return sent


@pytest.mark.feature(20)
def test_where_a_request_has_one_batch_of_a_partition_the_batch_grows_while_it_waits() -> None:
    cluster = cluster_of(1 << 30)
    sent = sent_behind_a_held_request(cluster)
    assert batches_of(cluster) == [1, 100]
    assert [delivery.result(0).offset for delivery in sent] == list(range(101))


def test_a_batch_grows_at_most_to_the_largest_request_and_to_what_topics_take_by_default() -> None:
    cluster = cluster_of(1 << 30)
    for max_request_size, grown_bytes in (("100KiB", 100 * 1024), ("1MiB", 1024 * 1024), ("16MiB", 1024 * 1024)):
        with producer_of(cluster, max_request_size=max_request_size) as producer:
            assert producer._accumulator.limits.grown_bytes == grown_bytes
    assert grown_bytes < 1_048_588, "max.message.bytes"


def test_without_acks_nothing_grows_because_nobody_would_learn_that_it_is_too_large() -> None:
    cluster = cluster_of(1 << 30)
    with producer_of(cluster, acks=0) as producer:
        assert producer._accumulator.limits.grown_bytes == 0


def test_a_batch_that_grows_has_a_key_for_each_step_so_that_each_represents_few_bytes() -> None:
    cluster = cluster_of(1 << 30, partitions=2)
    *_, last = sent_behind_a_held_request(cluster)
    batch = last.batch_key()
    assert isinstance(batch, ProducerBatch)
    assert batch.count == 100
    assert batch.sampled_keys == [b"k"] * 5, "at 1, 2, 4, 8 and 16 KB"
