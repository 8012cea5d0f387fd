"""The future of a record: waiting, calling back, and what is remembered of failures."""

import threading

import pytest

from ottla.errors import DeliveryError, ErrorCode, TimeoutError, error_from_code  # noqa: A004
from ottla.machines.batches import ProducerBatch, ProducerLimits
from ottla.producer.delivery import Announcer, Delivery, RecordMetadata, outcomes
from ottla_core.model import TopicPartition
from ottla_core.records.twins import new_builder


def batch_of(announcer: Announcer, count: int = 1) -> ProducerBatch:
    batch = ProducerBatch(
        TopicPartition("t", 3), new_builder(1000, pure=True), announcer.ticket(), 0.0, ProducerLimits(), 0
    )
    batch.count = count
    return batch


def settle(
    announcer: Announcer, batch: ProducerBatch, *, offset: int = -1, code: int = 0, append_time: int = -1
) -> None:
    batch.base_offset, batch.log_append_time_ms = offset, append_time
    batch.error = error_from_code(code, "refused") if code else None
    batch.settled = True
    announcer.announce([batch])


def test_a_result_is_offset_and_timestamp_of_its_own_record() -> None:
    announcer = Announcer("a")
    batch = batch_of(announcer, 3)
    deliveries = [Delivery(batch, n, 100 + n) for n in range(3)]
    assert not deliveries[0].done()
    assert "pending" in repr(deliveries[0])
    settle(announcer, batch, offset=40)
    assert deliveries[2].result(0) == RecordMetadata("t", 3, 42, 102)
    assert deliveries[2].exception(0) is None
    assert "delivered" in repr(deliveries[2])


def test_the_brokers_time_wins_where_the_topic_says_so() -> None:
    announcer = Announcer("a")
    batch = batch_of(announcer)
    settle(announcer, batch, offset=0, append_time=999)
    assert Delivery(batch, 0, 5).result(0).timestamp == 999


def test_waiting_ends_when_the_batch_is_settled_or_the_time_is_over() -> None:
    announcer = Announcer("a")
    batch = batch_of(announcer)
    delivery = Delivery(batch, 0, 0)
    with pytest.raises(TimeoutError, match=r"not known after 0\.01 s"):
        delivery.result(0.01)
    results: list[RecordMetadata] = []
    waiters = [threading.Thread(target=lambda: results.append(delivery.result(10))) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    settle(announcer, batch, offset=7)
    for waiter in waiters:
        waiter.join(10)
    assert [result.offset for result in results] == [7, 7, 7]


@pytest.mark.feature(10)
def test_callbacks_are_called_once_also_when_they_come_late() -> None:
    announcer = Announcer("a")
    batch = batch_of(announcer)
    delivery = Delivery(batch, 0, 0)
    called: list[str] = []
    delivery.add_done_callback(lambda d: called.append(f"early {d.done()}"))
    hooked: list[str] = []
    delivery.on_settled(lambda: hooked.append(threading.current_thread().name))
    settle(announcer, batch, offset=0)
    delivery.add_done_callback(lambda d: called.append("late"))
    delivery.on_settled(lambda: hooked.append("late"))
    announcer.close(10)
    assert called == ["early True", "late"]
    assert hooked == [threading.current_thread().name, "late"]


def test_failures_count_unless_somebody_asked() -> None:
    announcer = Announcer("a")
    seen, unseen = batch_of(announcer, 5), batch_of(announcer, 7)
    Delivery(seen, 0, 0).add_done_callback(lambda _: None)
    settle(announcer, seen, code=ErrorCode.INVALID_RECORD)
    settle(announcer, unseen, code=ErrorCode.NOT_ENOUGH_REPLICAS)
    with pytest.raises(DeliveryError, match="7 records") as caught:
        announcer.raise_failures()
    assert (caught.value.failed, caught.value.code) == (7, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert caught.value.__cause__ is unseen.error
    announcer.raise_failures()
    announcer.close(10)


def test_a_record_of_a_batch_that_was_split_has_the_outcome_of_its_part() -> None:
    announcer = Announcer("a")
    whole = batch_of(announcer, 3)
    whole.parts = [batch_of(announcer, 2), batch_of(announcer, 1)]
    whole.parts[0].base_offset, whole.parts[0].log_append_time_ms = 40, 999
    whole.parts[1].error = error_from_code(ErrorCode.MESSAGE_TOO_LARGE, "no")
    settle(announcer, whole, code=ErrorCode.MESSAGE_TOO_LARGE)
    deliveries = [Delivery(whole, number, 5) for number in range(3)]
    metadata, errors = outcomes(deliveries)
    assert metadata == [("t", 3, 40, 999), ("t", 3, 41, 999), ("t", 3, -1, 5)]
    assert [error and error.code for error in errors] == [None, None, ErrorCode.MESSAGE_TOO_LARGE]
    assert deliveries[1].result(0) == metadata[1]
    assert [delivery.exception(0) is None for delivery in deliveries] == [True, True, False]
