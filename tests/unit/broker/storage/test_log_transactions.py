"""The index of aborted transactions through crashes: no hint, so a start trusts it only where it was synced."""

from __future__ import annotations

from pathlib import Path

import pytest
from batches import NOON
from logs import fill, open_log
from produced import produced
from transactional_logs import end_of, end_transaction, transactions_told_by

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
