"""The verdict on compacted topics: what may be gone is, what may not is found, and each finding has its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from batches import NOON, sealed
from cleanings import placed, write_segments
from tests.faults.compacted.checker import Horizons, TableChecker, Told
from tests.faults.compacted.records import NAME, is_tombstone, key_of, text_of, value_of
from tests.faults.compacted.replicas import Replica, Span, read_replica
from tests.faults.history import FINAL, Name, Operation

from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.storage.transactions.aborted_index import packed
from ottla_core.records.batch import TRANSACTIONAL
from ottla_core.records.control import EndTransactionMarker, seal_marker

RETENTION_MS = 10
MS = 1_000_000
FIRST, SECOND = 1, 21
"""Numbers of one key, of two values; the tombstone's is of another."""
TOMBSTONE = 5


def sent(number: int, offset: int, at_ms: int, writer: str = "w0") -> list[Operation]:
    fields: dict[str, Any] = {"process": writer, "f": "send", "partition": 0, "first": number, "count": 1}
    told = {"type": "ok", "mono_ns": at_ms * MS, "offset": offset}
    return [fields | {"type": "invoke", "mono_ns": at_ms * MS}, fields | told]


HISTORY = [*sent(FIRST, 0, 1), *sent(SECOND, 1, 2), *sent(TOMBSTONE, 2, 3), *sent(2, 3, 4, "once-1"), *sent(3, 4, 5)]
CLEANING = {"partition": "p", "now_ns": 100 * MS, "end_offset": 5}
ALL = {0: Name("w0", 0, FIRST), 1: Name("w0", 0, SECOND), 2: Name("w0", 0, TOMBSTONE), 3: Name("once-1", 0, 2)} | {
    4: Name("w0", 0, 3)
}


def found(*gone: int, at_ms: int = 105, other: dict[int, Name] | None = None, batches: bool = True) -> dict[str, int]:
    """What is found of a replica without these offsets, at that time."""
    records = {offset: name for offset, name in ALL.items() if offset not in gone} | (other or {})
    replica = Replica(records, [Span(0, 4, 7 if batches else -1)])
    checker = TableChecker(Told(HISTORY), Horizons([CLEANING], RETENTION_MS), {0: "p"}, {"broker-0": {0: replica}})
    checker.check_replicas(at_ms * MS)
    return {kind: count for kind, count in checker.findings.counts.items() if count}


def test_two_numbers_are_of_one_key_and_one_is_a_tombstone() -> None:
    assert key_of(ALL[0]) == key_of(ALL[1]) != key_of(ALL[2])
    assert [is_tombstone(ALL[n]) for n in range(3)] == [False, False, True]


def test_what_is_superseded_may_go_and_a_tombstone_when_its_time_is_over() -> None:
    assert found() == {}
    assert found(0) == {}
    assert found(0, 2, at_ms=111) == {}


def test_a_tombstone_that_is_gone_too_early_is_found() -> None:
    assert found(2, at_ms=109) == {"early": 1}


def test_a_key_without_its_newest_record_is_lost() -> None:
    assert found(1) == {"lost": 1}
    assert found(0, 1) == {"lost": 1}
    assert found(2, at_ms=111, other={0: ALL[0]}) == {}


def test_a_record_at_anothers_offset_or_of_nobody_is_misplaced() -> None:
    assert found(other={0: ALL[4]}) == {"misplaced": 1}
    assert found(other={7: Name("w1", 0, 1)}) == {"misplaced": 1}


def test_a_producer_without_its_last_batch_is_forgotten() -> None:
    assert found(batches=False) == {"forgotten": 1}


def test_a_reader_who_passes_what_is_there_has_skipped_it() -> None:
    checker = TableChecker(Told(HISTORY), Horizons([CLEANING], RETENTION_MS), {0: "p"}, {"b": {0: Replica(dict(ALL))}})
    poll = {"process": "r0", "type": "ok", "f": "poll", "pass": 1, "partition": 0}
    checker.on_operation(poll | {"records": [[2, "w0", TOMBSTONE], [4, "w0", 3]]})
    checker.on_operation({"process": "r0", "type": "ok", "f": "pass", "pass": 1, "began_ns": 9 * MS, "mono_ns": 9 * MS})
    assert checker.findings.counts["skipped"] == 3
    checker.on_operation(poll | {"pass": 2, "records": [[4, "w0", 3], [2, "w0", TOMBSTONE]]})
    checker.on_operation(poll | {"pass": 2, "type": "info", "error": "of a reader"})
    counts = checker.findings.counts
    assert (counts["reordered"], counts["unreadable"], counts["misplaced"]) == (1, 1, 0)


