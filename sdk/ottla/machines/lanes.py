"""Chooses the next record to handle: records of one lane one after the other, `concurrency` lanes at a time.

A lane is a key or a whole partition, whose records are handled in order: each job waits until the previous job of its
lane is finished.

    add ──► waiting ──► ready ──next()──► running ──finish──► (gone; the lane's next one is ready)
                          ▲                  │
                          └──unpark── parked ◄┘ park: to be tried again later; holds back its own lane, takes no slot

The rules this file owns:

* At most one job of a lane runs at a time, in the order in which jobs were added; a parked job keeps its place.
* At most `concurrency` jobs run. Lanes take turns.
* Dropping partitions removes all of their jobs except running ones. A running job keeps its lane until it is finished,
  even if the same partition is assigned again in the meantime.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable
from typing import Final, Generic, TypeVar

from ottla_core.model import TopicPartition

T = TypeVar("T")


class Job(Generic[T]):
    """One record to handle. `work` is the worker's own data, and `attempts` counts the attempts begun."""

    __slots__ = ("attempts", "lane", "partition", "size_bytes", "work")

    def __init__(self, partition: TopicPartition, lane: Hashable, size_bytes: int, work: T) -> None:
        self.partition: Final = partition
        self.lane: Final = (partition, lane)
        self.size_bytes: Final = size_bytes
        self.work: Final = work
        self.attempts = 0


class Lanes(Generic[T]):
    """The jobs of one handler. `size_bytes` and `count` cover the unfinished jobs."""

    def __init__(self, concurrency: int) -> None:
        self.size_bytes = 0
        self.count = 0
        self._concurrency: Final = concurrency
        self._lanes: Final[dict[Hashable, deque[Job[T]]]] = {}
        self._ready: deque[Job[T]] = deque()  # each the first of its lane
        self._running: Final[set[Job[T]]] = set()
        self._parked: Final[set[Job[T]]] = set()

    @property
    def running(self) -> int:
        """The number of running jobs."""
        return len(self._running)

    @property
    def is_quiet(self) -> bool:
        """Whether no job runs and none may start, because all remaining jobs are parked or no job remains."""
        return not self._running and not self._ready

    def add(self, job: Job[T]) -> None:
        """Add a job at the end of its lane."""
        lane = self._lanes.setdefault(job.lane, deque())
        lane.append(job)
        self.count += 1
        self.size_bytes += job.size_bytes
        if len(lane) == 1:
            self._ready.append(job)

    def next(self) -> Job[T] | None:
        """Return the next job, which runs from now on, or None if no job may run."""
        if not self._ready or len(self._running) >= self._concurrency:
            return None
        job = self._ready.popleft()
        self._running.add(job)
        job.attempts += 1
        return job

    def park(self, job: Job[T]) -> None:
        """Park a failed job until its next attempt. It no longer counts as running, and its lane waits for it."""
        self._running.remove(job)
        self._parked.add(job)

    def unpark(self, job: Job[T]) -> None:
        """Make a parked job ready again, unless it was dropped in the meantime."""
        if job in self._parked:
            self._parked.remove(job)
            self._ready.append(job)

    def finish(self, job: Job[T]) -> None:
        """Note that a running job is finished."""
        self._running.remove(job)
        self._take_out(job)
        lane = self._lanes[job.lane]
        lane.popleft()
        if lane:
            self._ready.append(lane[0])
        else:
            del self._lanes[job.lane]

    def drop(self, partitions: Collection[TopicPartition]) -> int:
        """Drop the jobs of these partitions that are not running, and return their number."""
        before = self.count
        for name, lane in [(n, lane) for n, lane in self._lanes.items() if lane[0].partition in partitions]:
            while lane and lane[-1] not in self._running:
                job = lane.pop()
                self._parked.discard(job)
                self._take_out(job)
            if not lane:
                del self._lanes[name]
        self._ready = deque(job for job in self._ready if job.lane in self._lanes)
        return before - self.count

    def _take_out(self, job: Job[T]) -> None:
        self.count -= 1
        self.size_bytes -= job.size_bytes
