"""An offset map translates a partition's offsets to its copy: exactly where both are known, else late, never ahead.

A consumer group that moves to the copy must not skip a record, and should not read many again. The copy's offsets
differ from the source's by gaps, which come from markers, aborted batches, compaction and the mirror's own markers.
Between two gaps, source and target advance in step, so a stretch without a gap takes three numbers, however long it is:

    source   0 … 99   marker   101 … 140           (0 → 0, 100) (101 → 100, 40)
    target   0 … 99            100 … 139

An offset inside a stretch, or at its end, translates exactly. A reader whose offset is in the gap after a stretch has
read everything before the gap, so it continues at the stretch's end in the target. So a translation never skips a
record that the reader has not read (I32).

If a mirror resumes where its predecessor had committed, it may copy records twice, and they have two places. The first
place counts until copying has passed all that was copied before, because what follows is only there. Then the later
place counts.

To bound memory, every second stretch of the oldest half is dropped. Offsets in it translate to the end of the stretch
before, so the reader gets some records again. Source: KIP-382, `OffsetSyncStore`, which keeps 64 pairs a partition.

`OffsetMaps` has the maps of a flow, which are built from its offset syncs (module `mirror_records`). Each map knows
from which offset on it has changed, so that updating a copy of it costs only what has changed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla_core.model import TopicPartition

_MOST_STRETCHES: Final = 64 * 1024
"""The most stretches of one partition: 1.5 MB, which are days of transactions."""

_MOST_OF_ALL: Final = 2 * 1024 * 1024
"""The most stretches of a flow: 48 MB."""

_FORMER: Final = 8
"""How many former topic ids of a partition are remembered. A late sync is about one of the last few."""
_UNCHANGED: Final = 2**63 - 1
"""An offset behind every other one."""


class Stretch(NamedTuple):
    """`length` records from `source` on lie from `target` on in the copy."""

    source: int
    target: int
    length: int


GONE: Final = 2**63 - 1
"""An offset that is behind every record of a partition."""


class SyncedStretch(NamedTuple):
    """A stretch of the partition `source`, of the topic that had that id, in the copy of that generation: a topic or a
    copy that was created again has other offsets."""

    source: TopicPartition
    topic_id: bytes
    stretch: Stretch
    generation: int = 0


class ChangedStretches(NamedTuple):
    """Changes of a map: from the offset `first` on, the map of the partition `source` consists of these stretches."""

    source: TopicPartition
    first: int
    stretches: list[Stretch]


class OffsetMap:
    """The offset map of one partition."""

    __slots__ = ("_again", "_changed_from", "_lengths", "_most", "_sources", "_targets")

    def __init__(self, most: int = _MOST_STRETCHES) -> None:
        # Records that were copied once more, while that has not come as far as before.
        self._again: list[Stretch] = []
        # Arrays of integers take 24 bytes a stretch. A tuple of integers would take several times as much.
        self._sources = array("q")
        self._targets = array("q")
        self._lengths = array("q")
        self._most = most
        self._changed_from = 0

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[Stretch]:
        return map(Stretch, self._sources, self._targets, self._lengths)

    @property
    def last(self) -> Stretch | None:
        """This is the newest stretch."""
        return Stretch(self._sources[-1], self._targets[-1], self._lengths[-1]) if self._sources else None

    def add(self, source: int, target: int, length: int) -> None:
        """Note that `length` records from `source` on were copied to `target`."""
        if source >= self.end:
            self._append(Stretch(source, target, length))
            return
        # A third copying of these records replaces the second one.
        self._again = [before for before in self._again if before.source < source]
        self._again.append(Stretch(source, target, length))
        if source + length >= self.end:
            # The second copying has everything now, and what follows is only behind it. So readers are led there from
            # now on.
            self._forget_from(self._again[0].source)
            for stretch in self._again:
                self._append(stretch)
            self._again = []

    def translate(self, offset: int) -> int | None:
        """Return the position in the copy of a reader that is at `offset` in the source, or None if nothing is known of
        it."""
        at = bisect_right(self._sources, offset) - 1
        if at < 0:
            return None
        # The minimum leads an offset in the gap to the end of the stretch before it: late, and never ahead.
        return self._targets[at] + min(offset - self._sources[at], self._lengths[at])

    def translate_back(self, offset: int) -> int | None:
        """Return the position in the source of a reader that is at `offset` in the copy, or None if nothing is known of
        it."""
        at = bisect_right(self._targets, offset) - 1
        if at < 0:
            return None
        return self._sources[at] + min(offset - self._targets[at], self._lengths[at])

    def take_changed(self) -> tuple[int, list[Stretch]]:
        """Return the first offset from which stretches have changed since the last call, and these stretches; the first
        call returns all of them, from 0. If a stretch was cut, these stretches say where the part after the cut
        lies."""
        first, self._changed_from = self._changed_from, _UNCHANGED
        at = bisect_left(self._sources, first)
        return first, list(map(Stretch, self._sources[at:], self._targets[at:], self._lengths[at:]))

    def change_all(self) -> None:
        """Have the next call of `take_changed` take everything."""
        self._changed_from = 0

    def thin(self, most: int) -> None:
        """Keep at most that many stretches, but at least three: of fewer than four, the older half is a single one."""
        while len(self._sources) > max(most, 3):
            self.change_all()
            half = len(self._sources) // 2
            for numbers in (self._sources, self._targets, self._lengths):
                # The oldest half is thinned, because groups are rarely there. Each time it is thinned again, so
                # precision falls with age.
                numbers[:half] = numbers[:half:2]

    def retire(self, before: int) -> None:
        """Forget the stretches that end at or before that offset of the source, except for the newest one."""
        # This counts the stretches that begin there or before. The last of them may reach beyond it, and stays then.
        count = bisect_right(self._sources, before)
        if count and self._sources[count - 1] + self._lengths[count - 1] > before:
            count -= 1
        count = min(count, len(self._sources) - 1)
        if count > 0:
            self.change_all()
            for numbers in (self._sources, self._targets, self._lengths):
                del numbers[:count]

    @property
    def end(self) -> int:
        """This is the offset after the last one of the source that was copied."""
        return self._sources[-1] + self._lengths[-1] if self._sources else 0

    def _append(self, stretch: Stretch) -> None:
        source, target, length = stretch
        last = self.last
        if last is not None and (source, target) == (last.source + last.length, last.target + last.length):
            self._lengths[-1] += length
        else:
            self._sources.append(source)
            self._targets.append(target)
            self._lengths.append(length)
        self._changed_from = min(self._changed_from, self._sources[-1])
        self.thin(self._most)

    def _forget_from(self, source: int) -> None:
        at = bisect_left(self._sources, source)
        for numbers in (self._sources, self._targets, self._lengths):
            del numbers[at:]
        if at and self._sources[-1] + self._lengths[-1] > source:
            self._lengths[-1] = source - self._sources[-1]


class OffsetMaps:
    """A flow has one map for each partition of the source. `notes_changes` says whether a copy of the maps takes the
    changes."""

    def __init__(self, most: int = _MOST_OF_ALL, *, notes_changes: bool = True) -> None:
        self._maps: Final[dict[TopicPartition, OffsetMap]] = {}
        self._of: Final[dict[TopicPartition, tuple[int, bytes]]] = {}  # generation and topic id
        self._former: Final[dict[TopicPartition, deque[bytes]]] = {}  # topic ids, which never come back
        self._changed: Final[OrderedDict[TopicPartition, None]] = OrderedDict()
        self._notes_changes: Final = notes_changes
        self._most: Final = most
        self._count = 0  # the number of all stretches

    def add(self, synced: SyncedStretch) -> None:
        """Add a stretch that was copied. A late sync about a former copy, from a mirror that had lost its partition, is
        ignored."""
        source, topic_id, stretch, generation = synced
        of = self._of.get(source)
        if of is not None and (generation < of[0] or topic_id in self._former.get(source, ())):
            return
        if of is not None and of != (generation, topic_id):
            self._count -= len(self._maps.pop(source, ()))
            if of[1] != topic_id:
                self._former.setdefault(source, deque(maxlen=_FORMER)).append(of[1])
        self._of[source] = generation, topic_id
        known = self._maps.setdefault(source, OffsetMap())
        before = len(known)
        known.add(*stretch)
        self._note_changed(source)
        self._count += len(known) - before
        if self._count > self._most:
            for each in self._maps.values():
                # Each partition may keep an equal share, so those with few stretches lose none.
                each.thin(self._most // len(self._maps))
            self._count = sum(map(len, self._maps.values()))
            self._note_changed(*self._maps)

    def retire(self, synced: SyncedStretch, before: int) -> None:
        """Forget stretches before that offset of the source, since neither cluster has their records. The newest
        stretch stays, because it says how far the partition was copied, unless `before` is `GONE`."""
        source = synced.source
        known = self._maps.get(source)
        if known is None or self._of[source] != (synced.generation, synced.topic_id):
            return
        self._count -= len(known)
        self._note_changed(source)
        if before == GONE:
            for kept in (self._maps, self._of, self._former):
                kept.pop(source, None)
        else:
            known.retire(before)
            self._count += len(known)

    def take_changed(self) -> ChangedStretches | None:
        """Return one partition's changes since they were taken last, or None if there are no more."""
        if not self._changed:
            return None
        source, _ = self._changed.popitem(last=False)
        known = self._maps.get(source)
        return ChangedStretches(source, *((0, []) if known is None else known.take_changed()))

    def sources(self) -> list[TopicPartition]:
        """Return the partitions that have copied records."""
        return list(self._maps)

    def of(self, source: TopicPartition) -> tuple[int, bytes] | None:
        """Return the generation of the copy that has the newest stretches of a partition, and the source's topic id at
        that time."""
        return self._of.get(source)

    def change_all(self) -> None:
        """Have everything taken again."""
        self._changed.update(dict.fromkeys(self._maps))
        for each in self._maps.values():
            each.change_all()

    def _note_changed(self, *sources: TopicPartition) -> None:
        if self._notes_changes:
            self._changed.update(dict.fromkeys(sources))

    def get(self, source: TopicPartition) -> OffsetMap | None:
        """Return the partition's map, or None if nothing of the partition was copied."""
        return self._maps.get(source)

    def generation(self, source: TopicPartition) -> int:
        """Return the newest generation that has copied records, or 0."""
        of = self._of.get(source)
        return 0 if of is None else of[0]

    def end(self, source: TopicPartition, generation: int) -> tuple[int, bytes] | None:
        """Return the offset after the last one that was copied in that generation, and the source's topic id."""
        known, of = self._maps.get(source), self._of.get(source)
        return (known.end, of[1]) if known and of is not None and of[0] == generation else None
