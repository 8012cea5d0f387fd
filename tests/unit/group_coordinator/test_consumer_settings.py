"""The settings of a consumer group: its own override those of the cluster, which override those of the process."""

from __future__ import annotations

import pytest

from ottla_core.configs.config_table import BROKER_CONFIGS
from ottla_core.errors import ErrorCode, OttlaError
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.machines.consumer.assignors import ASSIGNORS
from ottla_group_coordinator.machines.consumer.settings import ConsumerSettings, MigrationPolicy

SHORT = GroupCoordinatorConfig(group_consumer_min_session_timeout_ms=1_000, group_consumer_session_timeout_ms=6_000)


def test_the_defaults_of_the_process_are_those_of_the_settings() -> None:
    assert GroupCoordinatorConfig().groups().consumer.cluster == ConsumerSettings()


def test_the_cluster_overrides_the_process() -> None:
    altered = {
        "group.consumer.session.timeout.ms": "7000",
        "group.consumer.assignors": "range",
        "group.consumer.migration.policy": "upgrade",
        "group.consumer.max.size": "3",
        "group.consumer.regex.refresh.interval.ms": "30000",
    }
    settings = SHORT.with_cluster(altered).groups().consumer.cluster
    assert (settings.session_timeout_ms, settings.max_size) == (7_000, 3)
    assert (settings.assignors, settings.migration_policy) == (("range",), MigrationPolicy.UPGRADE)
    assert settings.regex_refresh_interval_ms == 30_000


def test_a_group_overrides_the_cluster_within_its_bounds() -> None:
    own = {"consumer.session.timeout.ms": "8000", "consumer.assignment.interval.ms": "20000"}
    settings, said = SHORT.consumer_group(own)
    assert (settings.session_timeout_ms, settings.assignment_interval_ms) == (8_000, 15_000)
    assert settings.heartbeat_interval_ms == 5_000
    assert said == ["consumer.assignment.interval.ms=20000 is outside the cluster's bounds; 15000 holds instead"]


def test_the_config_allows_exactly_the_assignors_that_exist() -> None:
    assert set(BROKER_CONFIGS["group.consumer.assignors"].choices) == set(ASSIGNORS)


@pytest.mark.parametrize(
    "config",
    [
        GroupCoordinatorConfig(group_consumer_session_timeout_ms=6_000),
        GroupCoordinatorConfig(group_consumer_assignors=("sticky",)),
        GroupCoordinatorConfig(group_consumer_assignors=()),
        GroupCoordinatorConfig(group_consumer_migration_policy="both"),
        GroupCoordinatorConfig(group_consumer_regex_refresh_interval_ms=9_999),
    ],
    ids=["below the bound", "unknown assignor", "no assignor", "unknown policy", "too frequent"],
)
def test_invalid_settings_are_refused(config: GroupCoordinatorConfig) -> None:
    with pytest.raises(OttlaError) as refused:
        config.groups()
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_a_migration_policy_allows_upgrades_and_downgrades_by_its_name() -> None:
    ways = {policy.value: (policy.may_upgrade, policy.may_downgrade) for policy in MigrationPolicy}
    assert ways == {
        "disabled": (False, False),
        "downgrade": (False, True),
        "upgrade": (True, False),
        "bidirectional": (True, True),
    }
