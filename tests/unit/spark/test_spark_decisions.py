"""The driver's decision: every role in every status, what becomes an orphan, and which batch is written, repeated, or
another one."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import pytest

from ottla.errors import ConfigError, ErrorCode, FencedError, TransactionAborted
from pyspark_ottla.machines.decisions import (
    ACTIONS,
    NOTHING,
    TRANSACTIONS_A_RECORD,
    Action,
    Batch,
    Content,
    Decision,
    Known,
    OvertakenError,
    Role,
    Status,
    TaskTransaction,
    actions,
    attempts_of,
    check_kept,
    deciding,
    decision_from,
    is_decided,
    letting_go,
    of_candidates,
    query_of,
    records_of,
    status_of,
    superseded,
    unused,
)

BATCH = Batch("q", 5, "run-1")
ROWS = Content(40, 7)
MINE = TaskTransaction(BATCH.transactional_id(0, "0"), 7, 3)
TWIN = TaskTransaction(BATCH.transactional_id(0, "1"), 8, 0)
OTHERS = TaskTransaction(BATCH._replace(run="run-2").transactional_id(0, "0"), 9, 0)
WRITE = Batch("w", 5, "cccccccc", is_micro_batch=False)
OLDER, EQUAL, NEWER = (
    TaskTransaction(WRITE._replace(number=n).transactional_id(0, "aaaaaaaa"), n, 0) for n in (4, 5, 6)
)
LAST = Decision(BATCH._replace(number=4), ROWS, (MINE._replace(epoch=1),))


def known(*transactions: TaskTransaction, state: str = "Ongoing") -> dict[str, Known]:
    return {each.transactional_id: Known(state, each.producer_id, each.epoch) for each in transactions}


def test_every_role_has_an_action_in_every_status() -> None:
    assert set(ACTIONS) == set(itertools.product(Role, Status))


@pytest.mark.parametrize(
    ("state", "epochs", "status"),
    [
        ("Ongoing", 0, Status.OPEN),
        ("Empty", 0, Status.UNUSED),
        ("PrepareCommit", 0, Status.COMMITTED),
        ("CompleteCommit", 1, Status.COMMITTED),
        ("PrepareAbort", 1, Status.ABORTED),
        ("CompleteAbort", 0, Status.ABORTED),
        ("Ongoing", 1, Status.FOLLOWED),
        ("Empty", 1, Status.FOLLOWED),
        ("CompleteAbort", 2, Status.FOLLOWED),
        ("CompleteCommit", -1, Status.FOLLOWED),
    ],
)
def test_a_transaction_is_known_by_its_producer_and_epoch(state: str, epochs: int, status: Status) -> None:
    assert status_of(MINE, Known(state, MINE.producer_id, MINE.epoch + epochs)) is status
    assert status_of(MINE, Known(state, MINE.producer_id + 1, MINE.epoch + epochs)) is Status.FOLLOWED


def test_what_a_decision_names_is_ended_as_it_says() -> None:
    decision = Decision(BATCH, ROWS, (MINE,), (TWIN,))
    assert actions(decision, known(MINE, TWIN, OTHERS)) == {MINE: Action.COMMIT, TWIN: Action.ABORT}
    assert actions(decision, {}) == {MINE: Action.NONE, TWIN: Action.NONE}, "they were ended and forgotten"
    assert actions(None, known(MINE)) == {}


def test_what_is_to_be_decided_has_to_be_open_and_no_orphan() -> None:
    assert of_candidates([MINE], LAST, known(MINE)) == {MINE: Action.NONE}
    assert of_candidates([MINE], LAST, {}) == {MINE: Action.LOST}
    assert of_candidates([MINE], Decision(LAST.batch, ROWS, (), (MINE,)), known(MINE)) == {MINE: Action.LOST}


def test_the_decision_of_a_micro_batch_lets_go_of_every_other_attempt() -> None:
    decision = deciding(BATCH, ROWS, [MINE], LAST, known(MINE, TWIN, OTHERS))
    assert decision == Decision(BATCH, ROWS, (MINE,), (TWIN, OTHERS))
    assert deciding(BATCH, ROWS, [MINE], None, known(MINE)).orphans == ()


def test_the_decision_of_a_batch_write_leaves_newer_versions_alone() -> None:
    before = Decision(WRITE._replace(number=3), ROWS)
    assert deciding(WRITE, ROWS, [], before, known(OLDER, EQUAL, NEWER)).orphans == (OLDER, EQUAL)
    assert letting_go(WRITE, [], before, known(OLDER, EQUAL, NEWER)) is None
    after = Decision(WRITE, ROWS)
    assert letting_go(WRITE, [], after, known(OLDER, EQUAL, NEWER)) == Decision(WRITE, ROWS, (), (OLDER, EQUAL))
    own = TaskTransaction(NEWER.transactional_id[:-8] + WRITE.run + "bbbbbbbb", 1, 0)
    assert letting_go(WRITE, [], before, known(own, NEWER)) == replace(before, orphans=(own,))
    assert letting_go(WRITE, [NEWER], after, known(NEWER)) == Decision(WRITE, ROWS, (), (NEWER,))


def test_a_driver_that_decides_nothing_lets_go_of_its_own_run_alone() -> None:
    assert letting_go(BATCH, [], LAST, known(TWIN, OTHERS)) == Decision(LAST.batch, ROWS, LAST.transactions, (TWIN,))
    assert letting_go(BATCH, [OTHERS], None, known(OTHERS)) == Decision(
        BATCH._replace(number=NOTHING), None, (), (OTHERS,)
    )
    assert letting_go(BATCH, [], LAST, known(OTHERS)) is None
    decided = Decision(BATCH, ROWS, (MINE,))
    assert letting_go(BATCH, [MINE], decided, known(MINE)) is None, "what is decided is not let go"
    assert letting_go(BATCH, [MINE], LAST, {}) is None, "what is not open needs no more"


def test_ids_of_other_runs_and_of_batch_writes_are_forgotten() -> None:
    names = [each.transactional_id for each in (MINE, OTHERS)]
    assert unused(names, [], BATCH, LAST, decides=True) == [OTHERS.transactional_id]
    assert unused(names, [], BATCH, LAST, decides=False) == []
    assert unused([], [OTHERS, MINE], BATCH, LAST, decides=False) == [OTHERS.transactional_id]
    writes = [each.transactional_id for each in (EQUAL, NEWER)]
    assert unused(writes, [], WRITE, None, decides=True) == [EQUAL.transactional_id]
    assert unused(["x"], [], WRITE, None, decides=True) == []


def test_ids_name_their_query_and_no_other() -> None:
    for each in (MINE, TWIN, OTHERS):
        assert query_of(each.transactional_id) == "q"
        assert re.fullmatch(attempts_of("q"), each.transactional_id)
    assert query_of(OLDER.transactional_id) == "w"
    assert re.fullmatch(attempts_of("w"), OLDER.transactional_id)
    longer = Batch("q-r00000000-1-2", 0, "run").transactional_id(0, "0")
    assert query_of(longer) == "q-r00000000-1-2"
    assert not re.fullmatch(attempts_of("q"), longer)
    assert query_of("q") == "q"


def test_what_was_ended_by_others_is_named() -> None:
    check_kept({MINE: Action.COMMIT, TWIN: Action.NONE}, BATCH)
    with pytest.raises(
        TransactionAborted,
        match=r"micro-batch 5 of query q: another client ended .*-0-0 and 1 other transaction, .*explain --id",
    ):
        check_kept({TWIN: Action.LOST, MINE: Action.LOST}, BATCH)
    with pytest.raises(TransactionAborted, match="the write w: "):
        check_kept({OLDER: Action.LOST}, WRITE._replace(number=0))


def test_a_batch_is_decided_once() -> None:
    assert not is_decided(None, BATCH, ROWS)
    assert not is_decided(LAST, BATCH, ROWS)
    assert is_decided(LAST, BATCH._replace(number=4, run="run-2"), ROWS)
    assert not is_decided(LAST, BATCH._replace(number=9), ROWS), "Spark does not commit what has no rows"


def test_a_driver_that_comes_too_late_is_fenced() -> None:
    with pytest.raises(OvertakenError, match=r"micro-batch 3 of query q is too late: batch 4 .* by run run-1"):
        is_decided(LAST, BATCH._replace(number=3), ROWS)
    error = superseded(BATCH, FencedError(ErrorCode.PRODUCER_FENCED, "x"))
    assert "has begun to write, so this run no longer writes micro-batch 5 of query q" in str(error)
    assert "its own checkpointLocation" in error.hint


def test_a_batch_is_known_by_its_rows() -> None:
    repeated = BATCH._replace(number=4)
    for content, cause in (
        (Content(41, 7), "41 rows now, .* with 40 rows"),
        (Content(40, 8), "was already written with 40 different rows"),
    ):
        with pytest.raises(ConfigError, match=cause):
            is_decided(LAST, repeated, content)
        assert is_decided(LAST, repeated, content, compare=False)
        assert is_decided(Decision(repeated, None), repeated, content), "an earlier release did not say what they were"


def test_a_decision_is_what_its_texts_were() -> None:
    for decision in (LAST, Decision(BATCH, None), Decision(BATCH, ROWS, (MINE,), (TWIN, OTHERS))):
        (text,) = decision.to_texts()
        assert (records_of(text), decision_from([text])) == (1, decision)
    many = tuple(TaskTransaction("x" * 250, 2**62 + n, 2**15) for n in range(2 * TRANSACTIONS_A_RECORD))
    large = Decision(BATCH, ROWS, many, (TWIN,))
    texts = large.to_texts()
    assert (len(texts), records_of(texts[0]), decision_from(texts)) == (3, 3, large)
    assert max(map(len, texts)) < 2**20, "no larger than max.message.bytes"


def test_the_decision_of_an_earlier_release_is_read() -> None:
    text = json.dumps({"version": 1, "batch": ["q", 4, "run-1", "/c"], "transactions": [MINE]})
    assert decision_from([text]) == Decision(BATCH._replace(number=4), None, (MINE,))
    assert records_of(text) == 1


def test_what_is_no_decision_is_an_error() -> None:
    newer = json.dumps({**json.loads(LAST.to_texts()[0]), "version": 3})
    for text, cause in (
        (newer, "it has version 3"),
        ("{}", "can't be read"),
        ("x", "can't be read"),
        ("1", "can't be read"),
    ):
        with pytest.raises(ConfigError, match=cause + ".*continue the query with the release"):
            decision_from([text])
    with pytest.raises(ConfigError, match="can't be read"):
        decision_from([*LAST.to_texts(), ""])
