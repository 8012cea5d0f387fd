"""Which offset syncs are deleted, and what the maps forget with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla_core.model import TopicPartition
from ottla_mirror.machines import sync_retention
from ottla_mirror.machines.mirror_records import (
    offset_sync,
    read_offset_sync,
    read_retired,
    read_sync_key,
    retired_headers,
)
from ottla_mirror.machines.offset_map import GONE, OffsetMaps, Stretch, SyncedStretch
from ottla_mirror.machines.sync_retention import Retirable, Retiring
from ottla_mirror.syncing.sync_retention import SyncRetention

SOURCE, TOPIC = TopicPartition("t", 3), b"t" * 16
PARTS = 4096


def synced(source: int, length: int, *, topic_id: bytes = TOPIC, generation: int = 1) -> SyncedStretch:
    return SyncedStretch(SOURCE, topic_id, Stretch(source, source + 7, length), generation)


def due(known: Retirable, *syncs: tuple[SyncedStretch, int]) -> list[tuple[SyncedStretch, int]]:
    """Which of these are deleted; each was written by the mirror that has that number."""
    retiring = Retiring({SOURCE: known})
    for each, writer in syncs:
        key, value, headers = offset_sync(each, writer)
        sync_key = read_sync_key(key)
        assert sync_key is not None
        retiring.look_at(key, sync_key, read_offset_sync(key, value, headers))
    return list(retiring.due().values())


def test_a_sync_goes_once_its_whole_part_of_the_log_is_gone_from_both_clusters() -> None:
    first, second, newest = synced(0, 100), synced(100 + PARTS, 50), synced(PARTS * 3, 10)
    end = PARTS * 3 + 10
    syncs = [(each, 1) for each in (first, second, newest)]
    assert due(Retirable(PARTS - 1, end, 1, TOPIC), *syncs) == []
    assert due(Retirable(PARTS, end, 1, TOPIC), *syncs) == [(first, PARTS)]
    assert due(Retirable(PARTS * 2, end, 1, TOPIC), *syncs) == [(first, PARTS * 2), (second, PARTS * 2)]


def test_a_stretch_that_reaches_into_what_is_kept_stays_and_so_does_the_newest_one() -> None:
    long, newest = synced(0, PARTS * 2 + 1), synced(PARTS * 4, 10)
    end = PARTS * 4 + 10
    assert due(Retirable(PARTS * 2, end, 1, TOPIC), (long, 1), (newest, 1)) == []
    assert due(Retirable(PARTS * 9, end, 1, TOPIC), (long, 1), (newest, 1)) == [(long, PARTS * 9)]


def test_of_a_key_the_last_sync_in_the_log_counts() -> None:
    """A stretch that grows is written under the same key."""
    short, grown = synced(0, 100), synced(0, PARTS * 3)
    known = Retirable(PARTS, PARTS * 9, 1, TOPIC)
    assert due(known, (short, 1), (grown, 1)) == []
    assert due(known, (short, 1)) == [(short, PARTS)]


@pytest.mark.parametrize("former", [synced(0, 100, topic_id=b"f" * 16), synced(0, 100, generation=0)])
def test_what_is_of_a_former_topic_or_copy_goes_unless_its_mirror_goes_on_writing(former: SyncedStretch) -> None:
    """That mirror may write the present one's sync under the same key at any moment."""
    present, known = synced(PARTS * 5, 100), Retirable(0, PARTS * 5 + 100, 1, TOPIC)
    assert due(known, (former, 1), (present, 2)) == [(former, 0)]
    assert due(known, (former, 1), (present, 1)) == []


