"""Tracks the offset up to which a partition may be committed while its records finish in any order.

    offsets:   10  11  12  13  14      begun, in their order
    finished:  ✓   ✓       ✓           11 is the last of the front
    committable: 12                    the lowest that is not finished

The rules this file owns:

* A partition is committed up to its lowest unfinished record, and never past it, so a crash loses no record.
* `count` is the number of records that were begun and are not committed, and would be repeated after a crash now.
* A partition that was given up, even if it was assigned again later, ignores records that finish from before. A
  recreated topic starts over: records of the former topic are still handled, but commit nothing.
* A log that lost its end in an unclean election has other records at the same offsets later. So reading that goes back
  begins another progress. Records of the lost end are still handled, but commit nothing. Unfinished records before it
  still hold the commit back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from ottla_core.model import TopicId, TopicPartition


class Tenure:
    """The time for which a partition is assigned. It `is_over` once the partition was given up, or will be soon. Others
    do what is not finished then."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


class PartitionProgress:
    """The progress of one assigned partition, until it is given up. `end` is the offset where reading continues.

    `earlier` is the progress before the log lost its end, as long as it has records that are not committed.
    """

    __slots__ = ("_earlier", "_front", "_open", "_out_of_order", "_tenure", "end", "topic_id")

    def __init__(self, topic_id: TopicId | None = None, earlier: PartitionProgress | None = None) -> None:
        self.topic_id = topic_id
        self.end = 0
        self._tenure: Tenure = Tenure() if earlier is None else earlier._tenure
        self._earlier = earlier if earlier is not None and earlier.count else None
        self._open: deque[int] = deque()  # from the lowest unfinished one on
        self._out_of_order: set[int] = set()  # those of them that are finished
        self._front: deque[int] = deque()  # finished, all before them too, and not committed

    def begin(self, offset: int, end: int | None = None) -> None:
        """Note that a record was read; offsets come in ascending order. Reading continues at `end`, by default after
        the record."""
        assert offset >= self.end, f"{offset} comes after {self.end - 1}"
        self._open.append(offset)
        self.end = offset + 1 if end is None else end

    def finish(self, offset: int) -> None:
        """Note that a record is handled, or is in the dead-letter topic. A record of a lost end counts for nothing."""
        if offset >= self.end:
            return
        self._out_of_order.add(offset)
        while self._open and self._open[0] in self._out_of_order:
            done = self._open.popleft()
            self._out_of_order.discard(done)
            self._front.append(done)

    def lose(self, after: int) -> None:
        """Note that the log lost its records from offset `after` on. Other records may have these offsets later."""
        if self._earlier is not None:
            self._earlier.lose(after)
        self.end = min(self.end, after)
        self._open = deque(offset for offset in self._open if offset < after)
        self._front = deque(offset for offset in self._front if offset < after)
        self._out_of_order = {offset for offset in self._out_of_order if offset < after}

    @property
    def released(self) -> bool:
        """Whether the partition has moved to another member, or will soon. This holds for a lost end's records, too."""
        return self._tenure.is_over

    def release(self) -> None:
        """Note that the partition will soon move to another member."""
        self._tenure.is_over = True

    def on_committed(self, offset: int) -> None:
        """The group has it."""
        if self._earlier is not None:
            self._earlier.on_committed(offset)
            if not self._earlier.count:
                self._earlier = None
        while self._front and self._front[0] < offset:
            self._front.popleft()

    @property
    def is_finished(self) -> bool:
        """Whether every record that was begun is finished."""
        return not self._open and (self._earlier is None or self._earlier.is_finished)

    @property
    def committable(self) -> int:
        """The offset up to which every record is finished."""
        if self._earlier is not None and not self._earlier.is_finished:
            return self._earlier.committable
        return self._open[0] if self._open else self.end

    @property
    def front(self) -> int:
        """The number of records that the next commit would cover."""
        if self._earlier is None:
            return len(self._front)
        return self._earlier.front + (len(self._front) if self._earlier.is_finished else 0)

    @property
    def count(self) -> int:
        """The number of records that were begun and are not committed."""
        earlier = 0 if self._earlier is None else self._earlier.count
        return earlier + len(self._open) + len(self._front)


class RecordsInFlight:
    """The progress of all partitions of one consumer."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, PartitionProgress] = {}

    def of(self, partition: TopicPartition, first: int, topic_id: TopicId | None = None) -> PartitionProgress:
        """Return the progress for records that begin at offset `first`.

        It begins at the first call. It starts over for another topic id, and where reading has gone back: the log has
        lost its end.
        """
        progress = self._partitions.get(partition)
        if progress is None or progress.topic_id != topic_id:
            progress = self._partitions[partition] = PartitionProgress(topic_id)
        elif first < progress.end:
            progress.lose(first)
            progress = self._partitions[partition] = PartitionProgress(topic_id, progress)
        return progress

    def leave(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop these partitions, because their topic was recreated.

        Their running records are handled but commit nothing.
        """
        for name in partitions:
            self._partitions.pop(name, None)

    def topic_id(self, partition: TopicPartition) -> TopicId | None:
        """Return the id of the topic that the partition's progress belongs to."""
        return self._partitions[partition].topic_id

    @property
    def count(self) -> int:
        """The number of records that were begun and are not committed."""
        return sum(progress.count for progress in self._partitions.values())

    @property
    def front(self) -> int:
        """The number of records that a commit would cover."""
        return sum(progress.front for progress in self._partitions.values())

    def to_commit(self, only: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Return the offsets to commit of all partitions, or of these, which have finished but uncommitted records."""
        names = self._partitions if only is None else [name for name in only if name in self._partitions]
        return {name: progress.committable for name in names if (progress := self._partitions[name]).front}

    def on_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The group has these."""
        for name, offset in offsets.items():
            if name in self._partitions:
                self._partitions[name].on_committed(offset)

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that these partitions will soon move to other members, which handle the records that don't finish in
        time."""
        for name in partitions:
            if name in self._partitions:
                self._partitions[name].release()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that belong to other members now; their running records no longer count."""
        self.give_up(partitions)
        self.leave(partitions)
