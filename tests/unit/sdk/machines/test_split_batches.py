"""A batch that a broker finds too large is sent again in parts: in order, at once, with the sequences of the batch."""

from __future__ import annotations

import pytest
from accumulators import IDS, PARTITIONS, ROUTES, accumulator, add, values

from ottla.errors import ErrorCode, OttlaError
from ottla.machines.accumulator import Accumulator
from ottla.machines.batches import BatchResponse, ProducerBatch
from ottla.machines.queues import _LARGER_AFTER_S
from ottla.machines.requests import OutgoingRequest, Reported
from ottla_core.records.batch import HEADER_SIZE, read_header
from ottla_core.records.builder import SealedBatch
from ottla_core.records.compression import Codec
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder

TOO_LARGE = BatchResponse(code=ErrorCode.MESSAGE_TOO_LARGE, message="too large")
OUT_OF_ORDER = BatchResponse(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message="out of order")
LOST = BatchResponse(code=ErrorCode.NETWORK_EXCEPTION, message="gone")


def of(**limits: object) -> Accumulator:
    """Eight records fill a batch, each with a first byte that tells it from the others."""
    acc = accumulator(**{"linger_s": 60, "batch_bytes": 940, "backoff_s": 1.0, **limits})
    acc.producer_id = 7
    return acc


def filled(acc: Accumulator, numbers: range) -> ProducerBatch:
    """Add these records, which make one batch that is ready."""
    batches = dict.fromkeys(add(acc, b"%02d" % n + b"x" * 98) for n in numbers)
    (batch,) = batches
    assert batch is not None
    return batch


def sent(acc: Accumulator, now: float = 0.0) -> list[OutgoingRequest]:
    """Return all requests that leave now, at least one, each with one batch."""
    acc.flushing = 1
    found: list[OutgoingRequest] = []
    while requests := acc.drain(now, ROUTES).requests:
        found += requests
    acc.flushing = 0
    assert [len(request.parts) for request in found] == [1] * len(found) != []
    return found


def numbers(requests: list[OutgoingRequest]) -> list[int]:
    return [int((value or b"")[:2]) for request in requests for value in values(request)]


def sequences(requests: list[OutgoingRequest]) -> list[tuple[int, int]]:
    headers = [read_header(request.parts[0].batch.encode(Codec.NONE)) for request in requests]
    return [(header.producer_epoch, header.base_sequence) for header in headers]


def answer(acc: Accumulator, requests: list[OutgoingRequest], *responses: BatchResponse, now: float = 0.0) -> Reported:
    """Answer each request, and return what was reported in all."""
    in_all = Reported()
    for request, response in zip(requests, responses, strict=True):
        reported = acc.on_response(request, {IDS[0]: response}, now)
        in_all.settled += reported.settled
        in_all.warnings += reported.warnings
    return in_all


def where(batch: ProducerBatch) -> list[int]:
    """The offset of each record."""
    found = [batch.part_with(number) for number in range(batch.count)]
    return [part.base_offset + number if part.base_offset >= 0 else -1 for part, number in found]


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE])
def test_both_halves_leave_before_what_is_queued_and_every_record_has_its_offset(code: int) -> None:
    acc = of()
    batch = filled(acc, range(8))
    batch.sampled_keys.append(b"k")
    request = sent(acc)
    behind = filled(acc, range(8, 10))
    assert answer(acc, request, BatchResponse(code=code)).settled == []
    assert not batch.settled
    first = sent(acc)
    assert numbers(first) == [0, 1, 2, 3]
    assert answer(acc, first, BatchResponse(20)).settled == []
    second = sent(acc)
    assert numbers(second) == [4, 5, 6, 7]
    assert answer(acc, second, BatchResponse(30)).settled == [batch]
    assert (batch.settled, batch.error) == (True, None)
    assert [part.sampled_keys for part in batch.parts] == [[b"k"], [b"k"]]
    assert where(batch) == [20, 21, 22, 23, 30, 31, 32, 33]
    assert numbers(sent(acc)) == [8, 9]
    assert list(acc.incomplete) == [batch, behind]


