"""`ottla log dump`: what lies in each kind of file; and what a PATH may be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from log_tools import TOPIC_ID, ottla_log, segments, write_data, write_transactions

from ottla_core.records.batch import iter_headers


def dumped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0
) -> list[dict[str, Any]]:
    assert ottla_log(monkeypatch, "dump", *arguments) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_batch_and_every_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_data(tmp_path / "data")
    items = dumped(monkeypatch, capsys, directory, "--records")
    batches = [item for item in items if item["type"] == "batch"]
    records = [item for item in items if item["type"] == "record"]
    headers = [(at, header) for path in segments(directory) for at, header in iter_headers(path.read_bytes())]
    assert [(b["position"], b["base_offset"], b["crc"], b["size"]) for b in batches] == [
        (at, header.base_offset, header.crc, header.size_bytes) for at, header in headers
    ]
    assert all(batch["is_valid"] for batch in batches)
    assert [record["offset"] for record in records] == list(range(107))
    assert (records[41]["key"], records[41]["value"], records[41]["key_size"]) == (None, "41", -1)
    assert [batch["codec"] for batch in batches[-5:]] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert records[-1]["headers"] == [{"key": "a", "value": "b"}]
    assert (records[91]["sequence"], batches[31]["producer_id"], batches[31]["last_sequence"]) == (0, 5, 0)


def test_a_line_has_kafkas_names_and_a_fence_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_data(tmp_path / "data")
    assert ottla_log(monkeypatch, "dump", directory, "-o", "table") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Dumping {segments(directory)[0]}"
    assert lines[1] == (
        "baseOffset: 0 lastOffset: 2 count: 3 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
        "partitionLeaderEpoch: 1 isTransactional: false isControl: false deleteHorizonMs: null position: 0 "
        "baseTimestamp: 1700000000000 CreateTime: 1700000000000 size: 85 magic: 2 compresscodec: none crc: 994805077 "
        "isvalid: true"
    )
    (fence,) = (line for line in lines if line.startswith("|"))
    assert fence == (
        "| offset: 90 CreateTime: 1700000000000 keySize: 4 valueSize: 14 sequence: -1 control: SHARD_FENCE "
        "shardEpoch: 3 incarnation: 77"
    )


def test_the_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_data(tmp_path / "data")
    first = segments(directory)[1]
    headers = dict(iter_headers(first.read_bytes()))
    entries = dumped(monkeypatch, capsys, first.with_suffix(".index"))
    assert entries
    assert all(headers[entry["position"]].last_offset == entry["offset"] for entry in entries)
    times = dumped(monkeypatch, capsys, first.with_suffix(".timeindex"))
    by_offset = {header.last_offset: header.max_timestamp for header in headers.values()}
    assert all(by_offset[entry["offset"]] == entry["timestamp"] for entry in times)
    epochs = dumped(monkeypatch, capsys, directory / "leader-epoch-checkpoint")
    assert [(entry["epoch"], entry["start_offset"]) for entry in epochs] == [(1, 0), (2, 90)]
    producer, fence = dumped(monkeypatch, capsys, max(directory.glob("*.snapshot")))
    assert (producer["producer_id"], producer["last_offset"], producer["last_sequence"]) == (5, 91, 0)
    assert (fence["shard_epoch"], fence["incarnation"], fence["offset"]) == (3, 77, 90)
    fields = dumped(monkeypatch, capsys, directory / "partition.metadata")
    assert {"file": str(directory / "partition.metadata"), "type": "field", "topic": "orders"} in fields
    (point,) = dumped(monkeypatch, capsys, tmp_path / "data" / "recovery-point-offset-checkpoint")
    assert (point["topic"], point["partition"], point["offset"]) == (TOPIC_ID.hex(), 0, 107)


@pytest.mark.rule(38)
def test_transactions_show_in_their_markers_and_in_the_index_of_those_that_were_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, aborted = write_transactions(tmp_path / "data")
    ends = [item["control"] for item in dumped(monkeypatch, capsys, directory) if "control" in item]
    assert ends == ["ABORT", "ABORT", "COMMIT", "COMMIT"] * 5
    indexes = sorted(directory.glob("*.txnindex"))
    assert len(indexes) > 1
    items = dumped(monkeypatch, capsys, *indexes)
    assert [tuple(item.values())[3:] for item in items] == aborted
    assert ottla_log(monkeypatch, "dump", indexes[0], "-o", "table") == 0
    line = "version: 0 producerId: 7 firstOffset: 0 lastOffset: 2 lastStableOffset: 1"
    assert capsys.readouterr().out.splitlines()[1] == line, "as kafka-dump-log has it"
    whole = indexes[0].read_bytes()
    indexes[0].write_bytes(whole[:-1])
    assert len(dumped(monkeypatch, capsys, indexes[0], code=1)) == len(whole) // 34


def test_damage_is_shown_and_what_is_behind_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_data(tmp_path / "data")
    first = segments(directory)[0]
    data = bytearray(first.read_bytes())
    positions = [at for at, _ in iter_headers(bytes(data))]
    data[positions[1] + 70] ^= 1
    first.write_bytes(data[:-1])
    items = dumped(monkeypatch, capsys, first, "--records", code=1)
    batches = [item for item in items if item["type"] == "batch"]
    assert [batch["is_valid"] for batch in batches] == [True, False, *[True] * (len(positions) - 3)]
    assert len([item for item in items if item["type"] == "record"]) == 3 * (len(positions) - 2)
    assert [item["position"] for item in items if item["type"] == "damage"] == [positions[-1]]


def test_one_topic_and_partition_of_a_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_data(tmp_path / "data", partitions=3)
    for topic in ("orders", TOPIC_ID.hex()):
        items = dumped(monkeypatch, capsys, tmp_path / "data", "--topic", topic, "-p", "1", "-p", "2")
        assert {Path(item["file"]).parent.name[-2:] for item in items} == {"-1", "-2"}
    kafkas = tmp_path / "kafkas" / "my-topic-0"
    kafkas.mkdir(parents=True)
    (kafkas / f"{0:020d}.log").write_bytes(segments(tmp_path / "data" / f"{TOPIC_ID.hex()}-0")[0].read_bytes())
    assert dumped(monkeypatch, capsys, tmp_path / "kafkas", "--topic", "my-topic")
    assert dumped(monkeypatch, capsys, tmp_path / "kafkas", "--topic", "my", code=4) == []


@pytest.mark.parametrize("command", ["dump", "verify", "index"])
def test_what_is_no_log_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "others").mkdir()
    alien = tmp_path / "others" / "notes.txt"
    alien.write_text("x")
    data = write_data(tmp_path / "data").parent
    for arguments, code, message in (
        ([tmp_path / "none"], 4, f"{tmp_path / 'none'} does not exist; pass a segment"),
        ([tmp_path / "empty"], 2, f"{tmp_path / 'empty'} is empty; pass a segment"),
        ([tmp_path / "others"], 2, f"{tmp_path / 'others'} contains no logs; pass a segment"),
        ([alien], 2, f"{alien} is not part of a log; segments have names such as"),
        ([data, "--topic", "nope"], 4, f"{data} has no log of nope; it has orders-0"),
        ([data, "-p", "9"], 4, f"{data} has no log of partition 9; it has orders-0"),
    ):
        assert ottla_log(monkeypatch, command, *arguments) == code
        error = capsys.readouterr().err
        assert error.startswith(f"ottla: {message}")
        assert error.count("\n") == 1


def test_a_file_that_may_not_be_read_and_one_that_is_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_data(tmp_path / "data")
    torn = max(directory.glob("*.snapshot"))
    torn.write_bytes(b"\0\1\2")
    assert ottla_log(monkeypatch, "dump", torn) == 1
    assert (
        capsys.readouterr().err
        == f"ottla: {torn}: at position 0: it is torn (it has only 3 bytes); see ottla log verify\n"
    )
    first = segments(directory)[0]

    real = os.open

    def refuse(path: Path, *flags: int) -> int:
        if Path(path).suffix == ".log":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *flags)

    monkeypatch.setattr(os, "open", refuse)  # a test may run as root
    for command in ("dump", "verify"):
        assert ottla_log(monkeypatch, command, first) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"ottla: {first}: Permission denied (KAFKA_STORAGE_ERROR); run it as the user")
