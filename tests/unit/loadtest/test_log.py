"""`make bench-log`: a log that is written offline is one that the broker's own code cleans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from loadtest.log import __main__ as bench
from loadtest.log.cleaning import KEYS, clean, make_log

from ottla_broker.compaction.offset_map import SLOT_BYTES
from ottla_core.records.compression import Codec


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_clean_keeps_the_newest_of_each_key_and_its_map_its_budget(tmp_path: Path, codec: Codec) -> None:
    job = make_log(tmp_path, 70 << 20, codec)
    found = clean(job)
    assert found["end_offset"] == job.end_offset
    assert found["kept"] < KEYS
    assert found["core_s"] > 0
    few = clean(replace(job, map_bytes=100 * SLOT_BYTES))
    assert few["end_offset"] < job.end_offset
    assert few["map_bytes"] <= 100 * SLOT_BYTES
    assert not list(Path(job.directory).glob("*.cleaned"))


def test_a_row_that_is_left_out_is_named_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "ROWS", {"table": lambda folder, pairs: {"table_load_s": [5.0, 3.0, 9.0]}})
    monkeypatch.setattr("sys.argv", ["bench-log", "--rows", "table"])
    assert bench.main() == 1
    line = capsys.readouterr().out.splitlines()[-1]
    assert '"table_load_s": [5.0, 3.0, 9.0]' in line
    assert '"missed": ["table_load_s"]' in line
    assert "clean_vs_kafka" in line
