"""A leader epoch is known once it is written, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest
from logs import fill, open_log

from ottla_broker.storage import checkpoint
from ottla_core.errors import ErrorCode, OttlaError


@pytest.mark.rule(4, 60)
def test_an_epoch_that_could_not_be_written_down_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    log = open_log(tmp_path / "log")
    fill(log, 3, leader_epoch=1)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_epochs", full)
        with pytest.raises(OttlaError, match="no space left"):
            fill(log, 1, leader_epoch=2)
    assert (log.epochs.latest, log.log_end_offset) == (1, 9)
    fill(log, 1, leader_epoch=2)
    assert open_log(tmp_path / "log").epochs.entries == log.epochs.entries