def test_a_part_that_is_still_too_large_is_split_again_at_its_place() -> None:
    acc = of()
    batch = filled(acc, range(8))
    answer(acc, sent(acc), TOO_LARGE)
    offset, sizes = 0, []
    while not batch.settled:
        request = sent(acc)
        assert numbers(request)[0] == offset
        sizes.append(len(numbers(request)))
        if sizes[-1] > 2:
            answer(acc, request, TOO_LARGE)
        else:
            answer(acc, request, BatchResponse(offset))
            offset += sizes[-1]
    assert where(batch) == list(range(8))
    assert batch.error is None
    assert acc.used_bytes == 0


def test_a_part_that_fails_for_good_fails_its_own_records_only() -> None:
    acc = of()
    small = filled(acc, range(2))
    assert add(acc, b"02" + b"x" * 598) is small
    answer(acc, sent(acc), TOO_LARGE)
    request = sent(acc)
    assert numbers(request) == [0, 1]
    assert answer(acc, request, BatchResponse(5)).settled == []
    request = sent(acc)
    assert numbers(request) == [2]
    assert answer(acc, request, TOO_LARGE).settled == [small]
    assert small.error is not None
    assert (small.error.code, small.failed_count) == (ErrorCode.MESSAGE_TOO_LARGE, 1)
    assert [small.part_with(number)[0].error for number in range(3)] == [None, None, small.error]
    assert where(small) == [5, 6, -1]


def test_after_a_split_no_batch_of_the_partition_becomes_as_large() -> None:
    acc = of(grown_bytes=2000)
    filled(acc, range(8))
    request = sent(acc)
    assert request[0].size_bytes == 61 + 8 * 109
    answer(acc, request, TOO_LARGE)
    first = sent(acc)
    counts = [batch.count for batch in dict.fromkeys(add(acc, b"x" * 100) for _ in range(9)) if batch is not None]
    assert counts == [4, 4, 1], "of at most half the size, whether they grow or not"
    answer(acc, first, BatchResponse(0))
    elsewhere = [add(acc, b"x" * 100, partition=1) for _ in range(8)]
    assert len(dict.fromkeys(elsewhere)) == 1
    assert add(acc, b"x" * 700) is not None, "a larger record has a batch of its own"


def test_the_limit_after_a_split_doubles_from_time_to_time() -> None:
    """The topic's max.message.bytes may have been raised."""
    acc = of(delivery_timeout_s=10_000)
    filled(acc, range(8))
    for _ in range(2):
        answer(acc, sent(acc), TOO_LARGE)  # of the whole, and then of its first part

    def counts(now: float) -> list[int]:
        batches = dict.fromkeys(add(acc, b"x" * 100, now=now) for _ in range(9))
        return [batch.count for batch in batches if batch is not None]

    assert counts(_LARGER_AFTER_S - 1) == [2, 2, 2, 2, 1]
    assert counts(_LARGER_AFTER_S) == [2, 4, 4], "the open batch is filled, and new ones may become twice as large"
    assert counts(2 * _LARGER_AFTER_S) == [8, 1]


def test_a_batch_that_is_too_large_again_limits_the_later_ones_again() -> None:
    acc = of(delivery_timeout_s=10_000)
    filled(acc, range(8))
    answer(acc, sent(acc), TOO_LARGE)
    for _ in range(2):
        answer(acc, sent(acc), BatchResponse(0))
    now = 2 * _LARGER_AFTER_S
    batches = dict.fromkeys(add(acc, b"x" * 100, now=now) for _ in range(8))
    assert len(batches) == 1
    answer(acc, sent(acc, now), TOO_LARGE, now=now)
    again = dict.fromkeys(add(acc, b"x" * 100, now=now + 1) for _ in range(8))
    assert [batch.count for batch in again if batch is not None] == [4, 4]


