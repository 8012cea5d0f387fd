"""An offset sync can be deleted once neither cluster has the records that it is about.

The topic is compacted, and every sync has a key: the partition, a number of the mirror that wrote it, and the part of
the source's log (4,096 offsets) in which its stretch begins. A tombstone deletes a key, so it must never follow a newer
sync that has that key and is needed. It is written only if no such sync can follow any more:

* Its stretch ends, and the whole part of the log lies, before the records that either cluster still has. Nothing of
  that part can be copied again.
* Or the sync is about a former topic or copy, and its mirror has written nothing about the present one.

The sync that says how far a partition was copied stays, because a mirror resumes there when the group's position has
expired. A partition that neither cluster has needs no sync.

A compacted topic may keep its first record for ever. So if a partition has too many keys, every second one of the older
half is deleted, as the maps do with their stretches. Offsets there translate late, never ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla_core.model import TopicPartition
from ottla_mirror.machines.mirror_records import PART, SyncKey
from ottla_mirror.machines.offset_map import GONE, SyncedStretch

MOST_KEYS: Final = 16 * 1024
"""A partition keeps syncs of this many parts of the log, which are 64 million offsets."""

_MOST_HELD: Final = 500_000
"""One look holds at most this many keys (some 100 MB). The rest waits for the next look."""


class Retirable(NamedTuple):
    """Neither cluster has records of a partition before the source's offset `before`. It was copied as far as `end`,
    from the topic with that id to the copy of that generation."""

    before: int
    end: int
    generation: int
    topic_id: bytes

    def has_more_than(self, former: Retirable | None) -> bool:
        """Tell whether there may be more keys to delete than there were for `former`."""
        if former is None or self.before == GONE or self[2:] != former[2:]:
            return True
        parts, more_parts = self.before // PART - former.before // PART, self.end // PART - former.end // PART
        return parts > 0 or more_parts > MOST_KEYS // 4


class Retiring:
    """Finds the keys to delete in all syncs, each of which is looked at in the order of the log."""

    def __init__(self, partitions: Mapping[TopicPartition, Retirable]) -> None:
        self._partitions: Final = partitions
        self._held: Final[dict[bytes, tuple[SyncKey, SyncedStretch]]] = {}
        # those whose mirrors wrote about the present copy
        self._present: Final[set[tuple[TopicPartition, int]]] = set()

    def look_at(self, record_key: bytes, key: SyncKey, synced: SyncedStretch | None) -> None:
        """Note the next sync in the log. `synced` is None for a tombstone."""
        self._held.pop(record_key, None)
        known = self._partitions.get(key.source)
        if synced is None or known is None:
            return
        if _is_present(synced, known):
            self._present.add((key.source, key.writer))
        if len(self._held) < _MOST_HELD:
            self._held[record_key] = key, synced

    def due(self) -> dict[bytes, tuple[SyncedStretch, int]]:
        """Return the keys to delete, each with its sync, and with the offset before which neither cluster has
        records."""
        found, kept = dict[bytes, tuple[SyncedStretch, int]](), dict[TopicPartition, list[tuple[int, bytes]]]()
        for record_key, (key, synced) in self._held.items():
            known = self._partitions[key.source]
            if self._is_over(key, synced, known):
                found[record_key] = synced, known.before
            elif _is_present(synced, known) and _end(synced) < known.end:
                kept.setdefault(key.source, []).append((synced.stretch.source, record_key))
        for source, keys in kept.items():
            for record_key in _too_many(keys):
                found[record_key] = self._held[record_key][1], self._partitions[source].before
        return found

    def _is_over(self, key: SyncKey, synced: SyncedStretch, known: Retirable) -> bool:
        if known.before == GONE:
            return True
        if not _is_present(synced, known):
            return (key.source, key.writer) not in self._present
        is_before = _end(synced) <= known.before and (key.part + 1) * PART <= known.before
        return is_before and _end(synced) < known.end


def _is_present(synced: SyncedStretch, known: Retirable) -> bool:
    return (synced.generation, synced.topic_id) == (known.generation, known.topic_id)


def _end(synced: SyncedStretch) -> int:
    return synced.stretch.source + synced.stretch.length


def _too_many(keys: list[tuple[int, bytes]]) -> list[bytes]:
    """Return which of a partition's keys to delete. Each key comes with its offset in the source."""
    left = sorted(keys)
    while len(left) > max(MOST_KEYS, 3):
        half = len(left) // 2
        left[:half] = left[:half:2]
    kept = {key for _, key in left}
    return [key for _, key in keys if key not in kept]
