"""The verdict at the seams of log, cleaner, elections and transactions: each finding has its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.faults.audit import StoredBatch
from tests.faults.compacted.checker import Told
from tests.faults.compacted.records import is_tombstone, key_of, value_of
from tests.faults.history import Name, Operation
from tests.faults.power.checker import MOST_BATCH_BYTES, MOST_ENDED, Policy, SeamsChecker
from tests.faults.power.replicas import StoredRecord, StoredReplica
from tests.faults.power.report import missed
from tests.faults.power.rows import LEAST_CUTS, LEAST_HITS, ROW
from tests.faults.power.run import PowerResult

COMPACT, PLAIN = Policy(compact=True, delete=False), Policy(compact=False, delete=True)
FIRST, SECOND, TOMBSTONE = 1, 21, 5
"""Numbers: two values of one key, and a tombstone of another."""


def told(*sent: tuple[int, int], aborted: int = -1, unknown: int = -1) -> Told:
    """Return a history of acknowledged records: of these numbers, at these offsets."""

    def note(type_: str, number: int, offset: int = -1) -> Operation:
        return {
            "process": "w", "f": "send", "type": type_, "partition": 0, "first": number, "count": 1,
            "mono_ns": 1, "offset": offset,
        }  # fmt: skip

    history = [note("invoke", number) for number in (*(number for number, _ in sent), aborted, unknown) if number >= 0]
    history += [note("ok", number, offset) for number, offset in sent]
    return Told([*history, *([note("fail", aborted)] if aborted >= 0 else [])])


def replica(broker: int = 0, *, epochs: Any = ((1, 0),), end: int = 10, **records: int) -> StoredReplica:
    """`_3=21`: the record with number 21 at offset 3; a batch for each."""
    found = {int(at[1:]): Name("w", 0, number) for at, number in records.items()}
    return StoredReplica(
        Path(f"broker-{broker}/t-0"),
        high_watermark=end,
        batches=[StoredBatch(at, at + 1, 1, number, 100) for at, (_, _, number) in found.items()],
        records={at: StoredRecord(key_of(name), value_of(name), name) for at, name in found.items()},
        epochs=list(epochs),
    )


def findings(policy: Policy, history: Told, *replicas: StoredReplica) -> dict[str, int]:
    checker = SeamsChecker()
    checker.check_partition(0, replicas, policy, history)
    return {kind: count for kind, count in checker.findings.counts.items() if count}


HISTORY = told((FIRST, 0), (SECOND, 3), (TOMBSTONE, 4))


def test_the_newest_of_each_key_is_there_and_a_tombstone_may_be_gone() -> None:
    assert key_of(Name("w", 0, FIRST)) == key_of(Name("w", 0, SECOND))
    assert is_tombstone(Name("w", 0, TOMBSTONE))
    assert findings(COMPACT, HISTORY, replica(_3=SECOND), replica(1, _0=FIRST, _3=SECOND, _4=TOMBSTONE)) == {}


def test_an_older_value_or_none_is_a_loss() -> None:
    assert findings(COMPACT, HISTORY, replica(_0=FIRST)) == {"lost": 1}
    assert findings(COMPACT, HISTORY, replica()) == {"lost": 1}


def test_of_a_topic_that_is_not_compacted_all_is_there_from_its_start_on() -> None:
    history = told((FIRST, 0), (SECOND, 3))
    assert findings(PLAIN, history, replica(_0=FIRST, _3=SECOND)) == {}
    assert findings(PLAIN, history, replica(_3=SECOND)) == {"lost": 1}
    begun_later = replica(_3=SECOND)
    begun_later.start_offset = 3
    assert findings(PLAIN, history, begun_later) == {}


def test_a_record_of_an_aborted_transaction_or_at_another_place_is_found() -> None:
    assert findings(COMPACT, told((SECOND, 3), aborted=2), replica(_1=2, _3=SECOND)) == {"aborted": 1}
    assert findings(COMPACT, told((SECOND, 3)), replica(_3=SECOND, _5=SECOND)) == {"misplaced": 1}
    assert findings(COMPACT, told((SECOND, 3), unknown=2), replica(_1=2, _3=SECOND)) == {}
    torn = replica(_3=SECOND)
    torn.records[3] = torn.records[3]._replace(value=b"other")
    assert findings(COMPACT, told((SECOND, 3)), torn) == {"misplaced": 1}


def test_replicas_that_differ_below_their_high_watermarks_have_diverged() -> None:
    history = told((FIRST, 0), (SECOND, 3))
    one, other = replica(_0=FIRST, _3=SECOND), replica(1, _0=FIRST, _3=SECOND)
    other.batches[1] = other.batches[1]._replace(crc=7)
    assert findings(PLAIN, history, one, other) == {"diverged": 1}
    other.high_watermark = 3
    assert findings(PLAIN, history, one, other) == {}, "above it they may"
    other.high_watermark = 10
    assert findings(COMPACT, history, one, other) == {}, "each cleans by itself"
    other.records[3] = other.records[3]._replace(value=b"other")
    assert findings(COMPACT, history, one, other)["diverged"] == 2, "as a table, and at one offset"


def test_replicas_on_which_an_epoch_begins_at_different_offsets_have_diverged() -> None:
    history, first = told((SECOND, 3)), replica(_3=SECOND, epochs=[(0, 0), (1, 2)])
    assert findings(COMPACT, history, first, replica(1, _3=SECOND, epochs=[(0, 0), (1, 2)])) == {}
    assert findings(COMPACT, history, first, replica(1, _3=SECOND, epochs=[(0, 0), (1, 3)])) == {"diverged": 1}


def test_a_batch_that_holds_the_log_start_is_of_the_first_epoch() -> None:
    begun_within = replica(_3=SECOND, epochs=[(1, 4)])
    begun_within.batches = [StoredBatch(3, 6, 1, SECOND, 100)]
    begun_within.start_offset = 4
    assert findings(PLAIN, told(), begun_within).get("diverged", 0) == 0


def test_epochs_that_are_not_those_of_the_batches_have_diverged() -> None:
    history = told((SECOND, 3))
    assert findings(COMPACT, history, replica(_3=SECOND, epochs=[(0, 0), (1, 2)])) == {}
    assert findings(COMPACT, history, replica(_3=SECOND, epochs=[(0, 0)])) == {"diverged": 1}
    assert findings(COMPACT, history, replica(_3=SECOND, epochs=[(0, 0), (1, 4)])) == {"diverged": 1}
    assert findings(COMPACT, history, replica(_3=SECOND, epochs=[(1, 3), (0, 3)]))["diverged"] >= 1


def test_what_grows_what_can_not_be_sent_and_what_is_damaged_are_told() -> None:
    history = told((SECOND, 3))
    grown = replica(_3=SECOND)
    grown.ended = MOST_ENDED + 1
    assert findings(COMPACT, history, grown) == {"grown": 1}
    large = replica(_3=SECOND)
    large.batches[0] = large.batches[0]._replace(size_bytes=MOST_BATCH_BYTES + 1)
    assert findings(COMPACT, history, large) == {"unsendable": 1}
    damaged = replica(_3=SECOND)
    damaged.wrong.append("torn")
    assert findings(COMPACT, history, damaged) == {"damaged": 1}


def test_a_reader_that_was_not_given_the_newest_has_lost_it() -> None:
    checker = SeamsChecker()
    checker.check_read("r", {(0, 3): b""}, HISTORY, {0: 0})
    assert checker.findings.clean
    checker.check_read("r", {}, HISTORY, {0: 4})
    assert checker.findings.clean, "it lies before the log's start"
    checker.check_read("r", {(0, 0): b""}, HISTORY, {0: 0})
    assert checker.findings.counts["lost"] == 1


@pytest.mark.parametrize(("kills", "cuts", "words"), [(0, LEAST_CUTS, "kills: 0"), (LEAST_HITS, 0, "power cuts: 0")])
def test_a_run_that_did_too_little_says_so(kills: int, cuts: int, words: str) -> None:
    result = PowerResult(ROW, kills=kills, power_cuts=cuts)
    assert any(each.startswith(words) for each in missed(result, 1.0))
    assert not missed(result, 0.0)
