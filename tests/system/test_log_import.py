"""`ottla log import`: a log of another cluster, served by every replica as it was there, or not taken at all."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batches import NOON, sealed
from log_tools import ottla_log, segments, table_in, write_compacted
from waiting import wait_until

import ottla
from ottla.errors import ErrorCode
from ottla_core.records.batch import TRANSACTIONAL, framed, iter_headers
from ottla_core.records.reader import read_records
from ottla_stack.cluster import Cluster
from ottla_stack.log_tools import import_log

Row = tuple[int, int | None, bytes | None, bytes | None]


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(three: Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(three.bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(admin: ottla.Admin, request: pytest.FixtureRequest) -> str:
    name = f"t-{abs(hash(request.node.name))}"
    admin.topics.create(name, partitions=2, replicas=3, config={"retention.ms": "-1"})
    return name


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Compacted, of several epochs and codecs, beginning at an offset of its own, its last batches a producer's."""
    directory = write_compacted(tmp_path / "data")
    first, *_, last = segments(directory)
    data = last.read_bytes()
    batches = [
        framed(
            header._replace(producer_id=7, producer_epoch=0, base_sequence=3 * n),
            data[at + 61 : at + header.size_bytes],
        )
        for n, (at, header) in enumerate(iter_headers(data))
    ]
    last.write_bytes(b"".join(batches))
    first.unlink()
    assert ottla_log(monkeypatch, "index", directory) == 0
    assert ottla_log(monkeypatch, "compact", directory, "--yes") == 0
    return directory


def rows_in(directory: Path) -> list[Row]:
    data = b"".join(path.read_bytes() for path in segments(directory))
    return [row[:4] for at, h in iter_headers(data) for row in read_records(data[at : at + h.size_bytes])]


def at_offset(offset: int, batch: bytes) -> bytes:
    return struct.pack(">q", offset) + batch[8:]


def rows_of(cluster: Cluster, topic: str, partition: int = 0) -> list[Row]:
    found = cluster.read(topic, key="bytes", value="bytes")
    return [(r.offset, r.timestamp, r.key, r.value) for r in found if r.partition == partition]


def imported(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, topic: str, *arguments: str | Path) -> int:
    return ottla_log(monkeypatch, "import", "-b", cluster.bootstrap, "-t", topic, "-o", "json", *arguments)


