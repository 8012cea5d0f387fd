"""Metrics of groups that a scrape reads: how far each is behind, its members, how many are in which state.

A scrape wakes a look at the groups, which calls the partitions' leaders in the background, at most every LOOK_S, and
only while there are scrapes. It takes what the last look has found, and waits for the present one only if that is older
than STALE_S. So each scrape has numbers, however long ago the previous one was. The age of an unread record continues
to grow between looks.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ottla_core.clock import Clock
from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.shards import Shards
from ottla_core.errors import OttlaError
from ottla_core.event_loop.tasks import end_task
from ottla_core.model import TopicPartition
from ottla_core.telemetry import Metrics, Table
from ottla_group_coordinator.consumer_messages import CONSUMER
from ottla_group_coordinator.lag import NOTHING_COMMITTED, Lag, Lags
from ottla_group_coordinator.machines.consumer.states import ConsumerGroupState
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_group_coordinator.machines.states import GroupState
from ottla_group_coordinator.responses import CLASSIC, type_of

LOOK_S: Final = 15.0
STALE_S: Final = 60.0
"""Numbers that are older than this are not shown: there was no scrape for a while."""

_WAIT_S: Final = 2.0
"""How long a scrape waits for the first look after a while."""

_ASK_S: Final = 5.0

_log = logging.getLogger(__name__)

Rows = dict[tuple[str, ...], float]


class LagSource(Protocol):
    """Returns the ends of partitions (ottla_group_coordinator.lag)."""

    async def lags(self, committed: Mapping[TopicPartition, int]) -> Lags: ...


@dataclass(frozen=True, slots=True)
class _Seen:
    """One look at the groups. `at` is monotonic."""

    at: float = -STALE_S
    members: Rows = field(default_factory=dict)
    states: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How many groups there are of each type and state."""
    lags: Mapping[tuple[str, TopicPartition], Lag] = field(default_factory=dict)
    left_out: int = 0


class ScrapedGroupMetrics:
    """A component. At most `most_partitions` of all groups are looked at, in the order of their names."""

    def __init__(
        self, shards: Shards[GroupShard], leaders: LagSource, metrics: Metrics, clock: Clock, *, most_partitions: int
    ) -> None:
        self._shards: Final = shards
        self._leaders: Final = leaders
        self._clock: Final = clock
        self._most: Final = most_partitions
        self._seen = _Seen()
        self._scraped = asyncio.Event()
        self._looked: Final = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._looking: asyncio.Task[None] | None = None
        labels = ("group", "topic", "partition")
        for name, table in {
            "ottla_groups": Table("Groups of each type in each state.", ("state", "type"), self._states),
            "ottla_group_members": Table("Members in each group.", ("group",), lambda: self._fresh().members),
            "ottla_group_lag_records": Table(
                "Offsets between the committed offset and the end of the partition.", labels, self._records
            ),
            "ottla_group_lag_seconds": Table("Age of the oldest unread record.", labels, self._seconds),
        }.items():
            metrics.table(name, table)
        metrics.gauge(
            "ottla_group_lag_left_out",
            "Partitions without a lag series because of metrics_max_partitions.",
            self._left_out,
        )
        metrics.gauge(
            "ottla_group_records_unreadable",
            "Records in the shards' logs that this release can't read.",
            self._unreadable,
        )

    async def start(self) -> None:
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._looking = asyncio.create_task(self._look_when_scraped(), name="group-gauges")

    async def stop(self) -> None:
        self._loop = None
        await end_task(self._looking)

    # ---- on the thread of a scrape ----------------------------------------------------------------------------------

    def _fresh(self) -> _Seen:
        seen = self._seen
        return _Seen() if self._is_stale(seen) else seen

    def _is_stale(self, seen: _Seen) -> bool:
        return self._clock.monotonic() - seen.at >= STALE_S

    def _states(self) -> Rows:
        """Return the number of groups in each state. A scrape reads this first, so it wakes the look."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            self._looked.clear()
            loop.call_soon_threadsafe(self._scraped.set)
            if self._is_stale(self._seen) and threading.get_ident() != self._loop_thread:
                self._looked.wait(_WAIT_S)
        states = self._fresh().states
        if not states:
            return {}
        kinds = ((CLASSIC, GroupState), (CONSUMER, ConsumerGroupState))
        known = ((state.value, kind) for kind, values in kinds for state in values)
        return {each: states.get(each, 0) for each in known}

    def _left_out(self) -> float:
        return self._fresh().left_out

    def _unreadable(self) -> float:
        return sum(status.state.unreadable for status in self._shards.statuses())

    def _records(self) -> Rows:
        return {_labels(key): lag.records for key, lag in self._fresh().lags.items()}

    def _seconds(self) -> Rows:
        now_ms = self._clock.wall_ms()
        return {_labels(key): _age_s(lag, now_ms) for key, lag in self._fresh().lags.items()}

    # ---- on the loop ------------------------------------------------------------------------------------------------

    async def _look_when_scraped(self) -> None:
        while True:
            await self._scraped.wait()
            self._scraped.clear()
            try:
                self._seen = await self._look()
            except Exception:
                _log.exception("reading the groups' gauges failed")
            self._looked.set()
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> _Seen:
        groups = await self._groups()
        lags: dict[tuple[str, TopicPartition], Lag] = {}
        left, left_out = self._most, 0
        for name, _, _, _, committed in groups:
            counted = dict(sorted(committed.items())[:left])
            left -= len(counted)
            left_out += len(committed) - len(counted)
            if counted:
                found = await self._leaders.lags(counted)
                lags |= {(name, p): lag for p, lag in found.items() if lag.records != NOTHING_COMMITTED}
        return _Seen(
            self._clock.monotonic(),
            {(name,): members for name, _, _, members, _ in groups[: self._most]},
            Counter((state, kind) for _, kind, state, _, _ in groups),
            lags,
            left_out,
        )

    async def _groups(self) -> list[tuple[str, str, str, int, dict[TopicPartition, int]]]:
        """Return name, type, state, number of members and offsets of each group. A shard that does not respond now has
        none."""
        groups: list[Any] = []
        for number in self._shards.owned():
            try:
                groups += await self._shards.ask_shard(
                    number,
                    lambda shard, now: ShardDecision(_groups_of(shard)),
                    timeout=_ASK_S,
                    without_confirmation=True,
                )
            except OttlaError as error:
                _log.debug("the gauges don't include shard %d: %s", number, error)
        return sorted(groups, key=lambda group: group[0])


def _groups_of(shard: GroupShard) -> list[Any]:
    def committed(group_id: str) -> dict[TopicPartition, int]:
        return {partition: found.offset for partition, found in shard.offsets(group_id).items()}

    return [(g.group_id, type_of(g), g.state.value, len(g.members), committed(g.group_id)) for g in shard.groups()]


def _labels(key: tuple[str, TopicPartition]) -> tuple[str, ...]:
    group, partition = key
    return group, partition.topic, str(partition.partition)


def _age_s(lag: Lag, now_ms: int) -> float:
    return 0.0 if lag.oldest_unread_ms is None else max(0, now_ms - lag.oldest_unread_ms) / 1000
