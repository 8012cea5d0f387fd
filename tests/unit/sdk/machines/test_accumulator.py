"""The accumulator's rules: order, readiness, one request in flight, retries, deadlines, the buffer's limit."""

import pytest
from accumulators import IDS, PARTITIONS, ROUTES, accumulator, add, answered, values

from ottla.errors import ErrorCode, OttlaError, RecordTooLargeError
from ottla.machines.accumulator import Accumulator
from ottla.machines.batches import BatchResponse
from ottla.machines.metadata import Route
from ottla.machines.requests import OutgoingRequest
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.batch import HEADER_SIZE, check_batch, read_header
from ottla_core.records.builder import SealedBatch
from ottla_core.records.compression import Codec
from ottla_core.records.twins import new_builder


@pytest.mark.feature(17)
def test_a_batch_waits_for_its_linger_and_then_takes_everything_along() -> None:
    acc = accumulator(linger_s=1.0)
    add(acc, b"a", now=0.0)
    assert acc.drain(0.5, ROUTES).requests == []
    assert acc.drain(0.5, ROUTES).wake_at == 1.0
    add(acc, b"b", now=0.9)
    (request,) = acc.drain(1.0, ROUTES).requests
    assert (request.address, values(request)) == ("b0:1", [b"a", b"b"])


@pytest.mark.feature(19)
def test_a_full_batch_does_not_wait_and_holds_one_partition() -> None:
    acc = accumulator(batch_bytes=200)
    first = add(acc, b"x" * 100)
    second = add(acc, b"y" * 100)
    assert first is not None
    assert second is not first
    (request,) = acc.drain(0.0, ROUTES).requests
    assert [part.queue.partition for part in request.parts] == [PARTITIONS[0]]
    assert values(request) == [b"x" * 100]


@pytest.mark.feature(103)
def test_larger_batches_are_fewer_and_wait_longer() -> None:
    """A record of 50 bytes every 10 ms. A batch is what is sent and what a broker appends, whatever is in it."""

    def sent(batch_bytes: int) -> tuple[int, float]:
        """How many batches, and how long the first record of one has waited on average."""
        acc = accumulator(linger_s=60, batch_bytes=batch_bytes)
        waits = []
        for n in range(200):
            add(acc, bytes(50), now=n / 100)
            for request in acc.drain(n / 100, ROUTES).requests:
                (part,) = request.parts
                waits.append(n / 100 - part.batch.opened_at)
                assert read_header(part.batch.encode(Codec.NONE)).record_count == part.batch.count
                acc.on_response(request, answered(request), n / 100)
        return len(waits), sum(waits) / len(waits)

    (many, briefly), (few, long) = sent(300), sent(3_000)
    assert many > 5 * few > 0
    assert long > 5 * briefly > 0


def test_flushing_sends_what_lingers() -> None:
    acc = accumulator(linger_s=60)
    add(acc, b"a")
    acc.flushing = 1
    assert len(acc.drain(0.0, ROUTES).requests) == 1


@pytest.mark.feature(30)
def test_one_request_takes_every_ready_partition_of_a_broker() -> None:
    acc = accumulator(linger_s=0)
    for number in range(4):
        add(acc, b"%d" % number, partition=number)
    requests = acc.drain(0.0, ROUTES).requests
    assert {r.address: values(r) for r in requests} == {"b0:1": [b"0", b"2"], "b1:1": [b"1", b"3"]}


@pytest.mark.feature(175)
def test_a_partition_in_flight_waits_and_its_order_survives_a_retry() -> None:
    acc = accumulator(linger_s=0, backoff_s=0.1)
    add(acc, b"1")
    (first,) = acc.drain(0.0, ROUTES).requests
    add(acc, b"2", now=0.01)
    assert acc.drain(0.02, ROUTES).requests == []

    reported = acc.on_failed(first, ErrorCode.NETWORK_EXCEPTION, "gone", 0.1)
    assert (reported.settled, reported.refresh) == ([], True)
    assert acc.drain(0.15, ROUTES).requests == []  # the back-off
    (again,) = acc.drain(0.2, ROUTES).requests
    assert values(again) == [b"1"]
    settled = acc.on_response(again, answered(again, 40), 0.3).settled
    assert [(batch.base_offset, batch.count, batch.error) for batch in settled] == [(40, 1, None)]
    assert [values(request) for request in acc.drain(0.3, ROUTES).requests] == [[b"2"]]


