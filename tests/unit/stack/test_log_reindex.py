"""`ottla log index`: both indexes as the broker has written them, and never beside a broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from log_tools import ottla_log, segments, write_data, write_transactions

from ottla_broker.storage.identity import DirectoryLock
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.transactions.aborted_index import AbortedIndex
from ottla_stack.log_tools.log_files import find_logs
from ottla_stack.log_tools.verify import LogVerifier

CONFIG = LogConfig(segment_bytes=60_000)


def indexes(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in (".index", ".timeindex")}


@pytest.mark.rule(59)
def test_indexes_are_those_that_the_broker_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_data(tmp_path / "data", batches=2000, config=CONFIG)
    sound, logs = indexes(directory), {path: path.read_bytes() for path in segments(directory)}
    assert len(sound) > 4
    for number, name in enumerate(sound):
        path = directory / name
        path.unlink() if number % 2 else path.write_bytes(b"\1" * (12345 if number % 4 else 3))
    assert ottla_log(monkeypatch, "index", tmp_path / "data", "--topic", "orders", "-o", "table") == 0
    assert indexes(directory) == sound
    assert {path: path.read_bytes() for path in segments(directory)} == logs
    assert not any(report.damages for report in LogVerifier(find_logs(directory)[0]).segments())
    assert f"{segments(directory)[0]}" in capsys.readouterr().out
    DirectoryLock(tmp_path / "data").release()


def test_a_segment_of_a_few_kilobytes_keeps_no_wrong_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_data(tmp_path / "data")
    first = segments(directory)[0]
    first.with_suffix(".index").write_bytes(b"\1" * 80)
    assert ottla_log(monkeypatch, "index", first) == 0
    assert not first.with_suffix(".index").exists()
    assert not first.with_suffix(".timeindex").exists()
    assert segments(directory)[1].with_suffix(".index").exists(), "the others are not touched"


def test_a_brokers_directory_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_data(tmp_path / "data", batches=2000, config=CONFIG)
    first = segments(directory)[0].with_suffix(".index")
    first.write_bytes(b"wrong")
    lock = DirectoryLock(tmp_path / "data")
    for path in (tmp_path / "data", directory, segments(directory)[0]):
        assert ottla_log(monkeypatch, "index", path) == 1
        error = capsys.readouterr().err
        assert f"the data directory {tmp_path / 'data'} is in use by another broker, process " in error
        assert "stop that broker first" in error
        assert error.count("\n") == 1
    assert first.read_bytes() == b"wrong"
    copied = shutil.copytree(directory, tmp_path / directory.name)
    assert ottla_log(monkeypatch, "index", copied) == 0
    assert len((copied / first.name).read_bytes()) > 8
    lock.release()


def test_a_torn_segment_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_data(tmp_path / "data", batches=2000, config=CONFIG)
    first = segments(directory)[0]
    first.write_bytes(first.read_bytes()[:-3])
    assert ottla_log(monkeypatch, "index", directory) == 1
    error = capsys.readouterr().err
    assert error == (
        f"ottla: {first} does not end with a whole batch, so its indexes cover what is before; see ottla log verify\n"
    )


@pytest.mark.rule(38)
def test_a_whole_log_learns_what_was_aborted_and_a_segment_alone_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment does not say what was open before it."""
    directory, aborted = write_transactions(tmp_path / "data")
    written = {path: path.read_bytes() for path in directory.glob("*.txnindex")}
    snapshots = sorted(directory.glob("*.snapshot"))
    for path in written:
        path.write_bytes(b"wrong")
    for path in segments(directory):
        assert ottla_log(monkeypatch, "index", path) == 0
    assert {path.read_bytes() for path in written} == {b"wrong"}
    assert ottla_log(monkeypatch, "index", directory) == 0
    assert {path: path.read_bytes() for path in directory.glob("*.txnindex")} == written
    assert [entry for path in segments(directory) for entry in AbortedIndex(path).entries()] == aborted
    assert sorted(directory.glob("*.snapshot")) == snapshots
