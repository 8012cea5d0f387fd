"""What a partition knows of its producers' transactions: what opens one, what ends it, what is stable."""

from __future__ import annotations

import pytest
from batches import NOON
from produced import header_of
from transactional_logs import end_of

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.machines.producers import Producers
from ottla_broker.machines.transactions import AbortedTransaction, EndedTransaction, TransactionEnd, Transactions
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import CONTROL, TRANSACTIONAL, BatchHeader


def batch(sequence: int, *, producer_id: int = 7, epoch: int = 0, offset: int = 0) -> BatchHeader:
    header = header_of(sequence, producer_id=producer_id, epoch=epoch, offset=offset)
    return header._replace(attributes=TRANSACTIONAL)


def append(producers: Producers, offset: int, *headers: BatchHeader) -> None:
    producers.apply(producers.check(headers, offset, NOON))


def mark(producers: Producers, offset: int, end: TransactionEnd) -> AbortedTransaction | None:
    assert producers.check_marker(end) is None
    header = batch(-1, producer_id=end.producer_id, epoch=end.producer_epoch, offset=offset)
    return producers.on_marker(header._replace(attributes=TRANSACTIONAL | CONTROL), end.marker, NOON)


def refused(producers: Producers, end: TransactionEnd) -> ErrorCode:
    with pytest.raises(OttlaError) as caught:
        producers.check_marker(end)
    return ErrorCode(caught.value.code)


@pytest.fixture
def producers() -> Producers:
    """Producer 7 has a has an open transaction from offset 10 on."""
    producers = Producers()
    append(producers, 10, batch(0), batch(1))
    return producers


@pytest.mark.rule(37)
def test_nothing_is_stable_from_the_first_open_transaction_on(producers: Producers) -> None:
    append(producers, 12, batch(0, producer_id=8))
    assert [producers.last_stable_offset(0, HighWatermark(hw)) for hw in (5, 10, 11, 13)] == [5, 10, 10, 10]
    mark(producers, 13, end_of(7, 1))
    assert producers.last_stable_offset(0, HighWatermark(13)) == 10, "its marker is not below the high watermark"
    assert producers.last_stable_offset(0, HighWatermark(14)) == 12
    mark(producers, 14, end_of(8, 1))
    assert producers.last_stable_offset(0, HighWatermark(15)) == 15


@pytest.mark.rule(37)
def test_the_order_is_that_of_first_offsets_whoever_comes_first_in_a_request() -> None:
    producers = Producers()
    plain = header_of(0, producer_id=1)
    append(producers, 0, plain, batch(0, producer_id=2), batch(1, producer_id=1))
    assert producers.last_stable_offset(0, HighWatermark(9)) == 1
    mark(producers, 3, end_of(2, 1))
    assert producers.last_stable_offset(0, HighWatermark(9)) == 2


@pytest.mark.rule(37)
def test_one_that_began_first_and_ends_last_stands_for_all_that_ended_before_it() -> None:
    transactions = Transactions({}, ())
    for n in range(1000):
        transactions.begin(n, n)
    for n in range(999, -1, -1):
        transactions.end(n, 2000 - n)
        assert transactions.ended() == (EndedTransaction(n, 2000 - n),)
    assert transactions.first_unstable(HighWatermark(2000)) == 0
    assert transactions.first_unstable(HighWatermark(2001)) is None


@pytest.mark.rule(37)
def test_a_question_forgets_nothing() -> None:
    transactions = Transactions({}, ())
    for n in range(3):
        transactions.begin(7, 10 * n)
        transactions.end(7, 10 * n + 5)
    ended = transactions.ended()
    assert [transactions.first_unstable(HighWatermark(hw)) for hw in (100, 16, 5, 100)] == [None, 20, 0, None]
    assert transactions.ended() == ended
    transactions.forget_below(HighWatermark(15))
    assert transactions.ended() == ended[1:], "the marker at 15 is not below 15"
    transactions.forget_below(HighWatermark(26))
    assert transactions.ended() == ()


@pytest.mark.rule(29)
def test_a_cut_below_a_forgotten_marker_is_noticed() -> None:
    transactions = Transactions({7: 10}, ())
    transactions.end(7, 15)
    transactions.forget_below(HighWatermark(20))
    assert (transactions.reaches(15), transactions.reaches(16)) == (True, False)


@pytest.mark.rule(37)
def test_ended_transactions_are_the_same_from_a_snapshot_in_any_order() -> None:
    ended = [EndedTransaction(4, 30), EndedTransaction(9, 20), EndedTransaction(12, 40)]
    for order in (ended, ended[::-1]):
        assert Transactions({}, order).ended() == (EndedTransaction(4, 30), EndedTransaction(12, 40))