@pytest.mark.feature(16)
def test_the_back_off_doubles_to_its_limit_and_a_new_leader_ends_it() -> None:
    acc = accumulator(linger_s=0, backoff_s=0.1, backoff_most_s=0.3)
    add(acc, b"1")
    now, waits = 0.0, []
    for _ in range(4):
        (request,) = acc.drain(now, ROUTES).requests
        acc.on_failed(request, ErrorCode.NOT_LEADER_OR_FOLLOWER, "", now)
        waits.append(round(acc.queue(PARTITIONS[0]).retry_at - now, 3))
        now += waits[-1]
    assert waits == [0.1, 0.2, 0.3, 0.3]
    (request,) = acc.drain(now, ROUTES).requests
    acc.on_failed(request, ErrorCode.NOT_LEADER_OR_FOLLOWER, "", now)
    assert acc.drain(now, ROUTES).requests == []
    (request,) = acc.drain(now, ROUTES | {PARTITIONS[0]: Route(IDS[0], "b1:1", 6)}).requests
    assert request.address == "b1:1"


@pytest.mark.feature(31)
def test_what_is_refused_for_good_fails_alone() -> None:
    acc = accumulator(linger_s=0, batch_bytes=120)
    for value in (b"good" * 20, b"evil" * 20, b"also" * 20):
        add(acc, value)
    failed = []
    for _ in range(3):
        (request,) = acc.drain(0.0, ROUTES).requests
        if b"evil" * 20 in values(request):
            failed += acc.on_failed(request, ErrorCode.INVALID_RECORD, "one of them", 0.0).settled
        else:
            assert all(batch.error is None for batch in acc.on_response(request, answered(request), 0.0).settled)
    assert acc.used_bytes == 0
    assert [batch.error and batch.error.code for batch in failed] == [ErrorCode.INVALID_RECORD]


@pytest.mark.feature(15)
def test_retries_are_counted() -> None:
    acc = accumulator(linger_s=0, retries=1, backoff_s=0)
    add(acc, b"1")
    (request,) = acc.drain(0.0, ROUTES).requests
    assert acc.on_failed(request, ErrorCode.NETWORK_EXCEPTION, "gone", 0.0).settled == []
    (request,) = acc.drain(0.0, ROUTES).requests
    (failed,) = acc.on_failed(request, ErrorCode.NETWORK_EXCEPTION, "gone", 0.0).settled
    assert failed.error is not None
    assert failed.error.code == ErrorCode.NETWORK_EXCEPTION


@pytest.mark.feature(13)
def test_a_record_that_waits_too_long_fails_and_the_next_one_goes_on() -> None:
    acc = accumulator(linger_s=0, delivery_timeout_s=10, batch_bytes=64)
    add(acc, b"old", now=0.0)
    add(acc, b"young", now=5.0)
    assert acc.drain(9.0, {}).reported.refresh
    drained = acc.drain(10.0, ROUTES)
    (late,) = drained.reported.settled
    assert late.error is not None
    assert "never sent" in str(late.error)
    assert late.error.code == ErrorCode.REQUEST_TIMED_OUT
    assert [values(request) for request in drained.requests] == [[b"young"]]
    assert drained.requests[0].deadline_at == 15.0


@pytest.mark.feature(18)
def test_a_full_buffer_takes_nothing_more_and_sends_what_it_has() -> None:
    acc = accumulator(batch_bytes=1000, buffer_bytes=2500, linger_s=60)
    assert add(acc, b"a", partition=0) is not None
    assert add(acc, b"b", partition=1) is not None
    assert add(acc, b"c", partition=2) is None
    requests = acc.drain(0.0, ROUTES).requests
    assert sorted(map(values, requests)) == [[b"a"], [b"b"]]
    for request in requests:
        acc.on_response(request, answered(request), 0.0)
    assert acc.used_bytes == 0
    assert add(acc, b"c", partition=2) is not None


