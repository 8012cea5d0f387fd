"""A table's snapshot: a start with it ends where one without it would, or it is not used."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_requests import parts
from tables import filled, send
from waiting import wait_until

import ottla
from ottla.errors import ConfigError, ErrorCode, OttlaError
from ottla.fakes.scripted import ScriptedCluster
from ottla.table import snapshot as snapshot_module
from ottla.table.snapshot_file import Head, Stored, open_snapshot, write_snapshot
from ottla_core.kafka.messages import FetchRequest

DAY_MS = 86_400_000
HEAD = Head("00" * 16, True, {0: 0, 1: 0}, {0: (5, 0), 1: (7, -1)}, 1_700_000_000_000)


@pytest.fixture(autouse=True)
def kept_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "deleted_kept_ms", lambda *_: DAY_MS)


def table_of(cluster: ScriptedCluster, directory: Path, **arguments: Any) -> ottla.Table[Any, Any]:
    defaults = {"bootstrap": "b0:1", "config": {"fetch.max.wait.ms": 50}, "_transport": cluster.connect}
    return ottla.Table("t", snapshot=directory, **{**defaults, **arguments})


def loaded(cluster: ScriptedCluster, directory: Path, **arguments: Any) -> tuple[dict[Any, Any], int]:
    """What a table holds that was closed by now, and from where on it has fetched partition 0."""
    with cluster.changed:
        cluster.seen.clear()
    with table_of(cluster, directory, **arguments) as table:
        table.wait_until_caught_up(10)
        contents, position = dict(table), table.position
        wait_until(lambda: table._follower._snapshot._written is not None)  # type: ignore[union-attr]  # it has one
    fetched = [part.fetch_offset for part in parts(cluster, FetchRequest) if part.partition == 0]
    return contents, min(fetched, default=position[0])


def contents_of(path: Path) -> tuple[Head, dict[bytes | None, bytes | None]]:
    with open_snapshot(path) as (head, batches):
        return head, {raw[2]: raw[3] for raws in batches for raw in raws}


def test_a_start_reads_what_came_since_and_ends_where_one_without_would(tmp_path: Path) -> None:
    cluster = filled([("a", 1), ("b", 2), ("gone", 3), ("gone", None), ("text", "x"), (None, 0)], partitions=2)
    assert loaded(cluster, tmp_path / "new")[1] == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["t.snapshot"]
    send(cluster, [("b", None), ("c", {"x": 4})])
    send(cluster, [("d", 5)], partition=1)
    expected = {"a": 1, "text": "x", "c": {"x": 4}, "d": 5}
    assert loaded(cluster, tmp_path / "new") == (expected, 6)
    assert loaded(cluster, tmp_path / "new") == (expected, 8)


def test_raw_bytes_are_kept_whatever_the_deserializers_make_of_them(tmp_path: Path) -> None:
    cluster = filled([(b"1", b"one"), (b"01", b"two"), (b"1", b"three"), (b"x", b"bad")])
    text = {"key": lambda data: int(data), "value": str, "on_bad_record": "skip"}
    assert loaded(cluster, tmp_path, **text)[0] == {1: "three"}
    assert loaded(cluster, tmp_path, **text) == ({1: "three"}, 4)
    assert loaded(cluster, tmp_path, key=str, value=str) == ({"1": "three", "01": "two", "x": "bad"}, 4)


@pytest.mark.parametrize("age_ms", [-60_000, DAY_MS])
def test_it_is_not_used_where_a_removal_may_be_forgotten_or_the_clock_is_wrong(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, age_ms: int
) -> None:
    cluster = filled([("a", 1), ("b", 2)])
    loaded(cluster, tmp_path)
    path = tmp_path / "t.snapshot"
    head, _ = contents_of(path)
    write_snapshot(path, head._replace(as_of_ms=head.as_of_ms - age_ms), {b"removed": b"1"})
    with caplog.at_level(logging.WARNING):
        assert loaded(cluster, tmp_path) == ({"a": 1, "b": 2}, 0)
    assert f"ignoring {path}: the snapshot's age of {age_ms // 1000} s is not between" in caplog.text
    assert loaded(cluster, tmp_path) == ({"a": 1, "b": 2}, 2)


def another_topic(cluster: ScriptedCluster, _: Path) -> None:
    cluster.drop_topic("t")
    cluster.add_topic("t", 1)
    send(cluster, [("a", 1), ("b", 2)])


def beyond_the_log(_: ScriptedCluster, path: Path) -> None:
    head, _records = contents_of(path)
    write_snapshot(path, head._replace(positions={0: (3, 0)}), {b"c": b"1"})


def of_deleted_records(cluster: ScriptedCluster, _: Path) -> None:
    cluster.truncate("t", 0, before=1)


def at_another_isolation_level(_: ScriptedCluster, path: Path) -> None:
    head, _records = contents_of(path)
    write_snapshot(path, head._replace(read_committed=False), {b"aborted": b"1"})


def of_more_partitions(_: ScriptedCluster, path: Path) -> None:
    head, _records = contents_of(path)
    write_snapshot(path, head._replace(positions={0: (2, 0), 1: (0, 0)}), {b"c": b"1"})


def a_fifo(_: ScriptedCluster, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_directory(_: ScriptedCluster, path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").touch()


@pytest.mark.story("table-snapshot-at-another-isolation-level")
@pytest.mark.story("table-snapshot-of-deleted-records")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (another_topic, "the snapshot belongs to another topic with the same name"),
        (beyond_the_log, "the snapshot's position 3 is not in the log of t-0"),
        (of_deleted_records, "the start of the log has moved"),
        (at_another_isolation_level, "the snapshot was read with isolation_level=read_uncommitted"),
        (of_more_partitions, ""),
        (a_fifo, "the snapshot is not a regular file"),
        (a_directory, "the snapshot is not a regular file"),
        (lambda _, path: path.write_bytes(b""), "not a snapshot, or has another version"),
        (lambda _, path: path.write_bytes(path.read_bytes()[:-1]), "the snapshot is damaged"),
        (lambda _, path: path.write_bytes(path.read_bytes().replace(b"shot 2", b"shot 3")), "another version"),
        (lambda _, path: write_snapshot(path, HEAD._replace(topic_id="3"), {}), "another topic"),
    ],
)
def test_what_does_not_fit_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[ScriptedCluster, Path], None], reason: str
) -> None:
    cluster = ScriptedCluster({"t": 1})
    send(cluster, [("a", 1)])
    send(cluster, [("b", 2)])
    loaded(cluster, tmp_path)
    change(cluster, tmp_path / "t.snapshot")
    with caplog.at_level(logging.WARNING), table_of(cluster, tmp_path) as table:
        table.wait_until_caught_up(10)
        assert dict(table) in ({"a": 1, "b": 2}, {"b": 2})
        assert table.metrics["loads-total"] == 1
    assert f"ignoring {tmp_path / 't.snapshot'}: " in caplog.text
    assert reason in caplog.text


def test_every_torn_or_flipped_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "t.snapshot"
    records: dict[bytes, Stored] = {
        b"key %d" % n: (b"value %d" % n, (("h", b"x"),)) if n % 2 else b"value %d" % n for n in range(10)
    }
    write_snapshot(path, HEAD, records)
    head, found = contents_of(path)
    assert (head, found) == (HEAD, {b"key %d" % n: b"value %d" % n for n in range(10)})
    whole = path.read_bytes()
    for at in range(len(whole)):
        for torn in (whole[:at], whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]):
            path.write_bytes(torn)
            with pytest.raises(ValueError, match=r"damaged|another version"):
                contents_of(path)


def test_many_records_and_large_ones_come_back(tmp_path: Path) -> None:
    records = {b"%d" % n: b"x" * 100 for n in range(30_000)} | {b"large": bytes(3 << 20)}
    write_snapshot(tmp_path / "t.snapshot", HEAD, records)
    assert contents_of(tmp_path / "t.snapshot")[1] == records


def test_a_write_that_fails_leaves_the_one_before_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = filled([("a", 1)])
    loaded(cluster, tmp_path)
    before = (tmp_path / "t.snapshot").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with caplog.at_level(logging.WARNING), monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with table_of(cluster, tmp_path) as table:
            send(cluster, [("b", 2)])
            table.wait_until_caught_up(10)
            assert len(table) == 2
    assert "can't be written: No space left on device" in caplog.text
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("t.snapshot", before)]
    left_over = tmp_path / "t.snapshot.x.tmp"
    left_over.touch()
    os.utime(left_over, (0, 0))
    send(cluster, [("c", 3)])
    loaded(cluster, tmp_path)
    assert not left_over.exists()


def test_it_is_written_while_the_table_follows_two_tables_share_it_and_new_partitions_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "_EVERY_S", 0.0)
    cluster = filled([("a", 1)])
    with table_of(cluster, tmp_path) as table, table_of(cluster, tmp_path) as other:
        send(cluster, [("b", 2)])
        path = tmp_path / "t.snapshot"
        wait_until(lambda: path.exists() and contents_of(path)[0].positions[0][0] == 2)
        wait_until(lambda: table.get("b") == other.get("b") == 2)  # the last to close writes the snapshot
    cluster.add_topic("t", 2)
    send(cluster, [("c", 3)], partition=1)
    assert loaded(cluster, tmp_path) == ({"a": 1, "b": 2, "c": 3}, 2)


@pytest.mark.story("snapshot-taken-back-by-a-slower-table")
@pytest.mark.parametrize(("ahead_ms", "kept"), [(0, True), (DAY_MS, False)])
def test_a_table_does_not_write_over_what_another_one_has_written_later(
    tmp_path: Path, ahead_ms: int, kept: bool
) -> None:
    """But for a time that has not come yet: the clock was set back, and no start would use that file."""
    cluster, path = filled([("a", 1)]), tmp_path / "t.snapshot"
    with table_of(cluster, tmp_path) as table:
        table.wait_until_caught_up(10)
        wait_until(path.exists)
        head, records = contents_of(path)
        send(cluster, [("b", 2)])
        wait_until(lambda: table.get("b") == 2)
        wait_until(lambda: table._follower._snapshot._state[1][0][0] == 2)  # type: ignore[union-attr,index]  # it has one
        later = head._replace(as_of_ms=max(head.as_of_ms + 1, int(time.time() * 1000)) + ahead_ms)
        write_snapshot(path, later, dict(records))  # type: ignore[arg-type]  # no key is null
    found, _ = contents_of(path)
    assert (found == later) == kept


def test_its_time_is_that_of_a_lookup_whose_ends_were_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, ends = filled([("a", 1)]), {"t": 10}
    monkeypatch.setattr(
        snapshot_module, "list_offsets_or_end", lambda _, partitions, **__: dict.fromkeys(partitions, ends["t"])
    )
    with table_of(cluster, tmp_path) as table:  # as if it were cut off from what comes after offset 0
        table.wait_until_caught_up(10)
        wait_until(lambda: table._follower._snapshot._ends is not None)  # type: ignore[union-attr]  # it has one
    assert list(tmp_path.iterdir()) == []


def test_a_topic_made_anew_meanwhile_leaves_nothing_of_the_one_before(tmp_path: Path) -> None:
    cluster = filled([("a", 1), ("b", 2)])
    loaded(cluster, tmp_path)
    with table_of(cluster, tmp_path) as table:
        table.wait_until_caught_up(10)
        cluster.drop_topic("t")
        cluster.add_topic("t", 1)
        send(cluster, [("c", 3)])
        wait_until(lambda: dict(table) == {"c": 3})
        table.wait_until_caught_up(10)
        # Without it where the table was caught up with the topic made anew before the record was sent.
        wait_until(lambda: contents_of(tmp_path / "t.snapshot")[1].keys() <= {b"c"})
    assert loaded(cluster, tmp_path) == ({"c": 3}, 1)


def test_where_the_time_of_tombstones_is_not_known_it_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = filled([("a", 1)])
    loaded(cluster, tmp_path)

    def refused(*_: object) -> int:
        raise OttlaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")

    monkeypatch.setattr(snapshot_module, "deleted_kept_ms", refused)
    with caplog.at_level(logging.WARNING), table_of(cluster, tmp_path) as table:
        table.wait_until_caught_up(10)
        assert dict(table) == {"a": 1}
        wait_until(lambda: "can't take a snapshot of 't' at the moment: no" in caplog.text)
    assert "t.snapshot: no" in caplog.text


def test_records_that_are_deleted_while_a_table_follows_end_its_snapshots(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "_EVERY_S", 0.0)
    cluster = filled([("a", 1)])
    with table_of(cluster, tmp_path) as table:
        table.wait_until_caught_up(10)
        wait_until(lambda: (tmp_path / "t.snapshot").exists())
        cluster.truncate("t", 0, before=1)
        send(cluster, [("b", 2)])
        wait_until(lambda: "can't take a snapshot of 't': records were deleted" in caplog.text)
        assert dict(table) == {"a": 1, "b": 2}
    assert loaded(cluster, tmp_path) == ({"b": 2}, 1)


def test_a_topic_with_retention_has_no_snapshot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deletes(*_: object) -> int:
        raise ValueError("cleanup.policy contains delete")

    monkeypatch.setattr(snapshot_module, "deleted_kept_ms", deletes)
    with table_of(filled([("a", 1)]), tmp_path) as table:
        table.wait_until_caught_up(10)
        wait_until(lambda: "can't take a snapshot of 't': cleanup.policy contains delete" in caplog.text)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_no_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "in", 3, "a\0b"):
        with pytest.raises(ConfigError, match="can't be used"):
            table_of(filled([("a", 1)]), place)  # type: ignore[arg-type]  # what it refuses
