"""The driver's decision: every role in every state, and which batch is written, repeated, or another query's."""

from __future__ import annotations

import itertools
import json

import pytest

from ottla.errors import ConfigError, ErrorCode, FencedError, TransactionAborted
from pyspark_ottla.machines.decisions import (
    ABORTED,
    ACTIONS,
    COMMITTED,
    OPEN,
    UNKNOWN,
    UNUSED,
    Action,
    Batch,
    Decision,
    OvertakenError,
    Role,
    TaskTransaction,
    actions,
    check_kept,
    decision_from,
    is_decided,
    superseded,
)

BATCH = Batch("q", 5, "run-1", "/c")
MINE, LISTED = TaskTransaction("spark-q-5-0-aaaaaaaa", 7, 0), TaskTransaction("spark-q-4-0-bbbbbbbb", 6, 0)
LAST = Decision(BATCH._replace(number=4), (LISTED,))
STATES = {
    OPEN: ["Ongoing"],
    COMMITTED: ["PrepareCommit", "CompleteCommit"],
    ABORTED: ["PrepareAbort", "CompleteAbort"],
    UNUSED: ["Empty"],
}


def test_every_role_has_an_action_in_every_state() -> None:
    assert set(ACTIONS) == set(itertools.product(Role, (OPEN, COMMITTED, ABORTED, UNUSED, UNKNOWN))) - {
        (Role.ORPHAN, UNKNOWN),
        (Role.UNDECIDED, UNKNOWN),
    }


@pytest.mark.parametrize("status", STATES)
def test_each_transaction_is_treated_by_its_role_and_state(status: str) -> None:
    for state in STATES[status]:
        others = ["spark-q-5-0-cccccccc", "spark-q-4-0-dddddddd", "spark-q-3-0-eeeeeeee"]
        states = dict.fromkeys([MINE.transactional_id, LISTED.transactional_id, *others], state)
        assert actions(LAST, [MINE], states) == {
            LISTED.transactional_id: ACTIONS[Role.DECIDED, status],
            MINE.transactional_id: ACTIONS[Role.CANDIDATE, status],
            "spark-q-5-0-cccccccc": ACTIONS[Role.UNDECIDED, status],
            "spark-q-4-0-dddddddd": ACTIONS[Role.ORPHAN, status],
            "spark-q-3-0-eeeeeeee": ACTIONS[Role.ORPHAN, status],
        }


def test_what_is_forgotten_is_committed_where_it_was_decided_and_lost_where_it_was_not() -> None:
    assert actions(LAST, [MINE], {}) == {LISTED.transactional_id: Action.NONE, MINE.transactional_id: Action.LOST}
    assert actions(None, [], {}) == {}


def test_a_decided_transaction_is_never_an_orphan() -> None:
    """The driver that repeats a batch has tasks of its own, and lets go of them."""
    states = dict.fromkeys([LISTED.transactional_id, "spark-q-4-0-cccccccc"], "Ongoing")
    let_go = [LISTED.transactional_id]
    assert actions(LAST, [], states, let_go) == {
        LISTED.transactional_id: Action.COMMIT,
        "spark-q-4-0-cccccccc": Action.ABORT,
    }


def test_of_a_later_batch_only_what_has_failed_is_let_go() -> None:
    """A driver that was overtaken sees its follower's, which may be decided by now."""
    states = dict.fromkeys(
        [MINE.transactional_id, "spark-q-5-0-cccccccc", "spark-q-6-0-dddddddd", "spark-q-x", "spark"], "Ongoing"
    )
    kept = dict.fromkeys(states, Action.KEEP)
    assert actions(None, [], states) == kept
    assert actions(None, [], states, [MINE.transactional_id]) == {**kept, MINE.transactional_id: Action.ABORT}


def test_what_was_ended_by_others_is_named() -> None:
    check_kept({"a": Action.COMMIT, "b": Action.KEEP}, BATCH)
    with pytest.raises(TransactionAborted, match=r"micro-batch 5 of query q: a and 1 more were ended.*explain --id a"):
        check_kept({"b": Action.LOST, "a": Action.LOST}, BATCH)


def test_a_batch_is_decided_once() -> None:
    assert not is_decided(None, BATCH)
    assert not is_decided(LAST, BATCH)
    assert is_decided(LAST, BATCH._replace(number=4, run="run-2"))
    assert not is_decided(LAST, BATCH._replace(number=9)), "Spark does not commit what has no rows"


def test_a_driver_that_comes_too_late_is_fenced() -> None:
    with pytest.raises(OvertakenError, match=r"micro-batch 3 of query q comes too late: batch 4 .* by run run-1"):
        is_decided(LAST, BATCH._replace(number=3))
    error = superseded(BATCH, FencedError(ErrorCode.PRODUCER_FENCED, "x"))
    assert "another run of the same query has begun to write: micro-batch 5 of query q" in str(error)
    assert "checkpointLocation of its own" in error.hint


def test_a_copied_checkpoint_is_no_second_run() -> None:
    """Its rows are others', so taking them for written would lose them."""
    for number in (3, 4):
        with pytest.raises(ConfigError, match=r"written already, from another checkpoint: /c .*a copied checkpoint"):
            is_decided(LAST, BATCH._replace(number=number, checkpoint="/copy"))
    assert not is_decided(LAST, BATCH._replace(checkpoint="/moved")), "a query may move between two batches"
    assert is_decided(LAST, BATCH._replace(number=4, checkpoint="")), "of the session's location nothing is known"


def test_a_decision_is_what_its_text_was() -> None:
    assert decision_from(LAST.to_json()) == LAST
    newer = {**json.loads(LAST.to_json()), "version": 2}
    for text, cause in ((json.dumps(newer), "of version 2"), ("{}", "not readable"), ("x", "not readable")):
        with pytest.raises(ConfigError, match=cause + ".*continue the query with the release"):
            decision_from(text)


def test_a_batch_write_is_named_by_its_id() -> None:
    with pytest.raises(TransactionAborted, match="the write w: a and 0 more"):
        check_kept({"a": Action.LOST}, Batch("w", 0))
