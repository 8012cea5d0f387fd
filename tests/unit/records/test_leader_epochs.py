"""The leader epochs of a partition's replicas are compared where all of them have committed records."""

from __future__ import annotations

from ottla_core.records.leader_epochs import EpochStart, ReplicaEpochs, unequal_epochs


def _of(*entries: tuple[int, int], start: int = 0, high_watermark: int = 100) -> ReplicaEpochs:
    return ReplicaEpochs([EpochStart(*entry) for entry in entries], start, high_watermark)


def test_equal_epochs_are_no_finding() -> None:
    assert unequal_epochs({1: _of((1, 0), (3, 40)), 2: _of((1, 0), (3, 40))}) == {}


def test_an_epoch_that_begins_later_on_one_replica_is_found() -> None:
    found = unequal_epochs({1: _of((1, 0), (3, 40)), 2: _of((1, 0), (3, 60))})
    assert found == {1: ((1, 0), (3, 40)), 2: ((1, 0), (3, 60))}


def test_an_epoch_that_one_replica_lacks_is_found() -> None:
    assert unequal_epochs({1: _of((1, 0), (2, 30), (3, 40)), 2: _of((1, 0), (3, 40))})


def test_epochs_before_the_latest_log_start_are_not_compared() -> None:
    assert unequal_epochs({1: _of((1, 0), (2, 20), (3, 40)), 2: _of((2, 30), (3, 40), start=30)}) == {}
    assert unequal_epochs({1: _of((1, 0), (3, 40)), 2: _of((2, 30), (3, 40), start=30)})


def test_epochs_at_or_after_the_smallest_high_watermark_are_not_compared() -> None:
    assert unequal_epochs({1: _of((1, 0), (3, 40)), 2: _of((1, 0), high_watermark=40)}) == {}
    assert unequal_epochs({1: _of((1, 0), (3, 40)), 2: _of((1, 0), high_watermark=41)})


def test_replicas_without_committed_records_in_common_are_not_compared() -> None:
    assert unequal_epochs({1: _of((1, 0), high_watermark=10), 2: _of((2, 10), start=10)}) == {}
    assert unequal_epochs({}) == {}
