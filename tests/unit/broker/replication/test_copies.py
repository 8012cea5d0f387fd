"""Followers that copy a log whose beginning was deleted, or that was compacted before they came."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from batches import NOON, sealed
from compacted_brokers import ALL, COMPACTED, catch_up, compact, put
from logs import fill
from replicas import Brokers

from ottla_core.records.leader_epochs import ReplicaEpochs, unequal_epochs

ALONE = replace(ALL, replicas=(1, 2), isr=(1,))


def epochs_of(brokers: Brokers, *ids: int) -> dict[int, ReplicaEpochs]:
    found = [brokers.replicas[each] for each in ids]
    return {
        each: ReplicaEpochs(r.log.epochs.entries, r.log.log_start_offset, r.offsets.high_watermark)
        for each, r in zip(ids, found, strict=True)
    }


@pytest.mark.story("start-within-a-batch-was-never-copied")
@pytest.mark.parametrize("has_records", [False, True])
async def test_a_follower_joins_though_its_leader_starts_within_a_batch(tmp_path: Path, *, has_records: bool) -> None:
    brokers = Brokers(tmp_path, ids=(1, 2))
    brokers.apply(ALONE)
    if has_records:
        fill(brokers.replicas[2].log, 1, records=3)
    for _ in range(3):
        brokers.leading(1).append(sealed([(n, NOON, None, b"v", []) for n in range(10)]))
    brokers.leading(1).delete_records(5)
    await catch_up(brokers, 2, 1)
    log, leader = brokers.replicas[2].log, brokers.replicas[1].log
    assert log.log_start_offset == 5
    assert log.read(5, 1 << 20, 30) == leader.read(5, 1 << 20, 30)
    proposal = brokers.leading(1).proposal
    assert proposal is not None
    assert proposal.isr == (1, 2)


async def test_a_follower_with_records_of_its_own_before_its_leaders_start_begins_anew(tmp_path: Path) -> None:
    """It ends in the middle of a batch of its leader, whose epochs say nothing of what lies before its start."""
    brokers = Brokers(tmp_path, ids=(1, 2))
    fill(brokers.replicas[2].log, 2, records=4, leader_epoch=1)
    fill(brokers.replicas[1].log, 1, records=5, leader_epoch=1)
    brokers.apply(replace(ALONE, leader_epoch=2))
    brokers.leading(1).append(sealed([(n, NOON, None, b"v", []) for n in range(10)]))
    brokers.leading(1).delete_records(8)
    await catch_up(brokers, 2, 1)
    log, leader = brokers.replicas[2].log, brokers.replicas[1].log
    assert log.log_start_offset == 8
    assert log.read(8, 1 << 20, 15) == leader.read(8, 1 << 20, 15)


@pytest.mark.story("epochs-of-a-copy-began-later")
@pytest.mark.parametrize("is_new", [True, False])
async def test_a_copy_of_a_compacted_log_knows_where_a_former_leader_has_parted(
    tmp_path: Path, *, is_new: bool
) -> None:
    brokers = Brokers(tmp_path, config=COMPACTED)
    brokers.apply(ALL)
    put(brokers, 1, b"balance", b"committed", b"committed")
    for follower in (2, 3):
        await catch_up(brokers, follower, 1)
    put(brokers, 1, b"balance", *[b"never committed"] * 5)

    # Broker 1 is gone. Broker 2 leads, and compacts what it has written at the beginning of its epoch.
    second = replace(ALL, leader=2, leader_epoch=2, isr=(2,), partition_epoch=2)
    brokers.apply(second, 2, 3)
    put(brokers, 2, b"hot", *[b"x" * 40] * 30)
    compact(brokers, 2)
    if is_new:
        brokers.replicas[3].log.truncate_fully_and_start_at(0)
    await catch_up(brokers, 3, 2)
    assert brokers.replicas[3].log.epochs.entries == ((1, 0), (2, 2))
    assert not unequal_epochs(epochs_of(brokers, 2, 3))

    # Broker 3 leads, and broker 1 comes back.
    brokers.apply(replace(second, leader=3, leader_epoch=3, isr=(3, 2), partition_epoch=3))
    await catch_up(brokers, 1, 3)
    assert b"never committed" not in brokers.replicas[1].log.read(0, 1 << 20, 7)


async def test_an_epoch_of_which_compaction_has_left_nothing_is_copied(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, config=COMPACTED)
    brokers.apply(replace(ALL, isr=(1,)))
    put(brokers, 1, b"hot", *[b"x" * 40] * 5)
    for epoch in (2, 3, 4):
        brokers.apply(replace(ALL, isr=(1,), leader_epoch=epoch, partition_epoch=epoch))
        put(brokers, 1, b"hot", *[b"x" * 40] * (20 if epoch == 4 else 2))
    compact(brokers, 1)
    await catch_up(brokers, 2, 1)
    log = brokers.replicas[2].log
    assert log.epochs.entries == brokers.replicas[1].log.epochs.entries == ((1, 0), (2, 5), (3, 7), (4, 9))
    shown = {header.leader_epoch for segment in log.segments for _, header in segment.headers_from(0)}
    assert 3 not in shown
