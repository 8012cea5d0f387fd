"""`ottla log export`: a partition as Kafka's brokers keep it, whole or not at all."""

from __future__ import annotations

import shutil
from errno import ENOSPC
from pathlib import Path

import pytest
from log_tools import TOPIC_ID, ottla_log, segments, write_data, write_transactions

from ottla_broker.storage.identity import META
from ottla_broker.storage.transactions.aborted_index import AbortedIndex
from ottla_core.kafka_formats import kafka_uuid
from ottla_core.records.batch import iter_headers
from ottla_stack.log_tools.log_files import find_logs
from ottla_stack.log_tools.verify import LogVerifier

UUID = "abcdefghijklmnopqrstu-"


def exported(monkeypatch: pytest.MonkeyPatch, data: Path, out: Path, *arguments: str) -> int:
    return ottla_log(monkeypatch, "export", "--topic", "orders", "--partition", "0", "--dir", data, out, *arguments)


def test_an_export_is_what_kafka_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_data(tmp_path / "data", partitions=2)
    out = tmp_path / "out"
    assert exported(monkeypatch, tmp_path / "data", out, "--topic-id", UUID) == 0
    assert [path.name for path in out.iterdir()] == ["orders-0"]
    kafkas = out / "orders-0"
    assert [path.read_bytes() for path in segments(kafkas)] == [path.read_bytes() for path in segments(directory)]
    assert (kafkas / "partition.metadata").read_text() == f"version: 0\ntopic_id: {UUID}\n"
    assert (kafkas / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 90\n"
    assert {path.suffix for path in kafkas.iterdir()} <= {".log", ".index", ".timeindex", ".metadata", ""}
    (log,) = find_logs(kafkas)
    verifier = LogVerifier(log, deep=True)
    assert sum(report.records for report in verifier.segments()) == 107
    assert list(verifier.other_files()) == []


@pytest.mark.rule(38)
def test_an_export_has_what_was_aborted_or_kafka_would_show_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, aborted = write_transactions(tmp_path / "data")
    for path in directory.glob("*.txnindex"):
        path.unlink()  # beside a broker that runs they may not be written yet
    assert exported(monkeypatch, tmp_path / "data", tmp_path / "out") == 0
    kafkas = segments(tmp_path / "out" / "orders-0")
    assert [entry for path in kafkas for entry in AbortedIndex(path).entries()] == aborted


def test_without_another_id_the_topic_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_data(tmp_path / "data")
    assert exported(monkeypatch, tmp_path / "data", tmp_path / "out") == 0
    text = (tmp_path / "out" / "orders-0" / "partition.metadata").read_text()
    assert f"topic_id: {kafka_uuid.spelled(TOPIC_ID)}\n" in text


def test_beside_a_broker_that_appends_only_whole_batches_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = segments(write_data(tmp_path / "data"))[-1]
    position, header = list(iter_headers(last.read_bytes()))[-1]
    whole = last.read_bytes()
    last.write_bytes(whole[:-5])
    monkeypatch.setattr("time.sleep", lambda _: last.write_bytes(whole))
    assert exported(monkeypatch, tmp_path / "data", tmp_path / "out") == 0
    assert header.size_bytes > 5
    assert segments(tmp_path / "out" / "orders-0")[-1].read_bytes() == whole[:position]


def test_a_damaged_log_is_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    second = segments(write_data(tmp_path / "data"))[1]
    second.write_bytes(second.read_bytes()[:-1] + b"\1")
    position = list(iter_headers(second.read_bytes()))[-1][0]
    assert exported(monkeypatch, tmp_path / "data", tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert error.startswith(f"ottla: {second} is damaged at position {position}: the CRC of a batch is")
    assert "nothing was exported" in error
    assert list((tmp_path / "out").iterdir()) == []


def test_where_an_export_may_not_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = write_data(tmp_path / "data").parent, tmp_path / "out"
    assert exported(monkeypatch, data, out, "--topic-id", "short") == 2
    assert "'short' is not a topic id; pass the TopicId that kafka-topics --describe" in capsys.readouterr().err
    assert exported(monkeypatch, data, data) == 2
    assert f"{data} is a broker's data directory; export into another directory" in capsys.readouterr().err
    (out / "orders-0").mkdir(parents=True)
    assert exported(monkeypatch, data, out) == 2
    assert f"{out / 'orders-0'} exists; remove it" in capsys.readouterr().err
    assert list((out / "orders-0").iterdir()) == []
    assert META in {path.name for path in data.iterdir()}
    stray = data / f"{TOPIC_ID.hex()}-0.20261122T000000Z-0123abcd-stray"
    shutil.copytree(data / f"{TOPIC_ID.hex()}-0", stray)
    assert exported(monkeypatch, data, tmp_path / "new") == 2
    assert capsys.readouterr().err.endswith(f", {stray}; pass one of them as --dir\n")
    arguments = ("export", "--topic", "orders", "--partition", "7", "--dir", data, tmp_path / "new")
    assert ottla_log(monkeypatch, *arguments) == 4
    assert not (tmp_path / "new").exists()
    (out / "orders-0").rmdir()
    left_over = out / "orders-0.unfinished"  # of an export that was killed
    left_over.mkdir()
    assert exported(monkeypatch, data / f"{TOPIC_ID.hex()}-0", out) == 2
    assert f"{left_over} exists; remove it" in capsys.readouterr().err


def test_a_topics_name_in_a_file_is_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, out = write_data(tmp_path / "data"), tmp_path / "in" / "out"
    metadata = directory / "partition.metadata"
    metadata.write_text(metadata.read_text().replace("orders", "../../elsewhere"))
    assert ottla_log(monkeypatch, "export", "-t", TOPIC_ID.hex(), "-p", "0", "--dir", directory, out) == 2
    assert "'../../elsewhere'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_log_without_segments_is_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_data(tmp_path / "data")
    for path in segments(directory):
        path.unlink()
    assert exported(monkeypatch, tmp_path / "data", tmp_path / "out") == 2
    assert f"{directory} has no segments" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []
    assert ottla_log(monkeypatch, "verify", directory) == 1
    assert f"{directory}: at position 0: it has no segments" in capsys.readouterr().err


def test_a_full_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = segments(write_data(tmp_path / "data"))[0]

    def full(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    assert exported(monkeypatch, tmp_path / "data", tmp_path / "out") == 1
    assert f"{first.name}: No space left on device" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []
