"""Whose turn it is: one job of a lane at a time, so many lanes at once, and nothing left of what was dropped."""

from __future__ import annotations

from collections.abc import Hashable

from ottla.machines.lanes import Job, Lanes
from ottla_core.model import TopicPartition

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


def job(number: int, lane: Hashable, partition: TopicPartition = P, size_bytes: int = 10) -> Job[int]:
    return Job(partition, lane, size_bytes, number)


def filled(*jobs: Job[int], concurrency: int = 10) -> Lanes[int]:
    lanes: Lanes[int] = Lanes(concurrency)
    for each in jobs:
        lanes.add(each)
    return lanes


def started(lanes: Lanes[int]) -> list[Job[int]]:
    return list(iter(lanes.next, None))


def test_a_lanes_jobs_come_one_after_the_other_and_lanes_side_by_side() -> None:
    a1, a2, b1 = job(1, "a"), job(2, "a"), job(3, "b")
    lanes = filled(a1, a2, b1)
    assert started(lanes) == [a1, b1]
    lanes.finish(b1)
    assert started(lanes) == []
    lanes.finish(a1)
    assert started(lanes) == [a2]


def test_no_more_run_than_may() -> None:
    lanes = filled(*(job(n, n) for n in range(5)), concurrency=2)
    first, second = started(lanes)
    lanes.finish(second)
    (third,) = started(lanes)
    assert (first.work, second.work, third.work, lanes.running) == (0, 1, 2, 2)


def test_a_lane_of_one_partition_is_not_that_of_another() -> None:
    lanes = filled(job(1, "a", P), job(2, "a", Q))
    assert len(started(lanes)) == 2


def test_a_parked_job_holds_back_its_lane_and_takes_no_place() -> None:
    a1, a2, b1 = job(1, "a"), job(2, "a"), job(3, "b")
    lanes = filled(a1, a2, b1, concurrency=1)
    assert started(lanes) == [a1]
    lanes.park(a1)
    assert started(lanes) == [b1]
    lanes.finish(b1)
    assert started(lanes) == []
    lanes.unpark(a1)
    assert started(lanes) == [a1]
    assert a1.attempts == 2
    lanes.finish(a1)
    assert started(lanes) == [a2]


def test_what_does_not_run_is_dropped_with_its_partition() -> None:
    running, waiting, parked, behind, other = job(1, "a"), job(2, "a"), job(3, "b"), job(4, "b"), job(5, "a", Q)
    lanes = filled(running, waiting, parked, behind, job(6, "c"), other, concurrency=2)
    assert started(lanes) == [running, parked]
    lanes.park(parked)
    assert lanes.drop([P]) == 4
    lanes.unpark(parked)  # its timer comes too late
    assert (lanes.count, lanes.size_bytes) == (2, 20)
    assert started(lanes) == [other]
    lanes.finish(running)
    lanes.finish(other)
    assert (lanes.count, lanes.size_bytes, lanes.running, started(lanes)) == (0, 0, 0, [])


def test_what_runs_on_keeps_its_lane_when_the_partition_comes_back() -> None:
    late, again = job(1, "a"), job(1, "a")
    lanes = filled(late)
    started(lanes)
    lanes.drop([P])
    lanes.add(again)
    assert started(lanes) == []
    lanes.finish(late)
    assert started(lanes) == [again]


def test_count_and_bytes_are_of_what_is_not_finished() -> None:
    first, second = job(1, "a", size_bytes=3), job(2, "a", size_bytes=4)
    lanes = filled(first, second)
    assert (lanes.count, lanes.size_bytes) == (2, 7)
    started(lanes)
    lanes.park(first)
    assert (lanes.count, lanes.size_bytes) == (2, 7)
    lanes.unpark(first)
    started(lanes)
    lanes.finish(first)
    assert (lanes.count, lanes.size_bytes) == (1, 4)