def test_a_record_larger_than_a_request_is_refused_and_one_larger_than_a_batch_is_not() -> None:
    acc = accumulator(batch_bytes=100, request_bytes=1000, linger_s=0)
    with pytest.raises(RecordTooLargeError, match="max_request_size=1000"):
        add(acc, b"x" * 1000)
    assert acc.incomplete == {}
    add(acc, b"x" * 500)
    (request,) = acc.drain(0.0, ROUTES).requests
    assert values(request) == [b"x" * 500]


def test_a_request_is_bounded_and_partitions_take_turns() -> None:
    acc = accumulator(batch_bytes=100, request_bytes=250, linger_s=0)
    for number in (0, 2):
        for _ in range(2):
            add(acc, b"x" * 60, partition=number)
    served = []
    for _ in range(4):
        for request in acc.drain(0.0, ROUTES).requests:
            assert request.size_bytes <= 250
            served += [part.queue.partition.partition for part in request.parts]
            acc.on_response(request, answered(request), 0.0)
    assert served == [0, 2, 0, 2]
    assert acc.used_bytes == 0


@pytest.mark.feature(20)
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_request_has_one_batch_of_a_partition_and_the_open_batch_goes_on_filling(idempotent: bool) -> None:
    acc = accumulator(linger_s=0.0, batch_bytes=300, idempotent=idempotent)
    acc.producer_id = 7
    for n in range(3):
        add(acc, b"%d" % n * 150)
    add(acc, b"other", partition=2)
    (first,) = acc.drain(0.0, ROUTES).requests
    assert values(first) == [b"0" * 150, b"other"]
    acc.on_response(first, answered(first), 0.0)
    (second,) = acc.drain(0.0, ROUTES).requests
    assert values(second) == [b"1" * 150]
    add(acc, b"small")
    acc.on_response(second, answered(second), 0.0)
    (third,) = acc.drain(0.0, ROUTES).requests
    assert values(third) == [b"2" * 150, b"small"]


def test_a_broker_has_so_many_requests_in_flight_at_most() -> None:
    acc = accumulator(linger_s=0, requests_per_broker=1)
    add(acc, b"0", partition=0)
    (first,) = acc.drain(0.0, ROUTES).requests
    add(acc, b"2", partition=2)
    assert acc.drain(0.0, ROUTES).requests == []
    acc.on_response(first, answered(first), 0.0)
    assert len(acc.drain(0.0, ROUTES).requests) == 1


def test_what_an_answer_leaves_out_counts_as_not_answered() -> None:
    acc = accumulator(linger_s=0, backoff_s=0)
    add(acc, b"0", partition=0)
    (request,) = acc.drain(0.0, ROUTES).requests
    assert acc.on_response(request, {}, 0.0).settled == []
    assert [values(again) for again in acc.drain(0.0, ROUTES).requests] == [[b"0"]]


@pytest.mark.rule(66)
def test_without_acks_a_record_is_delivered_when_it_is_sent_and_its_offset_is_unknown() -> None:
    acc = accumulator(linger_s=0)
    add(acc, b"0")
    (request,) = acc.drain(0.0, ROUTES).requests
    (batch,) = acc.on_sent_unanswered(request).settled
    assert (batch.settled, batch.base_offset, batch.error) == (True, -1, None)
    assert list(acc.incomplete) == [batch]  # until everybody was told
    acc.on_announced([batch])
    assert acc.incomplete == {}


def test_an_abort_fails_everything_and_late_answers_find_nothing() -> None:
    acc = accumulator(linger_s=0)
    add(acc, b"0", partition=0)
    (request,) = acc.drain(0.0, ROUTES).requests
    add(acc, b"1", partition=1)
    why = OttlaError(ErrorCode.NETWORK_EXCEPTION, "closed")
    assert [batch.error for batch in acc.abort(why)] == [why, why]
    assert acc.on_response(request, answered(request), 0.0).settled == []
    assert acc.drain(0.0, ROUTES).requests == []
    assert acc.used_bytes == 0


