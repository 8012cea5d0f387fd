"""The table of ends: every cell occurs, no other combination does, and what each cell says holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest

from ottla_core.coordination.shard import Entry, TransactionProducer
from ottla_core.coordination.timers import Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_txn_coordinator.machines.ending import ENDS, EndAction, Request, Stage, stage_of
from ottla_txn_coordinator.machines.records import TransactionRecord, decode_value
from ottla_txn_coordinator.machines.states import TransactionState
from ottla_txn_coordinator.machines.transaction import Caught, End, SendMarkers, decide_end

NOW = Moment(5.0, 5_000)
HOLDER = TransactionProducer(7, 5)
FORMER = TransactionProducer(7, 4)
STATES = [state for state in TransactionState if state is not TransactionState.DEAD]


class Meeting(NamedTuple):
    """A request that meets a record. `cell` is None if the producer is fenced before the table is asked."""

    record: TransactionRecord
    end: End
    cell: tuple[Stage, Request] | None


def meetings() -> Iterator[Meeting]:
    """Every state with every request of its producer, in its epoch and in the one before."""
    for state, committed, version, producer in product(STATES, (True, False), (0, 1, 2), (HOLDER, FORMER)):
        record = TransactionRecord(HOLDER, 1_000, state, former_epoch=FORMER.epoch, version=version)
        stage = stage_of(state, committed=committed)
        request = Request.OLD
        if version >= TRANSACTIONS_V2:
            request = Request.COMMIT if committed else Request.ABORT
        if producer == FORMER:
            request = Request.REPEAT
        is_fenced = producer == FORMER and (version < TRANSACTIONS_V2 or stage in (Stage.OPEN, Stage.NONE))
        yield Meeting(record, End(producer, committed, version), None if is_fenced else (stage, request))


def test_every_cell_occurs_and_no_other_combination_does() -> None:
    assert {met.cell for met in meetings()} == {*ENDS, None}


@pytest.mark.parametrize("met", list(meetings()), ids=lambda met: f"{met.record.state.value}-{met.end}")
def test_what_each_cell_says_holds(met: Meeting) -> None:
    codes = {EndAction.WAIT: ErrorCode.CONCURRENT_TRANSACTIONS, EndAction.REFUSE: ErrorCode.INVALID_TXN_STATE}
    action = None if met.cell is None else ENDS[met.cell]
    caught = Caught("payments", met.record)
    if action is None or action in codes:
        with pytest.raises(OttlaError) as refused:
            decide_end(caught, met.end, NOW)
        assert refused.value.code == (ErrorCode.PRODUCER_FENCED if action is None else codes[action])
        return
    decision = decide_end(caught, met.end, NOW)
    if action is EndAction.ANSWER:
        assert (decision.response, decision.records) == (HOLDER, ())
        return
    raises = met.end.version >= TRANSACTIONS_V2
    assert decision.response == HOLDER._replace(epoch=HOLDER.epoch + raises)
    (entry,) = decision.records
    assert isinstance(entry, Entry)
    assert entry.value is not None
    written = decode_value(entry.value)
    assert written is not None
    expected = {
        (EndAction.END, True): TransactionState.PREPARE_COMMIT,
        (EndAction.END, False): TransactionState.PREPARE_ABORT,
        (EndAction.RAISE, False): TransactionState.COMPLETE_ABORT,
    }
    assert written.state is expected[action, met.end.committed]
    sends = [effect for effect in decision.effects if isinstance(effect, SendMarkers)]
    assert bool(sends) == (action is EndAction.END)


@pytest.mark.parametrize(
    ("state", "committed", "code"),
    [
        (TransactionState.PREPARE_ABORT, True, ErrorCode.CONCURRENT_TRANSACTIONS),
        (TransactionState.PREPARE_COMMIT, False, ErrorCode.CONCURRENT_TRANSACTIONS),
        (TransactionState.COMPLETE_COMMIT, True, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_an_end_in_the_raised_epoch_belongs_to_the_next_transaction(
    state: TransactionState, committed: bool, code: ErrorCode
) -> None:
    """While the last transaction ends, the producer waits, whichever way it ends. Then there is nothing to commit."""
    record = TransactionRecord(HOLDER, 1_000, state, former_epoch=FORMER.epoch, version=TRANSACTIONS_V2)
    with pytest.raises(OttlaError) as refused:
        decide_end(Caught("payments", record), End(HOLDER, committed), NOW)
    assert refused.value.code == code
