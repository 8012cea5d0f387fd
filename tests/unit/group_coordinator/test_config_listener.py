"""What the cluster's configs say of groups holds for the shards that are there, and for those that come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from ottla_core.cluster.image import Change, ClusterImage, ResourceConfigs
from ottla_core.configs.config_table import BROKER_CONFIGS
from ottla_core.configs.config_values import OF_GROUPS
from ottla_core.coordination.effects import ShardLimits
from ottla_core.coordination.phases import Phase
from ottla_core.coordination.shards import OwnedShardStatus
from ottla_core.errors import ErrorCode, OttlaError
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.config_listener import GroupConfigListener
from ottla_group_coordinator.machines.shard import GroupShard

CONFIG = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0, offsets_commit_timeout_ms=4_000)


class Shards:
    def __init__(self) -> None:
        self.states = [GroupShard(CONFIG.groups()) for _ in range(2)]
        self.limits = CONFIG.limits()

    def statuses(self) -> Sequence[OwnedShardStatus[GroupShard]]:
        return [OwnedShardStatus(n, Phase.SERVING, 1.0, 1, "", state) for n, state in enumerate(self.states)]

    def limit(self, limits: ShardLimits) -> None:
        self.limits = limits


class Process:
    def __init__(self) -> None:
        self.shards = Shards()
        shards: Any = self.shards
        self.config_listener = GroupConfigListener(CONFIG, shards)
        self.image = ClusterImage("c")

    def hear_of_group(self, name: str, values: Mapping[str, str] | None) -> None:
        configs = None if values is None else ResourceConfigs(values)
        old = self.image
        self.image = old.with_changes([Change(("configs", "group", name), configs)], old.revision + 1)
        self.config_listener.on_image(old, self.image)

    def hear(self, values: Mapping[str, str] | None, *, broker: str = "") -> None:
        configs = None if values is None else ResourceConfigs(values)
        old = self.image
        self.image = old.with_changes([Change(("configs", "broker", broker), configs)], old.revision + 1)
        self.config_listener.on_image(old, self.image)


def test_each_config_of_groups_is_a_setting_of_the_process_with_the_same_default() -> None:
    settings = {field.name: field for field in fields(GroupCoordinatorConfig)}
    for name in OF_GROUPS:
        field = settings[name.replace(".", "_")]
        key = BROKER_CONFIGS[name]
        assert field.default == key.value(key.default or "")
        assert key.enforced


@pytest.mark.story("configs-of-groups-without-effect")
def test_what_is_altered_holds_from_then_on_and_what_is_taken_back_does_not() -> None:
    process = Process()
    process.hear({"group.initial.rebalance.delay.ms": "250", "offsets.retention.minutes": "7"})
    for settings in (process.config_listener.settings, *(state.settings for state in process.shards.states)):
        assert (settings.initial_rebalance_delay_ms, settings.offsets_retention_ms) == (250, 420_000)
    process.hear({"producer.id.expiration.ms": "60000"})
    assert process.config_listener.settings.producer_expiration_s == 60
    process.hear({"group.min.session.timeout.ms": "3000", "num.partitions": "7"})
    assert process.config_listener.settings.initial_rebalance_delay_ms == 0  # as its process has it
    assert process.config_listener.settings.min_session_timeout_ms == 3_000
    assert (process.shards.limits.unproved_s, process.shards.limits.append_s) == (1.0, 4.0)
    process.hear({"offsets.commit.timeout.ms": "9000", "group.min.session.timeout.ms": "0"})
    assert (process.shards.limits.unproved_s, process.shards.limits.append_s) == (0.5, 9.0)
    process.hear(None)
    assert (process.config_listener.settings, process.shards.limits) == (CONFIG.groups(), CONFIG.limits())


def of_group(process: Process, name: str) -> tuple[int, int, int]:
    settings = process.shards.states[0].settings.consumer.of(name)
    return settings.session_timeout_ms, settings.heartbeat_interval_ms, settings.assignment_interval_ms


def test_a_group_may_have_configs_of_its_own_within_the_clusters_range(caplog: pytest.LogCaptureFixture) -> None:
    process = Process()
    process.hear_of_group("g", {"consumer.session.timeout.ms": "50000", "consumer.assignment.interval.ms": "0"})
    assert of_group(process, "g") == (50_000, 5_000, 0)
    assert of_group(process, "other") == (45_000, 5_000, 1_000)
    process.hear({"group.initial.rebalance.delay.ms": "250"})
    assert of_group(process, "g") == (50_000, 5_000, 0)
    assert not caplog.records
    process.hear_of_group("g", {"consumer.session.timeout.ms": "5", "consumer.heartbeat.interval.ms": "99000"})
    assert of_group(process, "g") == (45_000, 15_000, 1_000)
    assert "group g: consumer.session.timeout.ms=5 is not from 45000 to 60000, so 45000 counts" in caplog.text
    process.hear_of_group("g", None)
    assert of_group(process, "g") == (45_000, 5_000, 1_000)


@pytest.mark.parametrize(
    "settings",
    [
        {"group_consumer_assignors": "best"},
        {"group_consumer_assignors": " ,"},
        {"group_consumer_migration_policy": "x"},
    ],
)
def test_settings_of_consumer_groups_that_mean_nothing_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(OttlaError) as caught:
        replace(CONFIG, **settings).groups()  # type: ignore[arg-type]  # a test names the fields
    assert caught.value.code == ErrorCode.INVALID_CONFIG


def test_one_brokers_own_says_nothing_of_groups() -> None:
    process = Process()
    process.hear({"group.initial.rebalance.delay.ms": "250"}, broker="3")
    assert process.config_listener.settings == CONFIG.groups()


def test_configs_under_which_nobody_could_join_are_not_heeded(caplog: pytest.LogCaptureFixture) -> None:
    process = Process()
    process.hear({"group.min.session.timeout.ms": "20000", "group.max.session.timeout.ms": "10000"})
    assert process.config_listener.settings == CONFIG.groups()
    assert "no session timeout satisfies both" in caplog.text
    process.hear({"group.min.session.timeout.ms": "5000", "group.max.session.timeout.ms": "10000"})
    assert process.config_listener.settings.max_session_timeout_ms == 10_000