@pytest.mark.rule(17, 37)
def test_the_last_stable_offset_is_within_the_log_where_an_open_transaction_begins_before_it(
    producers: Producers,
) -> None:
    assert producers.last_stable_offset(11, HighWatermark(20)) == 11
    assert producers.last_stable_offset(20, HighWatermark(20)) == 20
    assert producers.last_stable_offset(3, HighWatermark(20)) == 10


@pytest.mark.rule(42)
def test_a_plain_batch_within_a_transaction_is_refused(producers: Producers) -> None:
    for headers in ([header_of(2)], [header_of(0, epoch=1)]):
        with pytest.raises(OttlaError, match="has an open transaction") as caught:
            producers.check(headers, 12, NOON)
        assert caught.value.code == ErrorCode.INVALID_TXN_STATE
    with pytest.raises(OttlaError, match="has an open transaction"):
        Producers().check([batch(0), header_of(1)], 0, NOON)
    mark(producers, 12, end_of(7, 0, v2=False))
    append(producers, 13, header_of(2), batch(3))


@pytest.mark.rule(36)
def test_a_marker_of_an_older_coordinator_is_fenced(producers: Producers) -> None:
    mark(producers, 12, end_of(7, 1, coordinator_epoch=5))
    append(producers, 13, batch(0, epoch=1))
    assert refused(producers, end_of(7, 2, coordinator_epoch=4)) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    restored = Producers(producers.entries())
    assert refused(restored, end_of(7, 2, coordinator_epoch=4)) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    mark(producers, 14, end_of(7, 2, coordinator_epoch=5))


@pytest.mark.rule(36, 40)
def test_a_marker_that_raises_epochs_ends_no_later_transaction(producers: Producers) -> None:
    """KAFKA-19446, KAFKA-19999: the epoch of the marker is that of the next transaction."""
    end = end_of(7, 1, committed=False)
    assert mark(producers, 12, end) == AbortedTransaction(7, 10, 12, 13)
    assert producers.check_marker(end) == 12, "a repeat"
    assert producers.check_marker(end_of(7, 1, coordinator_epoch=2)) == 12, "by whoever took over, too"
    append(producers, 13, batch(0, epoch=1))
    assert refused(producers, end) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(producers, end_of(7, 0)) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.rule(36)
def test_before_that_the_epoch_of_a_marker_is_that_of_the_batches(producers: Producers) -> None:
    end = end_of(7, 0, v2=False)
    mark(producers, 12, end)
    assert producers.check_marker(end) == 12
    mark(producers, 13, end_of(7, 0, coordinator_epoch=2, v2=False))
    assert refused(producers, end) == ErrorCode.TRANSACTION_COORDINATOR_FENCED, "the newer one is known by its marker"
    append(producers, 14, batch(2))


@pytest.mark.rule(36)
def test_a_marker_without_a_transaction_fences_and_ends_nothing(producers: Producers) -> None:
    assert mark(producers, 12, end_of(9, 4, committed=False)) is None
    state = producers.get(9)
    assert state is not None
    assert (state.epoch, state.transaction_offset) == (4, -1)
    with pytest.raises(OttlaError) as caught:
        producers.check([batch(0, producer_id=9, epoch=3)], 13, NOON)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.rule(30)
def test_a_producer_with_an_open_transaction_does_not_expire(producers: Producers) -> None:
    assert producers.expire(NOON + 10_000, 1000) == 0
    mark(producers, 12, end_of(7, 1))
    assert producers.expire(NOON + 10_000, 1000) == 1
    assert producers.reaches(12), "that it has ended may be taken back"


@pytest.mark.rule(37)
def test_a_coordinators_batch_without_a_sequence_opens_one_and_an_emptied_one_does_not() -> None:
    producers = Producers()
    producers.on_stored(batch(-1, offset=4), NOON)
    assert producers.has_open(7, 0)
    producers.on_stored(batch(0, producer_id=8, offset=5)._replace(record_count=0), NOON)
    assert not producers.has_open(8, 0)
    assert producers.last_stable_offset(0, HighWatermark(9)) == 4


@pytest.mark.rule(30)
def test_the_newest_batches_are_the_marker_and_the_batch_before_it(producers: Producers) -> None:
    mark(producers, 12, end_of(7, 0, v2=False))
    assert producers.newest_batches() == {11, 12}