def test_a_last_reader_who_reads_nothing_has_lost_it_all() -> None:
    checker = TableChecker(Told(HISTORY), Horizons([], RETENTION_MS), {0: "p"}, {"b": {0: Replica(dict(ALL))}})
    ended = {"type": "ok", "f": "pass", "pass": 1, "began_ns": 9 * MS, "mono_ns": 9 * MS}
    checker.on_operation({"process": "r0", **ended})
    assert checker.findings.clean, "its replica may have had a high watermark of 0"
    checker.on_operation({"process": f"{FINAL}0", **ended})
    assert checker.findings.counts["lost"] == 3


def test_a_log_that_is_damaged_is_a_finding_and_not_the_end_of_the_proof(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(bytes(100))
    replica = read_replica(tmp_path)
    assert (replica.records, len(replica.wrong)) == ({}, 1)
    assert "has no sound batch at byte 0 of 100" in replica.wrong[0]


def test_a_replica_without_the_newest_fence_is_found() -> None:
    checker = TableChecker(Told(HISTORY), Horizons([], RETENTION_MS), {0: "p"}, {"b": {0: Replica(dict(ALL))}})
    checker.check_fences({"shard": 7}, {"broker-0": {"shard": [7, 9]}, "broker-1": {"shard": [3]}})
    assert checker.findings.counts["unfenced"] == 1


# ---- transactions ---------------------------------------------------------------------------------------------------


def test_what_was_aborted_is_in_no_table() -> None:
    name = Name("tx0", 0, FIRST)
    aborted = {"process": "tx0", "f": "send", "partition": 0, "first": FIRST, "count": 1, "mono_ns": 0}
    told = Told([*HISTORY, aborted | {"type": "invoke"}, aborted | {"type": "fail"}])
    assert told.aborted == {name}
    assert not told.uncertain, "its end is known"
    checker = TableChecker(told, Horizons([], RETENTION_MS), {0: "p"}, {"b": {0: Replica(ALL | {9: name})}})
    checker.check_replicas(0)
    assert (checker.findings.counts["aborted"], checker.findings.counts["misplaced"]) == (1, 0)


def written(directory: Path, *, aborted: bool, index: bool, marker: bool = True) -> Replica:
    """What is found of a log with one batch of a transaction, and another one's behind it."""
    marked = seal_marker(7, 1, EndTransactionMarker(not aborted, 1), NOON)
    next_ = seal_marker(7, 2, EndTransactionMarker(committed=True, coordinator_epoch=1), NOON)
    batches = [batch(0, FIRST), *([placed(marked, 1)] if marker else ()), batch(2, SECOND), placed(next_, 3)]
    write_segments(directory, batches)
    entries = [AbortedTransaction(7, 0, 1, 2)] if index else []
    (directory / f"{0:020d}.txnindex").write_bytes(packed(entries))
    return read_replica(directory)


def batch(offset: int, number: int) -> bytes:
    name = Name("tx0", 0, number)
    data = sealed([(0, NOON, key_of(name), value_of(name), [(NAME, text_of(name))])], attributes=TRANSACTIONAL)
    return placed(data, offset, producer_id=7, producer_epoch=1, base_sequence=offset)


@pytest.mark.parametrize("aborted", [False, True])
def test_a_replica_has_the_records_that_its_markers_and_its_index_let_it_have(tmp_path: Path, aborted: bool) -> None:
    replica = written(tmp_path, aborted=aborted, index=aborted)
    assert list(replica.records) == ([2] if aborted else [0, 2])
    assert (replica.wrong, replica.unmarked) == ([], [])


@pytest.mark.parametrize(
    ("aborted", "index", "marker"),
    [
        pytest.param(True, False, True, id="an entry is missing"),
        pytest.param(False, True, True, id="an entry too many"),
        pytest.param(True, True, False, id="the marker went before its records"),
    ],
)
def test_an_index_that_differs_from_the_log_is_found(tmp_path: Path, aborted: bool, index: bool, marker: bool) -> None:
    replica = written(tmp_path, aborted=aborted, index=index, marker=marker)
    assert len(replica.unmarked) == 1
    checker = TableChecker(Told([]), Horizons([], RETENTION_MS), {0: "p"}, {"b": {0: replica}})
    checker.check_replicas(0)
    assert checker.findings.counts["unmarked"] == 1


def test_a_transaction_without_any_marker_and_a_damaged_index_are_found(tmp_path: Path) -> None:
    write_segments(tmp_path, [batch(0, FIRST)])
    assert len(read_replica(tmp_path).unmarked) == 1
    (tmp_path / f"{0:020d}.txnindex").write_bytes(bytes(33))
    assert len(read_replica(tmp_path).wrong) == 1