def test_parts_need_no_back_off_and_count_as_no_attempt() -> None:
    acc = of(retries=0)
    batch = filled(acc, range(8))
    answer(acc, sent(acc), TOO_LARGE)
    assert numbers(sent(acc)) == [0, 1, 2, 3]
    assert not batch.settled


def test_parts_expire_with_the_batch() -> None:
    acc = of(delivery_timeout_s=10)
    batch = filled(acc, range(8))
    answer(acc, sent(acc), TOO_LARGE)
    request = sent(acc)
    answer(acc, request, BatchResponse(0))
    assert acc.drain(10.0, ROUTES).reported.settled == [batch]
    assert batch.error is not None
    assert (batch.error.code, batch.failed_count) == (ErrorCode.REQUEST_TIMED_OUT, 4)
    assert "after 1 attempt; the last one failed with: t-0: too large" in str(batch.error)


def test_the_buffer_counts_the_parts() -> None:
    acc = of()
    filled(acc, range(8))
    answer(acc, sent(acc), TOO_LARGE)
    assert acc.used_bytes == 2 * HEADER_SIZE + 8 * 109
    for offset in (0, 4):
        answer(acc, sent(acc), BatchResponse(offset))
    assert acc.used_bytes == 0


def test_an_abort_fails_the_parts_that_have_no_outcome() -> None:
    acc = of()
    batch = filled(acc, range(8))
    answer(acc, sent(acc), TOO_LARGE)
    answer(acc, sent(acc), BatchResponse(20))
    why = OttlaError(ErrorCode.NETWORK_EXCEPTION, "closed")
    assert acc.abort(why) == [batch]
    assert (batch.settled, batch.error, batch.failed_count, acc.used_bytes) == (True, why, 4, 0)
    assert where(batch) == [20, 21, 22, 23, -1, -1, -1, -1]


def test_a_sealed_batch_is_written_as_it_is_or_fails() -> None:
    builder = new_builder(1000, pure=True)
    for value in (b"a", b"b"):
        builder.append(1, None, value)
    data = builder.seal()
    acc = of()
    batch = acc.append_batch(acc.queue(PARTITIONS[0]), SealedBatch(read_header(data), data[HEADER_SIZE:]), 0.0)
    assert answer(acc, sent(acc), TOO_LARGE).settled == [batch]


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)
def test_records_stay_what_they_are(codec: Codec) -> None:
    acc = of(codec=codec)
    queue = acc.queue(PARTITIONS[0])
    records = [(1000 - n, b"k" * n or None, b"v" * 90 if n % 2 else None, [("h", b"%d" % n)]) for n in range(6)]
    acc.append_to_new(queue, *records[0], 0.0)
    for record in records[1:]:
        assert acc.append(queue, *record) is not None
    answer(acc, sent(acc), TOO_LARGE)
    found: list[object] = []
    while acc.used_bytes:
        request = sent(acc)
        data = request[0].parts[0].batch.encode(codec)
        found += [record[1:] for record in read_records(data)]
        answer(acc, request, BatchResponse(5))
    assert found == records


def test_no_record_is_lost_if_the_second_part_becomes_larger_than_the_batch() -> None:
    """The time of its first record is far from all others, and a batch has timestamps as differences to its first
    one."""
    acc = of(batch_bytes=489)
    queue = acc.queue(PARTITIONS[0])
    batch = acc.append_to_new(queue, 1 << 62, None, None, (), 0.0)
    assert batch is not None
    while acc.append(queue, 0 if batch.count == 30 else 1 << 62, None, None, ()):
        pass
    whole_bytes = batch.builder.size_bytes
    answer(acc, sent(acc), TOO_LARGE)
    assert [part.count for part in batch.parts] == [30, 30]
    assert batch.parts[1].charged_bytes > whole_bytes


# ---- idempotence -----------------------------------------------------------------------------------------------------


