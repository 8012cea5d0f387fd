"""The records of a mirror's own topics, byte by byte as MirrorMaker 2's schemas have them."""

from ottla_core.model import TopicPartition
from ottla_mirror.machines.mirror_records import (
    Checkpoint,
    heartbeat,
    offset_sync,
    read_checkpoint,
    read_offset_sync,
)
from ottla_mirror.machines.offset_map import Stretch, SyncedStretch

ORDERS = TopicPartition("orders", 3)


def test_a_checkpoint_is_mirror_makers() -> None:
    checkpoint = Checkpoint("g", TopicPartition("a.t", 3), 40, 37)
    key, value = checkpoint.record()
    assert key == b"\0\1g\0\3a.t\0\0\0\3"
    assert value == b"\0\0" + bytes(7) + b"\x28" + bytes(7) + b"\x25" + b"\0\0"
    assert read_checkpoint(key, value) == checkpoint


def test_a_heartbeat_is_mirror_makers() -> None:
    assert heartbeat("a", "b", 258) == (b"\0\1a\0\1b", b"\0\0" + bytes(6) + b"\1\2")


def sync(first: int, target: int, writer: int = 7) -> tuple[bytes, bytes, list[tuple[str, bytes]]]:
    return offset_sync(SyncedStretch(ORDERS, b"id", Stretch(first, target, 10)), writer)


def test_an_offset_sync_begins_as_mirror_makers_and_is_about_the_last_record() -> None:
    key, value, headers = sync(100, 90)
    assert key[:12] == b"\0\6orders\0\0\0\3"
    assert value == bytes(7) + b"\x6d" + bytes(7) + b"\x63"
    assert read_offset_sync(key, value, headers) == SyncedStretch(ORDERS, b"id", Stretch(100, 90, 10))
    mirror_makers = read_offset_sync(key[:12], value, [])
    assert mirror_makers == SyncedStretch(ORDERS, b"", Stretch(109, 99, 1))


def test_of_one_part_of_the_log_and_one_writer_the_newest_sync_is_enough() -> None:
    first = sync(100, 90)[0]
    assert sync(111, 100)[0] == first
    assert sync(100, 300, writer=8)[0] != first, "it may have copied again"
    assert sync(5000, 4000)[0] != first


def test_what_is_neither_is_left_alone() -> None:
    key, value, _ = sync(100, 90)
    for bad_key, bad_value in ((b"", b""), (key[:5], value), (key, value[:15]), (b"\xff\xff" + key, value)):
        assert read_offset_sync(bad_key, bad_value, []) is None
    assert read_offset_sync(key, value, [("length", b"0")]) is None
    assert read_offset_sync(key, value, [("length", b"many")]) is None
    key, value = Checkpoint("g", ORDERS, 1, 1).record()
    for bad_key, bad_value in ((b"", b""), (key[:4], value), (key, value[:9]), (key, b"\0\1" + value[2:])):
        assert read_checkpoint(bad_key, bad_value) is None
