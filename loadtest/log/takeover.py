"""A shard of `__consumer_offsets` with ten million commits of a hundred thousand keys, and who takes it over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from threading import Thread
from typing import Any, Final

import ottla
from loadtest.log.offline import append, now_ms, offline_log, partition_of
from ottla_broker.storage.log_config import LogConfig
from ottla_core.coordination.batches import seal_records
from ottla_core.coordination.shard import Entry
from ottla_core.model import TopicId, TopicPartition
from ottla_core.routing import shard_of
from ottla_group_coordinator.machines.records import CommittedOffset, OffsetKey, encode_key, encode_offset
from ottla_stack.running import RunningStack, wait_for

COMMITS: Final = 10_000_000
_GROUPS: Final = 100
_PARTITIONS: Final = 1_000
_A_BATCH: Final = 100
_TOPIC: Final = "__consumer_offsets"
_LEFT_BYTES: Final = 120 << 20
"""What is left of them once they are compacted, and the segment that is not yet full."""
_LIMIT_S: Final = 900.0


def takeover(directory: Path, *, commits: int = COMMITS, runs: int = 3) -> dict[str, Any]:
    """Seconds to compact them, and from the end of the shard's owner, in order, to the other's first response."""
    stack = RunningStack(directory, brokers=1, group_coordinators=2)
    with stack, ottla.Admin(stack.bootstrap) as admin:
        admin.topics.create("read", partitions=_PARTITIONS, replicas=1)
        admin.groups.commit("any", {TopicPartition("read", 0): 0})  # makes the topic of commits
        [topic] = admin.topics.describe(_TOPIC, internal=True)
        [read] = admin.topics.describe("read")
        segment_bytes = int(admin.configs.get(topic=_TOPIC)["segment.bytes"].value)
    partition, names = partition_of(topic), (f"group-{number}" for number in count())
    groups = list(islice((name for name in names if shard_of(name, len(topic.partitions)) == 0), _GROUPS))
    with offline_log(directory / "broker-0", partition, _TOPIC, LogConfig(segment_bytes=segment_bytes)) as log:
        for batch in _batches(groups, commits, partition_of(read).topic_id):
            if append(log, batch):
                log.flush(now_ms())
        before = sum(segment.size_bytes for segment in log.segments)
    with stack, ottla.Admin(stack.bootstrap) as admin:
        folder, began = directory / "broker-0" / str(partition), time.monotonic()
        wait_for(lambda: _size(folder) < _LEFT_BYTES, "the commits to be compacted", limit_s=_LIMIT_S)
        compacted_s = time.monotonic() - began
        taken = [_seconds(stack, admin, groups[0]) for _ in range(runs)]
    return {"commits": commits, "before_mb": before >> 20, "compacted_s": compacted_s, "takeover_s": taken}


def _batches(groups: list[str], commits: int, topic_id: TopicId) -> Iterator[bytes]:
    """Yield batches of groups that commit all their partitions, one group after the other."""
    keys = [encode_key(OffsetKey(g, TopicPartition("read", number))) for g in groups for number in range(_PARTITIONS)]
    for first in range(0, commits, _A_BATCH):
        value = encode_offset(CommittedOffset(first, 0, "", now_ms(), topic_id=topic_id))
        entries = [Entry(keys[number % len(keys)], value) for number in range(first, first + _A_BATCH)]
        yield seal_records(entries, now_ms())


def _size(folder: Path) -> int:
    with suppress(FileNotFoundError):
        return sum(path.stat().st_size for path in folder.glob("*.log"))
    return _LEFT_BYTES  # a segment went meanwhile


def _seconds(stack: RunningStack, admin: ottla.Admin, group: str) -> float:
    """Return the seconds that a takeover of shard 0 takes. Afterwards its old owner runs again."""
    owner = wait_for(lambda: _owner(admin), "shard 0 to be served")
    began = time.monotonic()
    stopping = Thread(target=stack.restart, args=(owner,))
    stopping.start()
    found = admin.groups.committed(group, timeout=_LIMIT_S)
    while _owner(admin) in (None, owner):
        found = admin.groups.committed(group, timeout=_LIMIT_S)
    taken = time.monotonic() - began
    assert len(found) == _PARTITIONS, f"{len(found)} offsets"
    stopping.join()
    return taken


def _owner(admin: ottla.Admin) -> str | None:
    shard = admin.groups.shards()[0]
    return f"group-coordinator-{shard.coordinator}" if shard.phase == "serving" else None