def begun(**limits: object) -> Accumulator:
    """The first batch of the epoch has one record, and was acknowledged."""
    acc = of(idempotent=True, **limits)
    filled(acc, range(1))
    request = sent(acc)
    answer(acc, request, BatchResponse(0))
    return acc


@pytest.mark.rule(26)
def test_parts_share_the_sequences_of_their_batch_and_later_batches_keep_theirs() -> None:
    acc = begun()
    batch, behind = filled(acc, range(8)), filled(acc, range(8, 10))
    request = sent(acc)
    assert sequences(request) == [(0, 1), (0, 9)]
    reported = answer(acc, request, TOO_LARGE, OUT_OF_ORDER)
    assert (reported.settled, reported.warnings) == ([], [])
    again = sent(acc)
    assert sequences(again) == [(0, 1), (0, 5), (0, 9)]
    assert numbers(again) == list(range(10))
    assert answer(acc, again, *map(BatchResponse, (1, 5, 9))).settled == [batch, behind]
    assert where(batch) + where(behind) == list(range(1, 11))
    filled(acc, range(1))
    assert sequences(sent(acc)) == [(0, 11)]


def test_parts_wait_until_all_in_flight_are_back() -> None:
    acc = begun()
    filled(acc, range(8))
    one = sent(acc)
    filled(acc, range(8, 10))
    two = sent(acc)
    answer(acc, one, TOO_LARGE)
    acc.flushing = 1
    assert acc.drain(0.0, ROUTES).requests == []
    answer(acc, two, OUT_OF_ORDER)
    assert numbers(sent(acc)) == list(range(10))


@pytest.mark.rule(25)
def test_no_more_parts_are_in_flight_than_a_broker_remembers() -> None:
    acc = begun()
    for first in range(0, 40, 8):
        filled(acc, range(first, first + 8))
    request = sent(acc)
    assert len(request) == 5
    answer(acc, request, *[TOO_LARGE] * 5)
    request = sent(acc)
    assert numbers(request) == list(range(20))
    answer(acc, request, LOST, *map(BatchResponse, (5, 9, 13, 17)))
    again = sent(acc, 1.0)
    assert numbers(again) == [0, 1, 2, 3], "the broker has to recognize it, so no sixth batch follows"
    answer(acc, again, BatchResponse(1))
    assert numbers(sent(acc, 1.0)) == list(range(20, 40))


def test_the_first_batch_of_an_epoch_is_split_and_its_first_part_leaves_alone() -> None:
    acc = of(idempotent=True)
    filled(acc, range(8))
    answer(acc, sent(acc), TOO_LARGE)
    first = sent(acc)
    assert numbers(first) == [0, 1, 2, 3]
    answer(acc, first, BatchResponse(0))
    assert sequences(sent(acc)) == [(0, 4)]


def test_parts_of_a_batch_that_may_be_written_are_not_written_in_a_new_epoch() -> None:
    acc = begun()
    batch, behind = filled(acc, range(8)), filled(acc, range(8, 10))
    request = sent(acc)
    answer(acc, request, LOST, LOST)  # the broker has appended both
    request = sent(acc, 1.0)
    answer(acc, request, TOO_LARGE, BatchResponse(9))  # the topic takes smaller batches now
    assert answer(acc, sent(acc, 1.0), OUT_OF_ORDER, OUT_OF_ORDER).settled == [batch]
    assert behind.base_offset == 9
    assert batch.error is not None
    assert (batch.error.code, batch.failed_count) == (ErrorCode.MESSAGE_TOO_LARGE, 8)
    assert "may or may not have been written" in str(batch.error)


def test_parts_of_a_batch_that_was_lost_on_its_way_are_written() -> None:
    acc = begun()
    batch = filled(acc, range(8))
    answer(acc, sent(acc), LOST)
    answer(acc, sent(acc, 1.0), TOO_LARGE)
    request = sent(acc, 1.0)
    assert sequences(request) == [(0, 1), (0, 5)]
    assert answer(acc, request, BatchResponse(1), BatchResponse(5)).settled == [batch]
    assert batch.error is None


