"""What holds for one consumer group: the cluster's values, or the group's own within the cluster's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from ottla_core.configs import consumer_groups
from ottla_core.configs.consumer_groups import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT


class MigrationPolicy(Enum):
    """Which protocols a group with members may change to, by group.consumer.migration.policy."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """It tells whether a classic group may become a consumer group."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """It tells whether a consumer group may become a classic group."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings:
    """The settings of one consumer group. `assignors` are those that its members may choose, the default one first.
    A regular expression is resolved again when its matches are `regex_refresh_ms` old."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class ConsumerGroupDefaults:
    """The settings of groups without configs of their own, and the cluster's values by which a group's own are bounded.

    `cluster` has the values by Kafka's names. Without it, no group may have configs of its own.
    """

    settings: ConsumerGroupSettings = ConsumerGroupSettings()
    cluster: Mapping[str, int] = field(default_factory=dict)

    def of_group(self, own: Mapping[str, str]) -> ConsumerGroupSettings:
        """Return the settings of a group whose own configs are `own`, as the cluster's image has them."""
        if not own or not self.cluster:
            return self.settings
        cluster = self.cluster.__getitem__
        return replace(
            self.settings,
            session_timeout_ms=consumer_groups.effective(SESSION_TIMEOUT, own, cluster),
            heartbeat_interval_ms=consumer_groups.effective(HEARTBEAT_INTERVAL, own, cluster),
            assignment_interval_ms=consumer_groups.effective(ASSIGNMENT_INTERVAL, own, cluster),
        )

    def capped(self, own: Mapping[str, str]) -> list[str]:
        """Return a sentence for the log about each value of a group that the cluster does not allow any longer."""
        return consumer_groups.capped(own, self.cluster.__getitem__) if self.cluster else []
