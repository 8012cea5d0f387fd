"""A coordinator's running counts of groups: commits, and rebalances by cause."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from ottla_core.telemetry import Metrics
from ottla_group_coordinator.machines.history import Happened, HistoryEvent, Kind
from ottla_group_coordinator.machines.shard import Loaded

_log = logging.getLogger(__name__)


class RebalanceCause(Enum):
    """The cause of a rebalance. PARTITIONS: the leader reports that its topics have changed (KIP-800)."""

    JOINED = "joined"
    LEFT = "left"
    EVICTED = "evicted"
    REPLACED = "replaced"
    PARTITIONS = "partitions"
    REQUESTED = "asked"


_OF_A_MEMBER: Final = {
    kind: RebalanceCause(kind.value) for kind in (Kind.JOINED, Kind.LEFT, Kind.EVICTED, Kind.REPLACED)
}

_NEW_PARTITIONS: Final = re.compile(r"new partitions|metadata has changed|has \d+ partitions?")
"""These are in the reasons of ottla's SDK and of Kafka's own client."""


class GroupMetrics:
    """`on_effect` is for the runtime, `commit` for the service."""

    def __init__(self, metrics: Metrics) -> None:
        self._commits: Final = metrics.counter("ottla_group_commits_total", "Offset commits accepted.")
        self._offsets: Final = metrics.counter("ottla_group_offsets_committed_total", "Offsets in accepted commits.")
        self._evicted: Final = metrics.counter(
            "ottla_group_evictions_total", "Members removed from their group by the coordinator."
        )
        self._moved: Final = metrics.counter(
            "ottla_group_partitions_moved_total", "Partitions moved to another member by rebalances."
        )
        self._seconds: Final = metrics.histogram(
            "ottla_group_rebalance_seconds",
            "Time to the new assignment: of a classic group since its cause, of a consumer group until all have it.",
        )
        self._rebalances: Final = {
            cause: metrics.counter("ottla_group_rebalances_total", "Rebalances, by cause.", cause=cause.value)
            for cause in RebalanceCause
        }

    def commit(self, offsets: int) -> None:
        """Count an accepted commit of this many offsets."""
        self._commits.value += 1
        self._offsets.value += offsets

    def on_effect(self, shard: int, epoch: int, effect: Any) -> None:
        if isinstance(effect, Loaded) and effect.unreadable:
            _log.warning("records in shard %d that this release keeps but can't read: %d", shard, effect.unreadable)
        if isinstance(effect, Happened):
            for n, event in enumerate(effect.events):
                self._count(event, effect.events[:n])

    def _count(self, event: HistoryEvent, before: Sequence[HistoryEvent]) -> None:
        match event.kind:
            case Kind.REBALANCE_BEGAN:
                self._rebalances[cause_of(event, before)].value += 1
            case Kind.ASSIGNED | Kind.TARGET | Kind.SETTLED:
                if event.kind is not Kind.TARGET:
                    self._seconds.observe(event.duration_ms / 1000)
                self._moved.value += event.moved
            case Kind.EVICTED:
                self._evicted.value += 1


def cause_of(began: HistoryEvent, before: Sequence[HistoryEvent]) -> RebalanceCause:
    """Return the cause of a rebalance: the event of a member in the same decision, or else the reason that a member
    gave with its request."""
    for event in reversed(before):
        if event.kind in _OF_A_MEMBER:
            return _OF_A_MEMBER[event.kind]
    return RebalanceCause.PARTITIONS if _NEW_PARTITIONS.search(began.cause) else RebalanceCause.REQUESTED
