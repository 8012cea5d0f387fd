"""The settings of consumer groups, by Kafka's names: those of the cluster, and those of one group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class MigrationPolicy(Enum):
    """Which way a group with members may change its protocol (`group.consumer.migration.policy`)."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def may_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The settings of one group, or of all groups that have none of their own."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    regex_refresh_interval_ms: int = 600_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first one is for groups whose members prefer none."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


@dataclass(frozen=True, slots=True)
class ConsumerGroupsSettings:
    """The cluster's settings, and by group id those of groups that have their own."""

    cluster: ConsumerSettings = field(default_factory=ConsumerSettings)
    groups: Mapping[str, ConsumerSettings] = field(default_factory=dict)

    def of(self, group_id: str) -> ConsumerSettings:
        return self.groups.get(group_id, self.cluster)
