"""Where a partition's offsets are in its copy: exact wherever both are known, else late and never ahead.

Between two gaps (a marker, an aborted batch, what compaction took, a marker of the mirror's own) source and target go
in step, so a stretch without a gap is three numbers, however long it is:

    source   0 … 99   marker   101 … 140           (0 → 0, 100) (101 → 100, 40)
    target   0 … 99            100 … 139

An offset inside a stretch, or at its end, translates exactly. One in the gap behind it is that of a reader that
has everything before the gap: it continues at the stretch's end in the target. So an offset is never translated to a
position behind a record that its reader has not had.

What is copied twice, by a mirror that goes on where its predecessor had committed, has two places. The later one counts
once the copying has passed all that was copied before: until then the first one does, for what follows is only there.

Bounded in bytes: of the oldest half every second stretch is dropped, and offsets in it translate to the end of the one
before: late, and the reader meets records again. Source: KIP-382, `OffsetSyncStore`, which keeps 64 pairs a partition.

`OffsetMaps` has those of a flow; what they are made of lies in its offset syncs (module `mirror_records`). Each map
knows from which offset on it has changed, so that a copy of it costs no more than that to keep.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla_core.model import TopicPartition

_MOST_STRETCHES: Final = 64 * 1024
"""1.5 MB a partition: days of transactions."""

_MOST_OF_ALL: Final = 2 * 1024 * 1024
"""48 MB a flow."""

_FORMER: Final = 8
_UNCHANGED: Final = 2**63 - 1
"""Behind every offset."""


class Stretch(NamedTuple):
    """`length` records from `source` on lie from `target` on in the copy."""

    source: int
    target: int
    length: int


class SyncedStretch(NamedTuple):
    """A stretch of the partition `source`, of the topic that had that id, in the copy of that generation: a topic or a
    copy that was created again has other offsets."""

    source: TopicPartition
    topic_id: bytes
    stretch: Stretch
    generation: int = 0


class ChangedStretches(NamedTuple):
    """From the offset `first` on the map of the partition `source` consists of these."""

    source: TopicPartition
    first: int
    stretches: list[Stretch]


class OffsetMap:
    """One partition's."""

    __slots__ = ("_again", "_changed_from", "_lengths", "_most", "_sources", "_targets")

    def __init__(self, most: int = _MOST_STRETCHES) -> None:
        self._again: list[Stretch] = []  # copied once more, and not yet as far as before
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
        """The newest stretch."""
        return Stretch(self._sources[-1], self._targets[-1], self._lengths[-1]) if self._sources else None

    def add(self, source: int, target: int, length: int) -> None:
        """These were copied."""
        if source >= self.end:
            self._append(Stretch(source, target, length))
            return
        self._again = [before for before in self._again if before.source < source]
        self._again.append(Stretch(source, target, length))
        if source + length >= self.end:
            self._forget_from(self._again[0].source)
            for stretch in self._again:
                self._append(stretch)
            self._again = []

    def translate(self, offset: int) -> int | None:
        """The position in the copy of a reader that is at `offset` in the source; None where nothing is known of it."""
        at = bisect_right(self._sources, offset) - 1
        if at < 0:
            return None
        return self._targets[at] + min(offset - self._sources[at], self._lengths[at])

    def translate_back(self, offset: int) -> int | None:
        """The position in the source of a reader that is at `offset` in the copy; None where nothing is known of it."""
        at = bisect_right(self._targets, offset) - 1
        if at < 0:
            return None
        return self._sources[at] + min(offset - self._targets[at], self._lengths[at])

    def take_changed(self) -> tuple[int, list[Stretch]]:
        """The offset from which on stretches are others than at the last call, and those; from 0 at the first call. Of
        one that was cut the rest is behind that offset: what follows the cut says where it lies."""
        first, self._changed_from = self._changed_from, _UNCHANGED
        at = bisect_left(self._sources, first)
        return first, list(map(Stretch, self._sources[at:], self._targets[at:], self._lengths[at:]))

    def change_all(self) -> None:
        """Have the next call take everything."""
        self._changed_from = 0

    def thin(self, most: int) -> None:
        """Keep no more stretches than that, three at least: of fewer than four the older half is one."""
        while len(self._sources) > max(most, 3):
            self.change_all()
            half = len(self._sources) // 2
            for numbers in (self._sources, self._targets, self._lengths):
                numbers[:half] = numbers[:half:2]

    @property
    def end(self) -> int:
        """After the last offset of the source that was copied."""
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
    """A flow's, by the source's partitions."""

    def __init__(self, most: int = _MOST_OF_ALL) -> None:
        self._maps: Final[dict[TopicPartition, OffsetMap]] = {}
        self._of: Final[dict[TopicPartition, tuple[int, bytes]]] = {}  # generation and topic id
        self._former: Final[dict[TopicPartition, deque[bytes]]] = {}  # topic ids, which never come back
        self._changed: Final[set[TopicPartition]] = set()
        self._most: Final = most
        self._count = 0  # stretches of all

    def add(self, synced: SyncedStretch) -> None:
        """It was copied. What a mirror that had lost its partition says late of a former copy is ignored."""
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
        self._changed.add(source)
        self._count += len(known) - before
        if self._count > self._most:
            for each in self._maps.values():
                each.thin(self._most // len(self._maps))
            self._count = sum(map(len, self._maps.values()))
            self._changed.update(self._maps)

    def take_changed(self) -> ChangedStretches | None:
        """Of one partition, what has changed since it was taken last; None once all was."""
        if not self._changed:
            return None
        source = self._changed.pop()
        return ChangedStretches(source, *self._maps[source].take_changed())

    def change_all(self) -> None:
        """Have everything taken again."""
        self._changed.update(self._maps)
        for each in self._maps.values():
            each.change_all()

    def get(self, source: TopicPartition) -> OffsetMap | None:
        """None where nothing of the partition was copied."""
        return self._maps.get(source)

    def end(self, source: TopicPartition, generation: int) -> tuple[int, bytes] | None:
        """The offset after the last one that was copied in that generation, and the source's topic id."""
        known, of = self._maps.get(source), self._of.get(source)
        return (known.end, of[1]) if known and of is not None and of[0] == generation else None
