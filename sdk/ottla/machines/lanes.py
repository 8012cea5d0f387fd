"""Which record is to be handled next: those of one lane one after the other, `concurrency` lanes at a time.

A lane is what has an order: a key, or a whole partition. Each job of a lane waits until the one before it is finished.

    add ──► waiting ──► ready ──next()──► running ──finish──► (gone; the lane's next one is ready)
                          ▲                  │
                          └──unpark── parked ◄┘ park: to be tried again later; holds back its own lane, takes no slot

The rules this file owns:

* Of one lane at most one job runs, and in the order in which they were added; one that is parked keeps its turn.
* At most `concurrency` jobs run. Lanes take turns.
* Dropping partitions leaves nothing of them but what runs. That keeps its lane until it is finished, even if the same
  partition comes back meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable
from typing import Final, Generic, TypeVar

from ottla_core.model import TopicPartition

T = TypeVar("T")


class Job(Generic[T]):
    """One record to be handled: `work` is what that means to the worker. `attempts` were begun."""

    __slots__ = ("attempts", "lane", "partition", "size_bytes", "work")

    def __init__(self, partition: TopicPartition, lane: Hashable, size_bytes: int, work: T) -> None:
        self.partition: Final = partition
        self.lane: Final = (partition, lane)
        self.size_bytes: Final = size_bytes
        self.work: Final = work
        self.attempts = 0


class Lanes(Generic[T]):
    """The jobs of one handler. `size_bytes` and `count` are of those that are not finished."""

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
        """How many run."""
        return len(self._running)

    @property
    def is_quiet(self) -> bool:
        """Whether no job runs and none may start: there are no jobs, or all that are left are parked."""
        return not self._running and not self._ready

    def add(self, job: Job[T]) -> None:
        """After all that its lane has."""
        lane = self._lanes.setdefault(job.lane, deque())
        lane.append(job)
        self.count += 1
        self.size_bytes += job.size_bytes
        if len(lane) == 1:
            self._ready.append(job)

    def next(self) -> Job[T] | None:
        """The next job, which runs from now on; None where none may."""
        if not self._ready or len(self._running) >= self._concurrency:
            return None
        job = self._ready.popleft()
        self._running.add(job)
        job.attempts += 1
        return job

    def park(self, job: Job[T]) -> None:
        """It failed and is to be tried again; it runs no more, and its lane waits for it."""
        self._running.remove(job)
        self._parked.add(job)

    def unpark(self, job: Job[T]) -> None:
        """Its time has come; nothing happens where it was dropped meanwhile."""
        if job in self._parked:
            self._parked.remove(job)
            self._ready.append(job)

    def finish(self, job: Job[T]) -> None:
        """It does not run any more, and is finished."""
        self._running.remove(job)
        self._take_out(job)
        lane = self._lanes[job.lane]
        lane.popleft()
        if lane:
            self._ready.append(lane[0])
        else:
            del self._lanes[job.lane]

    def drop(self, partitions: Collection[TopicPartition]) -> int:
        """Let go of what does not run yet; how many jobs that were."""
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