def test_a_builder_that_refuses_a_record_leaves_no_trace() -> None:
    acc = accumulator()
    queue = acc.queue(PARTITIONS[0])
    with pytest.raises(TypeError):
        acc.append_to_new(queue, 0, None, "text", (), 0.0)  # type: ignore[arg-type]  # what no type allows
    assert (acc.used_bytes, acc.incomplete, queue.open) == (0, {}, None)


@pytest.mark.feature(18)
def test_a_request_in_flight_is_charged_beside_its_batches() -> None:
    acc = accumulator(linger_s=0)
    add(acc, b"x" * 1000)
    (request,) = acc.drain(0.0, ROUTES).requests
    assert acc.used_bytes == 2 * request.size_bytes > 2000
    acc.on_failed(request, ErrorCode.NETWORK_EXCEPTION, "gone", 0.1)
    assert acc.used_bytes == request.size_bytes, "the batch waits for its next try"
    (request,) = acc.drain(1.0, ROUTES).requests
    acc.on_response(request, answered(request), 1.1)
    assert acc.used_bytes == 0


# ---- idempotence -----------------------------------------------------------------------------------------------------


def idempotent(**limits: object) -> Accumulator:
    acc = accumulator(linger_s=0, batch_bytes=64, idempotent=True, **limits)
    acc.producer_id = 7
    return acc


def begun(**limits: object) -> Accumulator:
    """One whose first batch of partition 0 was acknowledged."""
    acc = idempotent(**limits)
    add(acc, b"first")
    (request,) = acc.drain(0.0, ROUTES).requests
    acc.on_response(request, answered(request), 0.0)
    return acc


def drained(acc: Accumulator, now: float) -> list[OutgoingRequest]:
    """Return all requests that may leave now. A single look takes one batch of a partition."""
    found: list[OutgoingRequest] = []
    while requests := acc.drain(now, ROUTES).requests:
        found += requests
    return found


def sealed(request: OutgoingRequest) -> list[tuple[int, int, int]]:
    """Producer id, epoch and first sequence of each batch, as they travel."""
    headers = [read_header(part.batch.encode(Codec.NONE)) for part in request.parts]
    return [(header.producer_id, header.producer_epoch, header.base_sequence) for header in headers]


@pytest.mark.feature(175)
def test_batches_are_stamped_when_they_leave_and_only_once_there_is_a_producer_id() -> None:
    acc = idempotent()
    acc.producer_id = -1
    add(acc, b"1")
    drained = acc.drain(0.0, ROUTES)
    assert (drained.requests, drained.wants_producer_id) == ([], True)
    acc.producer_id = 7
    (request,) = acc.drain(0.0, ROUTES).requests
    assert sealed(request) == [(7, 0, 0)]


