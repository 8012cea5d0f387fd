"""A partition takes no batch of an unknown producer while an earlier one is to be sent again."""

from __future__ import annotations

import pytest
from batches import NOON
from produced import header_of
from transactional_logs import end_of

from ottla_broker.machines.first_sequences import FirstSequences
from ottla_broker.machines.producers import Producers
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import CONTROL, TRANSACTIONAL, BatchHeader

LAST = 2**31 - 1


def transactional(producer_id: int = 7) -> BatchHeader:
    return header_of(0, producer_id=producer_id)._replace(attributes=TRANSACTIONAL)


def refuses(firsts: FirstSequences, sequence: int, epoch: int = 0) -> bool:
    try:
        firsts.check(header_of(sequence, epoch=epoch))
    except OttlaError as error:
        return error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return False


@pytest.mark.rule(25)
@pytest.mark.parametrize(
    ("expected", "refused", "taken"),
    [
        ([0], [1, 9, 1 << 30], [0]),
        ([3, 1, 2], [2, 3], [1]),
        ([5, 9], [6, 9], [5]),
        ([LAST], [0, 4], [LAST]),
        ([0, LAST], [0, 4], [LAST]),
        ([4, LAST], [0, 4], [LAST]),
    ],
)
def test_the_lowest_is_taken_and_what_comes_after_it_is_not(
    expected: list[int], refused: list[int], taken: list[int]
) -> None:
    firsts = FirstSequences()
    for sequence in expected:
        firsts.expect(header_of(sequence), NOON)
    assert [refuses(firsts, sequence) for sequence in refused] == [True] * len(refused)
    assert [refuses(firsts, sequence) for sequence in taken] == [False] * len(taken)


@pytest.mark.rule(25)
def test_a_higher_epoch_begins_anew_and_a_lower_one_changes_nothing() -> None:
    firsts = FirstSequences()
    for epoch, sequence in ((3, 5), (4, 7), (3, 0)):
        firsts.expect(header_of(sequence, epoch=epoch), NOON)
    assert [refuses(firsts, sequence, epoch=4) for sequence in (7, 8)] == [False, True]
    assert not refuses(firsts, 9, epoch=3), "its epoch is another rule's"
    assert not refuses(firsts, 9, epoch=5)


def test_what_has_no_producer_or_no_sequence_is_not_expected() -> None:
    firsts = FirstSequences()
    firsts.expect(header_of(-1, producer_id=-1, epoch=-1), NOON)
    firsts.expect(header_of(-1), NOON)
    assert not firsts


@pytest.mark.rule(25, 36)
def test_it_is_forgotten_with_the_first_batch_or_marker_of_its_producer() -> None:
    for producer_id in range(3):
        producers = Producers()
        producers.expect(transactional(producer_id), NOON)
        assert len(producers.first_sequences) == 1
        if producer_id == 0:
            producers.apply(producers.check([header_of(0, producer_id=0)], 0, NOON))
        elif producer_id == 1:
            producers.on_stored(header_of(0, producer_id=1), NOON)
        else:
            marker = header_of(-1, producer_id=2)._replace(attributes=TRANSACTIONAL | CONTROL)
            producers.on_marker(marker, end_of(2, 0).marker, NOON)
        assert not producers.first_sequences
        producers.expect(transactional(producer_id), NOON)
        are_checked_by_themselves = producer_id != 2  # a marker tells no sequence
        assert len(producers.first_sequences) == (0 if are_checked_by_themselves else 1)


@pytest.mark.rule(30)
def test_it_expires_by_when_it_was_first_expected() -> None:
    producers = Producers()
    for now_ms in (NOON, NOON + 900):
        producers.expect(transactional(), now_ms)
    producers.expire(NOON + 999, 1000)
    assert len(producers.first_sequences) == 1
    producers.expire(NOON + 1000, 1000)
    assert not producers.first_sequences


def test_there_are_no_more_than_so_many() -> None:
    firsts = FirstSequences(most=3)
    for producer_id in range(5):
        firsts.expect(header_of(0, producer_id=producer_id), NOON)
    assert len(firsts) == 3
    firsts.check(header_of(1, producer_id=1))
    with pytest.raises(OttlaError):
        firsts.check(header_of(1, producer_id=2))


@pytest.mark.rule(25)
def test_a_batch_of_no_transaction_is_not_expected() -> None:
    producers = Producers()
    producers.expect(header_of(0), NOON)
    assert not producers.first_sequences
