"""The cluster of migrations: its services run with a mutant of the consumer protocol, or with none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.faults.groups.client import SHARDS
from tests.faults.groups.cluster import GroupCluster

SESSION_S: Final = 10.0
HEARTBEAT_S: Final = 0.5
CONFIGS: Final[Mapping[str, object]] = {
    "group.consumer.min.session.timeout.ms": int(SESSION_S * 1000),
    "group.consumer.session.timeout.ms": int(SESSION_S * 1000),
    "group.consumer.min.heartbeat.interval.ms": int(HEARTBEAT_S * 1000),
    "group.consumer.heartbeat.interval.ms": int(HEARTBEAT_S * 1000),
}
"""The cluster's configs. Sessions are short, so that a killed member is evicted soon."""


class MigrationCluster(GroupCluster):
    """`mutant` names one of tests.faults.migrations.mutants."""

    def module(self, kind: str) -> list[str]:
        return ["tests.faults.migrations.launch", self._launched, kind]

    def settings(self, kind: str) -> Mapping[str, object]:
        match kind:
            case "controller":
                return {"first-configs": f"offsets.topic.num.partitions={SHARDS}"}
            case "coordinator":
                return {"group-initial-rebalance-delay-ms": 500, "group-min-session-timeout-ms": int(SESSION_S * 1000)}
            case _:
                return {}