@pytest.mark.feature(175)
@pytest.mark.feature(20)
def test_a_partition_has_five_batches_in_flight_each_answered_for_itself() -> None:
    acc = begun()
    for n in range(7):
        add(acc, b"%d" % n)
    requests = drained(acc, 0.0)
    assert [sealed(request) for request in requests] == [[(7, 0, n + 1)] for n in range(5)]
    refused = BatchResponse(code=ErrorCode.MESSAGE_TOO_LARGE, message="no")
    behind = BatchResponse(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    responses = [BatchResponse(1), BatchResponse(2), refused, behind, behind]
    settled = [
        batch
        for request, response in zip(requests, responses, strict=True)
        for batch in acc.on_response(request, {IDS[0]: response}, 0.0).settled
    ]
    assert [batch.error and batch.error.code for batch in settled] == [None, None, ErrorCode.MESSAGE_TOO_LARGE]
    assert [batch.base_offset for batch in settled[:2]] == [1, 2]


def test_a_batch_goes_again_as_it_was_and_in_order() -> None:
    acc = begun(backoff_s=0.1)
    for n in range(3):
        add(acc, b"%d" % n)
    requests = drained(acc, 0.0)
    before = [request.parts[0].batch.encode(Codec.NONE) for request in requests]
    codes = [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, *[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 2]
    for request, code in zip(requests, codes, strict=True):
        reported = acc.on_response(request, {IDS[0]: BatchResponse(code=code)}, 0.0)
        assert (reported.settled, reported.warnings) == ([], [])
    add(acc, b"3")
    assert drained(acc, 0.05) == []
    again = drained(acc, 0.1)
    assert [request.parts[0].batch.encode(Codec.NONE) for request in again][:3] == before
    assert [values(request) for request in again] == [[b"0"], [b"1"], [b"2"], [b"3"]]


def test_nothing_leaves_behind_a_failure_until_all_came_back() -> None:
    acc = begun(backoff_s=0)
    add(acc, b"1")
    (one,) = acc.drain(0.0, ROUTES).requests
    add(acc, b"2")
    (two,) = acc.drain(0.0, ROUTES).requests
    add(acc, b"3")
    acc.on_failed(one, ErrorCode.NETWORK_EXCEPTION, "gone", 0.0)
    assert acc.drain(0.1, ROUTES).requests == []
    acc.on_response(two, {IDS[0]: BatchResponse(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)}, 0.1)
    assert [values(again) for again in drained(acc, 0.2)] == [[b"1"], [b"2"], [b"3"]]


@pytest.mark.rule(23)
def test_a_topic_that_is_made_again_gets_nothing_before_the_old_one_answered_and_then_one_batch() -> None:
    acc = begun(backoff_s=0)
    add(acc, b"1")
    (request,) = acc.drain(0.0, ROUTES).requests
    add(acc, b"2")
    made_again = {PARTITIONS[0]: Route(PartitionId(TopicId(b"u" * 16), 0), "b0:1", 0)}
    assert acc.drain(0.1, made_again).requests == []
    acc.on_response(request, {IDS[0]: BatchResponse(code=ErrorCode.UNKNOWN_TOPIC_ID)}, 0.2)
    (request,) = acc.drain(0.3, made_again).requests
    assert values(request) == [b"1"]
    assert acc.drain(0.3, made_again).requests == []


@pytest.mark.rule(25)
def test_a_duplicate_is_a_success_at_an_offset_that_nobody_knows() -> None:
    acc = begun()
    add(acc, b"1")
    (request,) = acc.drain(0.0, ROUTES).requests
    (batch,) = acc.on_response(request, {IDS[0]: BatchResponse(code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER)}, 0.0).settled
    assert (batch.error, batch.base_offset) == (None, -1)


def test_a_gap_behind_a_batch_that_failed_begins_an_epoch_with_new_stamps_and_sound_bytes() -> None:
    acc = begun(backoff_s=0, delivery_timeout_s=10)
    add(acc, b"lost", now=0.0)
    add(acc, b"kept", now=5.0)
    for request in drained(acc, 5.0):
        request.parts[0].batch.encode(Codec.NONE)
        acc.on_failed(request, ErrorCode.NETWORK_EXCEPTION, "gone", 9.0)
    late = acc.drain(10.0, ROUTES)
    assert [batch.error and batch.error.code for batch in late.reported.settled] == [ErrorCode.REQUEST_TIMED_OUT]
    (request,) = late.requests
    assert sealed(request) == [(7, 0, 2)]
    reported = acc.on_response(request, {IDS[0]: BatchResponse(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)}, 10.0)
    assert (reported.settled, reported.warnings) == ([], [])
    (request,) = acc.drain(10.1, ROUTES).requests
    assert sealed(request) == [(7, 1, 0)]
    check_batch(request.parts[0].batch.encode(Codec.NONE), 0, max_bytes=1000)
    assert values(request) == [b"kept"]


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_broker_that_forgot_the_producer_is_told_of_and_gets_a_new_epoch(code: ErrorCode) -> None:
    acc = begun(backoff_s=0)
    add(acc, b"1")
    (request,) = acc.drain(0.0, ROUTES).requests
    reported = acc.on_response(request, {IDS[0]: BatchResponse(code=code, message="who?")}, 0.0)
    assert reported.settled == []
    assert "written twice" in reported.warnings[0]
    (request,) = acc.drain(0.1, ROUTES).requests
    assert sealed(request) == [(7, 1, 0)]


@pytest.mark.rule(31)
def test_a_producer_that_was_fenced_fails_one_batch_and_goes_on_under_another_id() -> None:
    acc = begun()
    add(acc, b"1")
    (request,) = acc.drain(0.0, ROUTES).requests
    add(acc, b"2")
    (batch,) = acc.on_response(request, {IDS[0]: BatchResponse(code=ErrorCode.INVALID_PRODUCER_EPOCH)}, 0.0).settled
    assert batch.error is not None
    assert "the next records get a new one" in batch.error.hint
    drained = acc.drain(0.1, ROUTES)
    assert (drained.requests, drained.wants_producer_id) == ([], True)
    acc.producer_id = 8
    (request,) = acc.drain(0.1, ROUTES).requests
    assert sealed(request) == [(8, 0, 0)]


def test_without_a_producer_id_records_wait_and_then_fail_with_the_reason() -> None:
    acc = idempotent(delivery_timeout_s=10)
    acc.producer_id = -1
    add(acc, b"1")
    acc.no_producer_id_error = OttlaError(ErrorCode.NOT_CONTROLLER, "no controller is elected")
    (late,) = acc.drain(10.0, ROUTES).reported.settled
    assert "never sent: no broker returned a producer id (no controller is elected)" in str(late.error)
    add(acc, b"2", now=11.0)
    assert acc.drain(11.0, ROUTES).wants_producer_id
    why = OttlaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "you may not")
    assert [batch.error for batch in acc.on_no_producer_id(why).settled] == [why]
    assert acc.drain(11.0, ROUTES).wants_producer_id is False


# ---- leaders that change and hang ------------------------------------------------------------------------------------


def test_the_metadata_is_asked_for_at_a_pace_while_something_fails() -> None:
    acc = accumulator(linger_s=0, backoff_s=1.0)
    add(acc, b"1")
    (request,) = acc.drain(0.0, ROUTES).requests
    assert acc.on_failed(request, ErrorCode.NETWORK_EXCEPTION, "gone", 0.0).refresh
    asked = [now / 100 for now in range(60) if acc.drain(now / 100, ROUTES).reported.refresh]
    assert [round(now, 1) for now in asked] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert acc.drain(0.59, ROUTES).wake_at == pytest.approx(asked[-1] + 0.1)


@pytest.mark.parametrize("keeps_order", [True, False])
def test_an_overdue_request_goes_to_the_new_leader_and_its_late_answer_changes_nothing(keeps_order: bool) -> None:
    acc = begun() if keeps_order else accumulator(linger_s=0)
    add(acc, b"1", partition=0)
    add(acc, b"2", partition=2)
    (request,) = acc.drain(0.0, ROUTES).requests
    assert acc.drain(0.9, ROUTES).reported.refresh is False
    assert acc.drain(1.0, ROUTES).reported.refresh
    moved = ROUTES | {PARTITIONS[0]: Route(IDS[0], "b1:1", 6)}
    (again,) = acc.drain(1.2, moved).requests
    assert (again.address, values(again)) == ("b1:1", [b"1"])
    (first,) = acc.on_response(again, answered(again, 70), 1.3).settled
    (other,) = acc.on_response(request, answered(request, 90), 1.4).settled
    assert (first.base_offset, other.base_offset) == (70, 90)
    assert acc.requests_in_flight == 0
    assert acc.used_bytes == 0


def test_a_hanging_broker_holds_nothing_once_all_its_partitions_are_led_elsewhere() -> None:
    acc = accumulator(linger_s=0, requests_per_broker=1)
    add(acc, b"1", partition=0)
    (request,) = acc.drain(0.0, ROUTES).requests
    moved = ROUTES | {PARTITIONS[0]: Route(IDS[0], "b0:1", 6)}  # it leads again, in another epoch
    assert [values(again) for again in acc.drain(1.5, moved).requests] == [[b"1"]]
    assert acc.on_response(request, answered(request), 1.6).settled == []
    assert acc.requests_in_flight == 1


def sealed_batch(*batch_values: bytes) -> SealedBatch:
    builder = new_builder(1 << 20, pure=True)
    for value in batch_values:
        builder.append(1000, None, value)
    data = builder.seal()
    return SealedBatch(read_header(data), data[HEADER_SIZE:])


def test_a_whole_batch_leaves_at_once_behind_what_came_before() -> None:
    acc = accumulator(linger_s=100.0)
    add(acc, b"a")
    queue = acc.queue(PARTITIONS[0])
    batch = acc.append_batch(queue, sealed_batch(b"b", b"c"), 0.0)
    assert batch is not None
    add(acc, b"d")
    (request,) = acc.drain(0.0, ROUTES).requests
    assert values(request) == [b"a"]
    acc.on_response(request, answered(request, 40), 0.0)
    (request,) = acc.drain(0.0, ROUTES).requests
    assert values(request) == [b"b", b"c"], "the last record waits for its linger"
    (settled,) = acc.on_response(request, answered(request, 41), 0.0).settled
    assert (settled, settled.base_offset, settled.count) == (batch, 41, 2)
    assert acc.drain(0.0, ROUTES).requests == []


def test_a_whole_batch_is_stamped_as_any_other() -> None:
    acc = accumulator(idempotent=True)
    acc.producer_id = 77
    for number in range(2):
        acc.append_batch(acc.queue(PARTITIONS[0]), sealed_batch(b"%d" % number, b"x"), 0.0)
    stamps = []
    for _ in range(2):  # the first batch of an epoch goes alone
        (request,) = acc.drain(0.0, ROUTES).requests
        (part,) = request.parts
        header = check_batch(part.batch.encode(Codec.NONE), 0, max_bytes=1 << 20)
        stamps.append((header.producer_id, header.producer_epoch, header.base_sequence))
        acc.on_response(request, answered(request), 0.0)
    assert stamps == [(77, 0, 0), (77, 0, 2)]


@pytest.mark.feature(18)
def test_a_full_buffer_takes_no_whole_batch_and_one_that_no_request_can_carry_is_rejected() -> None:
    acc = accumulator(buffer_bytes=300, batch_bytes=100, request_bytes=250)
    queue = acc.queue(PARTITIONS[0])
    assert acc.append_batch(queue, sealed_batch(b"x" * 150), 0.0) is not None
    assert acc.append_batch(queue, sealed_batch(b"x" * 150), 0.0) is None
    with pytest.raises(RecordTooLargeError):
        acc.append_batch(queue, sealed_batch(b"x" * 300), 0.0)


def test_a_batch_that_is_meant_for_a_topic_never_reaches_another_one_of_its_name() -> None:
    acc, queue_of = accumulator(), PARTITIONS[0]
    meant = [acc.append_batch(acc.queue(queue_of), sealed_batch(b"%d" % n), 0.0, IDS[0].topic_id) for n in range(2)]
    for_any = acc.append_batch(acc.queue(queue_of), sealed_batch(b"any"), 0.0)
    anew = {queue_of: Route(PartitionId(TopicId(b"u" * 16), 0), "b0:1", 0)}
    drained = acc.drain(0.0, anew)
    assert (drained.reported.settled, drained.requests, drained.reported.refresh) == (meant, [], True)
    assert {batch.error.code for batch in meant if batch and batch.error} == {ErrorCode.UNKNOWN_TOPIC_ID}
    (request,) = acc.drain(0.0, anew).requests
    assert (request.parts[0].batch, values(request)) == (for_any, [b"any"])


def test_a_batch_that_is_meant_for_another_topic_leaves_with_none_before_it() -> None:
    acc = accumulator()
    for_any = acc.append_batch(acc.queue(PARTITIONS[0]), sealed_batch(b"any"), 0.0)
    meant = acc.append_batch(acc.queue(PARTITIONS[0]), sealed_batch(b"1"), 0.0, TopicId(b"u" * 16))
    (request,) = acc.drain(0.0, ROUTES).requests
    assert (request.parts[0].batch, values(request)) == (for_any, [b"any"])
    acc.on_response(request, answered(request), 0.0)
    assert acc.drain(0.0, ROUTES).reported.settled == [meant]
    assert acc.used_bytes == 0