def test_every_replica_serves_it_as_it_was(
    three: Cluster,
    admin: ottla.Admin,
    topic: str,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows, start = rows_in(source), int(segments(source)[0].stem)
    monkeypatch.setattr(import_log, "_CHUNK_BYTES", 1000)
    capsys.readouterr()
    assert imported(monkeypatch, three, topic, "-p", "1", source) == 0
    (done,) = json.loads(capsys.readouterr().out)["items"]
    assert (done["start_offset"], done["next_offset"], done["records"]) == (start, 1200, len(rows))
    assert rows[0][0] > start > 0
    assert rows_of(three, topic, 1) == rows
    assert (admin.topics.offsets(topic, "earliest")[1], admin.topics.offsets(topic)[1]) == (start, 1200)
    (info,) = admin.topics.describe(topic)
    name = f"{info.id.replace('-', '')}-1"
    logs = [broker.data_dir / name for broker in three.brokers]
    headers = [h for path in segments(logs[0]) for _, h in iter_headers(path.read_bytes())]
    assert {h.producer_id for h in headers} == {-1}, "a producer of this cluster may have the same id"
    assert {h.leader_epoch for h in headers} == {0}, "that of the leader"
    for broker in three.brokers:
        broker.kill()
    for broker in three.brokers:
        broker.restart()
    wait_until(lambda: len(admin.topics.describe(topic)[0].partitions[1].isr) == 3)
    assert {table_in(path) == table_in(source) for path in logs} == {True}
    check = admin.partitions.verify_replicas(topic, 1)
    assert check.equal
    assert rows_of(three, topic, 1) == rows
    with ottla.Producer(three.bootstrap, topic=topic) as producer:
        assert producer.send(b"v", key=b"k0", partition=1).result().offset == 1200


def test_what_is_not_empty_is_left_as_it_is(
    three: Cluster,
    admin: ottla.Admin,
    topic: str,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    admin.partitions.import_records(topic, 0, sealed([(0, NOON, b"k", b"v", [])]), expected_offset=0)
    assert imported(monkeypatch, three, topic, source) == 2
    assert f"{topic}-0 is not empty: it ends at offset 1; nothing was imported" in capsys.readouterr().err
    assert imported(monkeypatch, three, topic, source, "--resume") == 1
    assert "ends at offset 1, but the import continues from 0" in capsys.readouterr().err
    assert len(rows_of(three, topic)) == 1
    assert imported(monkeypatch, three, topic, source, "-p", "9") == 2
    assert f"{topic} has no partition 9" in capsys.readouterr().err
    assert imported(monkeypatch, three, "no-such", source) == 4


def test_an_import_that_was_interrupted_is_resumed(
    three: Cluster, topic: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_log, "_CHUNK_BYTES", 200)
    chunks = import_log._chunks

    def some(*of: Any) -> Iterator[import_log.Chunk]:
        for n, chunk in enumerate(chunks(*of)):
            if n == 2:
                raise KeyboardInterrupt
            yield chunk

    monkeypatch.setattr(import_log, "_chunks", some)
    assert imported(monkeypatch, three, topic, source) == 130
    monkeypatch.setattr(import_log, "_chunks", chunks)
    assert 0 < len(rows_of(three, topic)) < len(rows_in(source))
    assert imported(monkeypatch, three, topic, source) == 2
    assert imported(monkeypatch, three, topic, source, "--resume") == 0
    assert rows_of(three, topic) == rows_in(source)
    assert imported(monkeypatch, three, topic, source, "--resume") == 0
    assert rows_of(three, topic) == rows_in(source)


def test_it_goes_on_where_the_leader_changes(
    three: Cluster, admin: ottla.Admin, topic: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks, leader = import_log._chunks, admin.topics.describe(topic)[0].partitions[0].leader

    def stopping(*of: Any) -> Iterator[import_log.Chunk]:
        for n, chunk in enumerate(chunks(*of)):
            if n == 2:
                three.brokers[leader].stop()
            yield chunk

    monkeypatch.setattr(import_log, "_CHUNK_BYTES", 200)
    monkeypatch.setattr(import_log, "_chunks", stopping)
    assert imported(monkeypatch, three, topic, source, "--timeout", "30s") == 0
    three.brokers[leader].restart()
    wait_until(lambda: len(admin.topics.describe(topic)[0].partitions[0].isr) == 3)
    assert rows_of(three, topic) == rows_in(source)
    assert admin.partitions.verify_replicas(topic, 0).equal


def test_the_same_batches_again_are_the_same_append(admin: ottla.Admin, topic: str) -> None:
    batch = sealed([(0, NOON, b"k", b"v", [])])
    for _ in range(2):
        assert admin.partitions.import_records(topic, 0, batch, expected_offset=0) == 1
    both = batch + at_offset(1, batch)
    for _ in range(2):
        assert admin.partitions.import_records(topic, 0, both, expected_offset=0) == 2, "what is not there yet"
    other = sealed([(0, NOON, b"k", b"other", [])])
    for records in (other, batch + at_offset(1, other), batch + at_offset(3, other)):
        with pytest.raises(ottla.OttlaError) as caught:
            admin.partitions.import_records(topic, 0, records, expected_offset=0)
        assert caught.value.code == ErrorCode.OFFSET_MISMATCH
    assert admin.topics.offsets(topic)[0] == 2


def test_a_log_that_lost_its_first_records_or_has_grown_meanwhile_is_resumed(
    three: Cluster,
    admin: ottla.Admin,
    topic: str,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = segments(source)[-1]
    data, rows = path.read_bytes(), rows_in(source)
    *_, (at, _) = iter_headers(data)
    path.write_bytes(data[:at])
    assert imported(monkeypatch, three, topic, source) == 0
    middle = rows[len(rows) // 2][0]
    admin.topics.delete_records(topic, {0: middle})
    path.write_bytes(data)
    assert imported(monkeypatch, three, topic, source, "--resume") == 0
    assert rows_of(three, topic) == [row for row in rows if row[0] >= middle]
    path.write_bytes(data[:at])
    assert imported(monkeypatch, three, topic, source, "--resume") == 2
    assert f"{topic}-0 has more records than {source}: it ends at offset 1200" in capsys.readouterr().err


def test_offsets_too_far_apart_for_one_segment_are_no_loss(three: Cluster, admin: ottla.Admin, topic: str) -> None:
    batch = sealed([(0, NOON, b"k", b"v", [])])
    first, second = 3 * 10**9, 7 * 10**9
    info = admin.topics.describe(topic)[0].partitions[0]
    behind = three.brokers[next(replica for replica in info.replicas if replica != info.leader)]
    behind.stop()
    for expected, offset in ((0, first), (first + 1, second)):
        records = at_offset(offset, batch)
        end = admin.partitions.import_records(topic, 0, records, expected_offset=expected, log_start_offset=first)
        assert end == offset + 1
    behind.restart()
    wait_until(lambda: len(admin.topics.describe(topic)[0].partitions[0].isr) == 3)
    assert [row[0] for row in rows_of(three, topic)] == [first, second]
    assert admin.topics.offsets(topic, "earliest")[0] == first
    assert admin.partitions.verify_replicas(topic, 0).equal


def test_many_small_batches_go_in_several_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = import_log.sources_of([write_compacted(tmp_path / "data")], None, compacted=False)
    monkeypatch.setattr(import_log, "MOST_IMPORTED_BATCHES", 7)
    found = [[h.base_offset for _, h in iter_headers(chunk.records)] for chunk in import_log._chunks(source, 0)]
    assert [offset for chunk in found for offset in chunk] == list(range(0, 1200, 3))
    assert max(map(len, found)) == 7


@pytest.mark.parametrize("damage", ["flipped", "hole", "transaction", "moved"])
def test_what_can_not_be_imported_is_named_before_anything_is_sent(
    three: Cluster,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    damage: str,
) -> None:
    source = write_compacted(tmp_path / "data")
    path = segments(source)[-1]
    data = path.read_bytes()
    if damage == "flipped":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "hole":
        segments(source)[2].unlink()
        path = segments(source)[2]
    elif damage == "transaction":
        *_, (at, header) = iter_headers(data)
        batch = framed(header._replace(attributes=header.attributes | TRANSACTIONAL, producer_id=1), data[at + 61 :])
        path.write_bytes(data[:at] + batch)
    else:
        path = source / "partition.metadata"
        path.write_text(path.read_text().replace("partition: 0", "partition: 5"))
    assert imported(monkeypatch, three, topic, source) == 1
    error = capsys.readouterr().err
    assert str(path) in error
    assert error.count("\n") == 1
    assert rows_of(three, topic) == []
    if damage == "hole":
        assert imported(monkeypatch, three, topic, source, "--compacted") == 0


def test_what_would_do_harm_is_refused(admin: ottla.Admin, topic: str) -> None:
    admin.configs.set({"cleanup.policy": "compact"}, topic=topic)
    batch = sealed([(0, NOON, None, b"v", [])])

    def refused() -> bool:
        with pytest.raises(ottla.OttlaError) as caught:
            admin.partitions.import_records(topic, 1, batch, expected_offset=0)
        return caught.value.code == ErrorCode.INVALID_RECORD

    wait_until(refused)
    keyed = sealed([(0, NOON, b"k", b"v", [])])
    for records, start, problem in (
        (at_offset(2**63 - 1, keyed), 0, "too close to the largest possible offset"),
        (keyed, 1, "can't begin at 1"),
        (b"".join(at_offset(n, keyed) for n in range(1001)), 0, "more than 1000 batches"),
    ):
        with pytest.raises(ottla.OttlaError, match=problem):
            admin.partitions.import_records(topic, 0, records, expected_offset=0, log_start_offset=start)
    named = framed(next(iter_headers(batch))[1]._replace(producer_id=1), batch[61:])
    with pytest.raises(ottla.OttlaError, match="producer 1"):
        admin.partitions.import_records(topic, 0, named, expected_offset=0)
    with pytest.raises(ottla.OttlaError, match="internal"):
        admin.partitions.import_records("__consumer_offsets", 0, batch, expected_offset=0)
