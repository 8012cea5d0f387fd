"""Whatever is finished, tried again, committed, taken away and given back, and when: at least once, and in order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.machines.lanes import Job, Lanes
from ottla.machines.progress import PartitionProgress, RecordsInFlight
from ottla_core.model import TopicPartition

PARTITIONS = [TopicPartition("t", n) for n in range(2)]
CONCURRENCY = 3

Work = tuple[int, PartitionProgress]


class App(RuleBasedStateMachine):
    """A log without end for each partition; the model knows what was handled since when, and what was committed."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: Lanes[Work] = Lanes(CONCURRENCY)
        self.in_flight = RecordsInFlight()
        self.running: list[Job[Work]] = []
        self.parked: list[Job[Work]] = []
        self.next_offset = dict.fromkeys(PARTITIONS, 0)
        self.committed = dict.fromkeys(PARTITIONS, 0)
        self.handled: dict[TopicPartition, set[int]] = {p: set() for p in PARTITIONS}  # ever
        # Where the log that each progress belongs to ended, when it lost its end.
        self.ends: dict[TopicPartition, dict[PartitionProgress, int]] = {p: {} for p in PARTITIONS}
        self.last: dict[tuple[TopicPartition, object], int] = {}  # of a lane, since it was assigned

    @rule(partition=st.sampled_from(PARTITIONS), keys=st.lists(st.integers(0, 3), min_size=1, max_size=5))
    def reads(self, partition: TopicPartition, keys: list[int]) -> None:
        for key in keys:
            offset = self.next_offset[partition]
            self.next_offset[partition] += 1 + key // 3  # with gaps
            progress = self.in_flight.of(partition, offset)
            progress.begin(offset)
            self.ends[partition].setdefault(progress, 1 << 62)
            self.lanes.add(Job(partition, offset % 4, 1, (offset, progress)))
            self.handled[partition] |= set(range(offset + 1, self.next_offset[partition]))  # nothing there

    @rule()
    def begins(self) -> None:
        job = self.lanes.next()
        if job is None:
            return
        offset, progress = job.work
        assert all(job.lane != other.lane for other in [*self.running, *self.live_parked(job)])
        if not progress.released and not self.is_lost(job):
            assert self.last.get(job.lane, -1) <= offset
            self.last[job.lane] = offset
        self.running.append(job)

    def is_lost(self, job: Job[Work]) -> bool:
        offset, progress = job.work
        return offset >= self.ends[job.partition].get(progress, 0)

    def live_parked(self, but: Job[Work]) -> list[Job[Work]]:
        return [job for job in self.parked if job is not but and not job.work[1].released]

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finishes(self, data: st.DataObject) -> None:
        job = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        offset, progress = job.work
        if not self.is_lost(job):
            self.handled[job.partition].add(offset)
        self.lanes.finish(job)
        progress.finish(offset)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def fails(self, data: st.DataObject) -> None:
        job = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        if job.work[1].released:
            self.lanes.finish(job)
        else:
            self.lanes.park(job)
            self.parked.append(job)

    @precondition(lambda self: self.parked)
    @rule()
    def tries_again(self) -> None:
        self.lanes.unpark(self.parked.pop(0))

    @rule()
    def commits(self) -> None:
        offsets = self.in_flight.to_commit()
        self.in_flight.on_committed(offsets)
        self.committed.update(offsets)

    @rule(partition=st.sampled_from(PARTITIONS), lost=st.booleans())
    def goes_and_comes_back(self, partition: TopicPartition, lost: bool) -> None:
        self.in_flight.give_up([partition])
        self.lanes.drop([partition])
        if not lost:
            self.committed.update(self.in_flight.to_commit([partition]))
        self.in_flight.forget([partition])
        self.next_offset[partition] = self.committed[partition]
        self.last = {lane: offset for lane, offset in self.last.items() if lane[0] != partition}

    @rule(partition=st.sampled_from(PARTITIONS), count=st.integers(1, 6))
    def loses_its_end(self, partition: TopicPartition, count: int) -> None:
        """The log has other records at these offsets then, and the first of them is read."""
        at = max(0, self.next_offset[partition] - count)
        self.next_offset[partition] = at
        self.committed[partition] = min(self.committed[partition], at)
        self.handled[partition] = {offset for offset in self.handled[partition] if offset < at}
        self.ends[partition] = {progress: min(end, at) for progress, end in self.ends[partition].items()}
        self.last = {
            lane: min(offset, at - 1) if lane[0] == partition else offset for lane, offset in self.last.items()
        }
        self.reads(partition, [0])

    @invariant()
    def nothing_unhandled_is_committed(self) -> None:
        for partition, offset in self.committed.items():
            assert set(range(offset)) <= self.handled[partition]

    @invariant()
    def no_more_run_than_may(self) -> None:
        assert self.lanes.running == len(self.running) <= CONCURRENCY

    @invariant()
    def what_may_be_repeated_is_counted(self) -> None:
        begun = sum(self.next_offset[p] - self.committed[p] for p in PARTITIONS)
        assert self.in_flight.count <= begun
        assert self.lanes.count >= len(self.running)

    def teardown(self) -> None:
        """Whatever is left can be done, and is committed to its end."""
        for _ in range(10_000):
            while self.parked:
                self.tries_again()
            self.begins()
            if not self.running:
                break
            job = self.running.pop()
            if not self.is_lost(job):
                self.handled[job.partition].add(job.work[0])
            self.lanes.finish(job)
            job.work[1].finish(job.work[0])
        assert (self.lanes.count, self.lanes.size_bytes) == (0, 0)
        self.commits()
        assert self.in_flight.count == 0


TestApp = App.TestCase
TestApp.settings = settings(max_examples=150, stateful_step_count=60)