def test_of_too_many_keys_every_second_one_of_the_older_half_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compacted topic keeps its first record for ever."""
    monkeypatch.setattr(sync_retention, "MOST_KEYS", 6)
    syncs = [synced(PARTS * n, 10) for n in range(9)]
    known = Retirable(0, PARTS * 8 + 10, 1, TOPIC)
    assert due(known, *((each, 1) for each in syncs[:6])) == []
    assert due(known, *((each, 1) for each in syncs)) == [(syncs[1], 0), (syncs[3], 0)], "the newest does not count"


def test_a_stretch_that_grows_for_ever_is_not_one_of_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_retention, "MOST_KEYS", 3)
    growing, others = synced(PARTS, PARTS * 20), [synced(PARTS * n, 10) for n in (0, 2, 3, 4)]
    gone = due(Retirable(0, PARTS * 21, 1, TOPIC), *((each, n) for n, each in enumerate([growing, *others])))
    assert gone == [(others[1], 0)]


def test_of_a_partition_that_is_gone_all_go() -> None:
    syncs = synced(0, 100), synced(100, 100, topic_id=b"f" * 16), synced(PARTS, 1)
    gone = Retirable(GONE, PARTS + 1, 1, TOPIC)
    assert due(gone, *((each, 1) for each in syncs)) == [(each, GONE) for each in (syncs[1], syncs[2])]
    assert due(gone, *((each, number) for number, each in enumerate(syncs))) == [(each, GONE) for each in syncs]


def test_the_log_is_read_again_only_where_another_part_has_gone() -> None:
    known = Retirable(PARTS, PARTS * 9, 1, TOPIC)
    assert known.has_more_than(None)
    assert not known._replace(before=PARTS * 2 - 1, end=PARTS * 10).has_more_than(known)
    assert known._replace(before=PARTS * 2).has_more_than(known)
    assert known._replace(end=PARTS * (10 + sync_retention.MOST_KEYS // 4)).has_more_than(known)
    assert known._replace(generation=2).has_more_than(known)
    assert known._replace(before=GONE).has_more_than(known._replace(before=GONE))


# ---- what the maps forget ------------------------------------------------------------------------------------------


def filled() -> OffsetMaps:
    maps = OffsetMaps()
    for first in (0, 20, 40):
        maps.add(synced(first, 10))
    while maps.take_changed() is not None:
        pass
    return maps


@pytest.mark.parametrize(("before", "left"), [(9, 3), (10, 2), (29, 2), (30, 1), (50, 1), (10**6, 1)])
def test_stretches_that_end_before_the_records_that_are_left_are_forgotten(before: int, left: int) -> None:
    maps = filled()
    maps.retire(synced(0, 10), before)
    known = maps.get(SOURCE)
    assert known is not None
    assert (len(known), maps.end(SOURCE, 1)) == (left, (50, TOPIC)), "how far it was copied stays known"
    changed = maps.take_changed()
    assert changed is not None
    assert len(changed.stretches) == (left if left < 3 else 0), "whoever has a copy of the map replaces it"


def test_a_partition_that_is_gone_is_forgotten_whole_and_a_new_one_of_its_name_is_another() -> None:
    maps = filled()
    maps.retire(synced(0, 10), GONE)
    assert (maps.get(SOURCE), maps.sources(), maps.end(SOURCE, 1)) == (None, [], None)
    changed = maps.take_changed()
    assert changed is not None
    assert (changed.first, changed.stretches) == (0, [])
    maps.add(synced(0, 5, topic_id=b"n" * 16, generation=2))
    maps.retire(synced(0, 10), GONE)
    assert maps.end(SOURCE, 2) == (5, b"n" * 16), "a late tombstone is about the former topic"


def test_a_tombstone_says_what_it_is_about() -> None:
    (key, _, _), sync = offset_sync(synced(0, 10), 5), synced(0, 10)
    read = read_retired(key, retired_headers(sync, GONE))
    assert read is not None
    assert (read[0]._replace(stretch=sync.stretch), read[1]) == (sync, GONE)
    assert read_retired(key, []) is None
    assert read_retired(b"", retired_headers(sync, GONE)) is None
    assert read_sync_key(b"paused") is None


# ---- when the syncs are read ---------------------------------------------------------------------------------------


def test_what_grows_slowly_between_looks_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts since the syncs were read last, not since the last look."""
    nothing: Any = cast("Any", SimpleNamespace())
    chore = SyncRetention("east->west", nothing, nothing, nothing, nothing, nothing)
    read: list[dict[TopicPartition, Retirable]] = []
    monkeypatch.setattr(chore, "_delete", read.append)
    step = PARTS * (sync_retention.MOST_KEYS // 8)
    for look in range(5):
        chore._delete_where_due({SOURCE: Retirable(0, look * step, 1, TOPIC)})
    assert [partitions[SOURCE].end for partitions in read] == [0, 3 * step]
