"""What is held against members of churning groups, and what their load test says of them."""

from __future__ import annotations

import json

import pytest
from loadtest.locust.churn import Churn, ChurnError, check_committed

from ottla_core.model import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_partition_has_one_reader_in_a_generation() -> None:
    churn = Churn()
    churn.on_read("g", 1, "a", [FIRST, SECOND])
    churn.on_read("g", 1, "a", [FIRST])
    churn.on_read("g", 2, "b", [FIRST])
    churn.on_read("other", 1, "b", [SECOND])
    with pytest.raises(ChurnError, match="t-1 has two readers in generation 1 of g"):
        churn.on_read("g", 1, "b", [SECOND])


def test_a_fetch_tells_of_nothing_older_than_what_was_acknowledged_before_it() -> None:
    churn = Churn()
    churn.on_committed("g", {FIRST: 10, SECOND: 5})
    churn.on_committed("g", {FIRST: 8})  # an answer that was noted late
    churn.on_committed("other", {FIRST: 99})
    at_least = churn.committed("g")
    assert at_least == {FIRST: 10, SECOND: 5}
    check_committed("g", at_least, {FIRST: 10, SECOND: 7})
    with pytest.raises(ChurnError, match="g was told 9 of t-0 after 10 was committed"):
        check_committed("g", at_least, {FIRST: 9, SECOND: 7})
    with pytest.raises(ChurnError, match="g was told None of t-1"):
        check_committed("g", at_least, {FIRST: 10, SECOND: None})


def test_generations_are_counted_over_all_processes() -> None:
    master, worker = Churn(), Churn()
    for generation in (4, 3, 6, -1):
        master.on_assigned("g", generation)
    worker.on_assigned("g", 9)
    worker.on_assigned("h", 1)
    worker.on_assigned("h", 2)
    master.add(json.loads(json.dumps(worker.take())))
    master.add(json.loads(json.dumps(worker.take())))
    memberships = {"requests": 12, "failures": 2, "p50_ms": 250.0, "p99_ms": 6_000.0}
    assert master.report(memberships, 5) == {
        "rebalances": 7, "joins_per_s": 2.0, "rebalance_p50_ms": 250.0, "rebalance_p99_ms": 6_000.0
    }  # fmt: skip
