"""Consumers of a table read all of it, perhaps from a replica in their own rack (KIP-392), and look records up by time.

Like Java's consumer, a consumer that was referred to another replica goes back to the leader if that replica does not
have its offset. It must not be sent there again and again: then it would stand still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from tests.world.batches import named_records
from tests.world.client import RawClient
from tests.world.cluster import Cluster
from tests.world.findings import Findings

from ottla_core.errors import ErrorCode

Records: TypeAlias = "dict[int, tuple[bytes, bytes]]"
"""Keys and names by their offsets (module batches)."""

_STANDS_STILL_S: Final = 5.0
"""A leader knows within this time where its follower's log begins: the follower says so twice a second."""
_GIVES_UP_S: Final = 8.0
_PAUSE_S: Final = 0.05


class Reading(NamedTuple):
    """The records that a consumer has read, from the log's `start` to `end`, the high watermark when it began."""

    records: Records
    start: int
    end: int


class Reader:
    """This reads partition 0 of a topic as a consumer does."""

    def __init__(self, cluster: Cluster, findings: Findings, topic: str) -> None:
        self._cluster: Final = cluster
        self._findings: Final = findings
        self._topic: Final = topic

    async def read_all(self, raw: RawClient, rack: str = "") -> Reading | None:
        """Read from the start to the present high watermark, in this rack. Return None if that can't be done now."""
        world, topic_id = self._cluster.world, self._cluster.metadata.topics.get(self._topic, b"")
        leader = at = self._cluster.metadata.leader(self._topic)
        found: Records = {}
        offset, start, end, moved_at = 0, 0, -1, world.now
        try:
            while True:
                fetched = await raw.fetch(f"broker-{at}", self._topic, topic_id, offset, rack=rack)
                is_out_of_range = fetched.code == ErrorCode.OFFSET_OUT_OF_RANGE
                stood_s, is_referred = world.now - moved_at, fetched.preferred >= 0
                if is_out_of_range and at == leader and offset < fetched.log_start_offset:
                    offset = start = fetched.log_start_offset
                    moved_at = world.now
                    continue
                if fetched.code != ErrorCode.NONE and not (is_out_of_range and at != leader):
                    self._findings.counts[f"not read: {ErrorCode(fetched.code).name}"] += 1
                    return None
                end = fetched.high_watermark if end < 0 else end
                if is_referred or is_out_of_range:
                    self._findings.counts["referred"] += is_referred
                    at = fetched.preferred if is_referred else leader
                    if stood_s > _STANDS_STILL_S:
                        self._findings.violate(
                            f"a consumer in {rack} stands still at offset {offset}: broker {leader} refers it to a "
                            "replica that does not have this offset"
                        )
                        return None
                    await asyncio.sleep(_PAUSE_S if is_out_of_range else 0)
                    continue
                records = named_records(fetched.records)
                found.update((each, (key, value)) for each, key, value in records if each >= offset)
                following = fetched.next_offset(offset)
                # There may be no records before the high watermark: a clean has removed those that newer records
                # superseded, and an election has lost the newer ones.
                if following >= end or (following == offset and at == leader):
                    return Reading(found, start, end)
                if following > offset:
                    moved_at = world.now
                elif stood_s > _GIVES_UP_S:
                    return None
                offset = following
        except OSError:
            return None

    async def look_up(self, raw: RawClient, reading: Reading, time_of: Callable[[bytes], int], time_ms: int) -> str:
        """Look a time up at the leader. Return how the answer differs from what was read, or an empty text.

        `time_of` has the time of each record. Something may have been deleted or cleaned since the reading.
        """
        records = reading.records.items()
        times = [(offset, time_of(name)) for offset, (_, name) in records if offset >= reading.start]
        first = min((offset for offset, time in times if time >= time_ms), default=-1)
        try:
            leader = self._cluster.metadata.leader(self._topic)
            answer = await raw.find_time(f"broker-{leader}", self._topic, time_ms)
        except OSError:
            return "no record can be looked up"
        self._findings.counts["looked up"] += 1
        if answer.code != ErrorCode.NONE or answer.offset != first:
            return f"the first record at or after {time_ms} is at {first}, and a look-up says {answer}"
        return ""
