"""The index of aborted transactions through crashes: no hint, so a start trusts it only where it was synced."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest
from batches import NOON
from logs import fill, open_log
from produced import produced
from transactional_logs import end_of, end_transaction, transactions_told_by

from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.storage.disk import DataFile
from ottla_broker.storage.transactions.aborted_index import AbortedIndex
from ottla_core.records.batch import TRANSACTIONAL


@pytest.mark.rule(38, 58)
def test_an_index_that_was_not_synced_before_the_power_went_is_rebuilt(tmp_path: Path) -> None:
    """Though a snapshot of the producers behind it is on the disk."""
    log = open_log(tmp_path / "log")
    log.append(produced(0, attributes=TRANSACTIONAL), 1, NOON, transactional=True)
    end_transaction(log, end_of(7, 1, committed=False))
    fill(log, 30)
    log.flush(NOON)
    expected = transactions_told_by(log).aborted
    assert log.aborted.between(0, 9) == expected != []
    (log.directory / f"{0:020d}.txnindex").unlink()
    again = open_log(log.directory, recovery_point=0)
    assert again.aborted.between(0, 9) == expected
    assert (log.directory / f"{0:020d}.txnindex").stat().st_size == 34


@pytest.mark.story("aborted-transaction-lost-to-a-reader")
@pytest.mark.rule(38)
def test_what_is_aborted_while_a_reader_loads_the_index_stays_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = AbortedIndex(tmp_path / f"{0:020d}.log")
    aborted = AbortedTransaction(7, 0, 9, 10)
    writer = Thread(target=index.add, args=(aborted,))
    opened = AbortedIndex._open

    def begin_to_write(self: AbortedIndex) -> DataFile | None:
        file = opened(self)
        if writer.ident is None:
            writer.start()
            writer.join(0.2)  # a writer that does not wait for the reader is done by then
        return file

    monkeypatch.setattr(AbortedIndex, "_open", begin_to_write)
    assert list(index.entries()) == []
    writer.join(10.0)
    assert list(index.entries()) == [aborted]
