"""Replicas of a compacted partition without a network (`replicas`), which tests fill, compact and let catch up."""

from __future__ import annotations

from dataclasses import replace

from batches import NOON, sealed
from logs import SMALL
from replicas import Brokers

from ottla_broker.compaction.candidate import Candidate
from ottla_broker.compaction.cleaning import clean
from ottla_broker.compaction.job import CleanedGroup
from ottla_broker.compaction.settings import CleanerSettings
from ottla_core.cluster.image import Partition
from ottla_core.records.reader import read_records

ALL = Partition(replicas=(1, 2, 3), leader=1, leader_epoch=1, isr=(1, 2, 3), partition_epoch=1)
COMPACTED = replace(SMALL, compacts=True, deletes=False, segment_bytes=400, delete_retention_ms=0)


async def catch_up(brokers: Brokers, follower: int, leader: int) -> None:
    """Fetch until nothing is new, and once more, which tells the leader so."""
    for _ in range(9):
        await brokers.fetch(follower, leader)
    assert brokers.replicas[follower].log.log_end_offset == brokers.replicas[leader].log.log_end_offset


def put(brokers: Brokers, leader: int, key: bytes, *values: bytes | None) -> None:
    """Append a batch for each value."""
    for value in values:
        brokers.leading(leader).append(sealed([(0, NOON, key, value, [])]))


def compact(brokers: Brokers, broker: int, *, at_ms: int = NOON) -> None:
    """Clean all but the active segment."""
    replica = brokers.replicas[broker]
    replica.log.secure_sealed()
    replica.log.compaction.first_dirty_offset = 0
    candidate = Candidate.of(replica.log, replica.offsets.last_stable_offset, at_ms)
    candidate.hold()

    def take(group: CleanedGroup) -> None:
        with replica.purging(group.purged_before):
            candidate.swap(group)
        candidate.on_passed(group)

    clean(candidate.job(CleanerSettings(map_bytes=1 << 20), at_ms, replica.purge_limit), take)
    candidate.release()


def values_of(brokers: Brokers, broker: int, key: bytes) -> list[bytes | None]:
    """The values of a key in a broker's log, oldest first."""
    segments = brokers.replicas[broker].log.segments
    batches = [(s.file(), at, header) for s in segments for at, header in s.headers_from(0) if not header.is_control]
    found = [record for file, at, header in batches for record in read_records(file.read(at, header.size_bytes))]
    return [value for _, _, of, value, *_ in found if of == key]
