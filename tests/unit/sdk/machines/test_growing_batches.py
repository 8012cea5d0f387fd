"""Batches grow while earlier ones of their partition are in flight, because a request has one batch of a partition."""

from itertools import pairwise

import pytest
from accumulators import PARTITIONS, ROUTES, accumulator, add, answered, values

from ottla.errors import ErrorCode
from ottla.machines.accumulator import Accumulator
from ottla.machines.batches import ProducerBatch
from ottla.machines.requests import OutgoingRequest


def growing(**limits: object) -> Accumulator:
    """Two records fill a batch, and nine the largest one."""
    defaults: dict[str, object] = {"batch_bytes": 300, "grown_bytes": 1100, "linger_s": 60}
    acc = accumulator(**{**defaults, **limits})
    acc.producer_id = 7
    return acc


def added(acc: Accumulator, count: int, now: float = 0.0) -> list[ProducerBatch]:
    """Add records, and return their batches, each once."""
    batches = [add(acc, b"%03d" % n * 33, now=now) for n in range(count)]
    assert None not in batches
    return list(dict.fromkeys(batch for batch in batches if batch is not None))


def sent(acc: Accumulator, now: float = 0.0) -> OutgoingRequest:
    (request,) = acc.drain(now, ROUTES).requests
    return request


def in_flight(acc: Accumulator) -> OutgoingRequest:
    """Send a batch of one record, which gets no answer yet."""
    added(acc, 1)
    acc.flushing += 1
    request = sent(acc)
    acc.flushing -= 1
    return request


@pytest.mark.feature(20)
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_full_batch_grows_while_another_one_is_in_flight_and_then_leaves_at_once(idempotent: bool) -> None:
    acc = growing(idempotent=idempotent)
    first = in_flight(acc)
    (batch,) = added(acc, 6)
    assert batch.count == 6
    assert acc.drain(0.0, ROUTES).requests == []
    acc.on_response(first, answered(first), 0.0)
    request = sent(acc)  # without waiting for its linger, because it is full
    assert request.parts[0].batch is batch
    assert values(request) == [b"%03d" % n * 33 for n in range(6)]
    assert request.size_bytes == len(batch.encode(acc.limits.codec)) < 1100


def test_a_batch_grows_behind_one_that_waits_for_its_next_attempt() -> None:
    acc = growing()
    first = in_flight(acc)
    acc.on_failed(first, ErrorCode.NETWORK_EXCEPTION, "gone", 0.0)
    (batch,) = added(acc, 6)
    assert acc.queue(PARTITIONS[0]).open is batch


def test_a_full_batch_does_not_grow_if_nothing_of_its_partition_is_under_way() -> None:
    acc = growing()
    for _ in range(2):
        full, behind = added(acc, 3)
        assert (full.count, behind.count) == (2, 1)
        for batch in (full, behind):
            acc.flushing = 1
            request = sent(acc)
            assert request.parts[0].batch is batch
            acc.on_response(request, answered(request), 0.0)


def test_a_batch_that_is_not_full_waits_for_its_linger() -> None:
    acc = growing()
    first = in_flight(acc)
    (batch,) = added(acc, 2)
    acc.on_response(first, answered(first), 0.0)
    assert acc.drain(0.0, ROUTES).requests == []
    assert sent(acc, 60.0).parts[0].batch is batch


def test_a_batch_grows_to_its_largest_size_and_then_another_one_begins() -> None:
    acc = growing()
    in_flight(acc)
    batches = added(acc, 20)
    assert [batch.count for batch in batches] == [9, 9, 2]
    assert [batch.builder.size_bytes <= 1100 for batch in batches] == [True] * 3


@pytest.mark.feature(19)
def test_where_a_request_has_many_batches_of_a_partition_none_grows() -> None:
    acc = growing(grown_bytes=0)
    in_flight(acc)
    assert [batch.count for batch in added(acc, 6)] == [2, 2, 2]


def test_a_record_larger_than_the_step_fits_into_a_batch_that_grows() -> None:
    acc = growing()
    in_flight(acc)
    (batch,) = added(acc, 2)
    assert add(acc, b"x" * 600) is batch
    assert batch.builder.size_bytes > 800


@pytest.mark.feature(18)
def test_a_batch_that_grows_is_charged_and_does_not_outgrow_the_buffer() -> None:
    acc = growing(buffer_bytes=1000)
    first = in_flight(acc)
    used_bytes = acc.used_bytes
    (batch,) = added(acc, 3)
    assert acc.used_bytes == used_bytes + 600 < 1000
    added(acc, 1)
    assert add(acc, b"x" * 99) is None, "another 300 bytes are too many"
    assert (acc.used_bytes, acc.exhausted, batch.count) == (used_bytes + 600, True, 4)
    acc.on_response(first, answered(first), 0.0)
    request = sent(acc)
    acc.on_response(request, answered(request), 0.0)
    assert acc.used_bytes == 0


def test_a_batch_grows_for_a_tenth_of_its_delivery_timeout() -> None:
    acc = growing(delivery_timeout_s=100)
    in_flight(acc)
    (batch,) = added(acc, 2, now=5.0)
    assert added(acc, 1, now=14.9) == [batch]
    assert add(acc, b"x" * 500, now=15.0) is not batch


def test_a_small_batch_doubles_so_that_growing_costs_little() -> None:
    acc = growing(batch_bytes=100, grown_bytes=1024 * 1024)
    in_flight(acc)
    charged = []
    for _ in range(9_000):
        batch = add(acc, b"x" * 100)
        assert batch is not None
        charged.append(batch.charged_bytes)
    steps = [after - before for before, after in pairwise(charged) if after != before]
    assert max(steps) == 64 * 1024
    assert len(steps) < 30