def test_a_part_in_doubt_that_only_follows_one_that_failed_leaves_again() -> None:
    acc = begun()
    batch = filled(acc, range(8))
    answer(acc, sent(acc), LOST)
    answer(acc, sent(acc, 1.0), TOO_LARGE)
    answer(acc, sent(acc, 1.0), BatchResponse(code=ErrorCode.NOT_ENOUGH_REPLICAS), OUT_OF_ORDER)
    request = sent(acc, 10.0)
    assert sequences(request) == [(0, 1), (0, 5)]
    assert answer(acc, request, BatchResponse(1), BatchResponse(5)).settled == [batch]
    assert batch.error is None


def test_a_batch_that_was_out_of_order_before_is_not_in_doubt() -> None:
    acc = begun()
    filled(acc, range(8, 16))
    batch = filled(acc, range(8))
    answer(acc, sent(acc), BatchResponse(code=ErrorCode.NOT_ENOUGH_REPLICAS), OUT_OF_ORDER)
    answer(acc, sent(acc, 1.0), BatchResponse(1), TOO_LARGE)
    reported = answer(acc, sent(acc, 1.0), OUT_OF_ORDER, OUT_OF_ORDER)
    assert (reported.settled, len(reported.warnings)) == ([], 1)
    assert sequences(sent(acc, 10.0)) == [(1, 0)]
    assert not batch.settled


def test_a_batch_stays_in_doubt_since_an_old_request_may_arrive_late() -> None:
    acc = begun()
    filled(acc, range(8, 16))
    batch = filled(acc, range(8))
    refused = BatchResponse(code=ErrorCode.NOT_ENOUGH_REPLICAS)
    answer(acc, sent(acc), refused, LOST)
    answer(acc, sent(acc, 1.0), refused, OUT_OF_ORDER)
    answer(acc, sent(acc, 10.0), BatchResponse(1), TOO_LARGE)
    assert answer(acc, sent(acc, 10.0), OUT_OF_ORDER, OUT_OF_ORDER).settled == [batch]


def test_the_parts_of_a_part_in_doubt_are_in_doubt() -> None:
    acc = begun()
    batch = filled(acc, range(8))
    answer(acc, sent(acc), LOST)
    answer(acc, sent(acc, 1.0), TOO_LARGE)
    answer(acc, sent(acc, 1.0), TOO_LARGE, TOO_LARGE)
    request = sent(acc, 1.0)
    assert len(request) == 4
    assert answer(acc, request, *[OUT_OF_ORDER] * 4).settled == [batch]


def test_a_new_epoch_ends_the_doubt() -> None:
    acc = begun()
    batch = filled(acc, range(8))
    answer(acc, sent(acc), LOST)
    answer(acc, sent(acc, 1.0), OUT_OF_ORDER)
    request = sent(acc, 10.0)
    assert sequences(request) == [(1, 0)]
    answer(acc, request, TOO_LARGE)
    reported = answer(acc, sent(acc, 10.0), BatchResponse(code=ErrorCode.UNKNOWN_PRODUCER_ID))
    assert (reported.settled, len(reported.warnings)) == ([], 1)
    assert sequences(sent(acc, 20.0)) == [(2, 0)]
    assert not batch.settled


def test_a_broker_that_has_lost_what_came_before_the_parts_gets_them_in_a_new_epoch() -> None:
    acc = begun()
    batch = filled(acc, range(8))
    answer(acc, sent(acc), TOO_LARGE)
    reported = answer(acc, sent(acc), OUT_OF_ORDER, OUT_OF_ORDER)
    assert len(reported.warnings) == 1
    first = sent(acc, 1.0)
    assert sequences(first) == [(1, 0)]
    answer(acc, first, BatchResponse(0))
    assert sequences(sent(acc, 1.0)) == [(1, 4)]
    assert not batch.settled
