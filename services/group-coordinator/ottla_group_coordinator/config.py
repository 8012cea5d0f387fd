"""The settings of a group-coordinator process: where it listens, where etcd is, and how groups behave.

In the environment they are spelled OTTLA_GROUP_COORDINATOR__<KEY>. The settings of groups are Kafka's, with `_` for
`.`. The cluster's configs (`ottla config set`) override them, and hold from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from ottla_core.configs.config_table import BROKER_CONFIGS
from ottla_core.configs.config_values import OF_GROUPS
from ottla_core.configs.consumer_groups import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    capped,
    check_cluster,
    effective,
)
from ottla_core.coordination.effects import ShardLimits
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.files.secret_file import NO_FILE
from ottla_group_coordinator.machines.consumer.settings import (
    ConsumerGroupsSettings,
    ConsumerSettings,
    MigrationPolicy,
)
from ottla_group_coordinator.machines.membership import GroupSettings

_MINUTE_MS = 60_000
_OF_PRODUCERS = "producer.id.expiration.ms"
"""Brokers use it, too, and each may have a value of its own. For groups, the cluster's value counts."""
_REGEX_REFRESH = "group.consumer.regex.refresh.interval.ms"
_LEAST_PROOF_S = 0.5
"""Below this value every heartbeat would need a confirmation of its own, whatever is configured."""


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    node_id: int = 0
    cluster_id: str = "ottla"
    host: str = "127.0.0.1"
    port: int = 9660  # 0 picks a free one
    admin_host: str = "127.0.0.1"
    admin_port: int = 9760
    admin_token_file: PurePath = NO_FILE
    insecure: bool = False
    advertised_host: str = ""  # where clients connect, or `host` if this is empty
    etcd: tuple[str, ...] = ("127.0.0.1:9600",)
    etcd_tls_ca: PurePath = NO_FILE
    etcd_tls_certificate: PurePath = NO_FILE
    etcd_tls_key: PurePath = NO_FILE
    etcd_user: str = ""
    etcd_password_file: PurePath = NO_FILE
    lease_ttl_s: int = 6
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000  # Kafka clients' commits go through a broker and wait at most 10 s.
    producer_id_expiration_ms: int = 86_400_000
    metrics_max_partitions: int = 1_000  # maximum number of partitions whose lag /metrics shows; each has two series
    internal_tls_certificate: PurePath = NO_FILE  # PEM file with this service's certificate for gRPC
    internal_tls_key: PurePath = NO_FILE  # PEM file with the certificate's private key
    internal_tls_ca: PurePath = NO_FILE  # PEM file with the authorities whose certificates other services must have
    log_level: str = "INFO"

    def with_cluster(self, configs: Mapping[str, str]) -> GroupCoordinatorConfig:
        """Return these settings, overridden by the cluster's configs: canonical texts, by Kafka's names."""
        altered: dict[str, Any] = {
            _setting(name): BROKER_CONFIGS[name].value(configs[name])
            for name in (*OF_GROUPS, _OF_PRODUCERS)
            if name in configs
        }
        return replace(self, **altered)

    def limits(self) -> ShardLimits:
        """Return the limits for the owners of shards."""
        shortest_ms = min(self.group_min_session_timeout_ms, self.group_consumer_min_session_timeout_ms)
        proof_s = max(_LEAST_PROOF_S, shortest_ms / 3000)
        return ShardLimits(append_s=self.offsets_commit_timeout_ms / 1000, unproved_s=proof_s)

    def groups(self) -> GroupSettings:
        """Return the settings of groups. Raises INVALID_CONFIG for settings that exclude each other."""
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"group_min_session_timeout_ms={self.group_min_session_timeout_ms} is above "
                f"group_max_session_timeout_ms={self.group_max_session_timeout_ms}",
                hint="lower the first, or raise the second: no session timeout satisfies both",
            )
        return GroupSettings(
            consumer=ConsumerGroupsSettings(self._consumer_groups()),
            min_session_timeout_ms=self.group_min_session_timeout_ms,
            max_session_timeout_ms=self.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=max(0, self.group_initial_rebalance_delay_ms),
            max_size=self.group_max_size,
            offset_metadata_max_bytes=self.offset_metadata_max_bytes,
            offsets_retention_ms=self.offsets_retention_minutes * _MINUTE_MS,
            retention_check_s=self.offsets_retention_check_interval_ms / 1000,
            producer_expiration_s=self.producer_id_expiration_ms / 1000,
        )

    def consumer_group(self, own: Mapping[str, str]) -> tuple[ConsumerSettings, list[str]]:
        """Return the settings of a group that has these configs, and a sentence about each of them that is beyond the
        bounds. The nearest value within them holds instead, as in Kafka."""
        cluster = self._integers().__getitem__
        settings = replace(
            self._consumer_groups(),
            session_timeout_ms=effective(SESSION_TIMEOUT, own, cluster),
            heartbeat_interval_ms=effective(HEARTBEAT_INTERVAL, own, cluster),
            assignment_interval_ms=effective(ASSIGNMENT_INTERVAL, own, cluster),
        )
        return settings, capped(own, cluster)

    def _consumer_groups(self) -> ConsumerSettings:
        check_cluster(self._integers().__getitem__)
        policy = self.group_consumer_migration_policy.lower()
        BROKER_CONFIGS["group.consumer.assignors"].parse(",".join(self.group_consumer_assignors))
        BROKER_CONFIGS["group.consumer.migration.policy"].parse(policy)
        BROKER_CONFIGS[_REGEX_REFRESH].parse(str(self.group_consumer_regex_refresh_interval_ms))
        return ConsumerSettings(
            session_timeout_ms=self.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=self.group_consumer_heartbeat_interval_ms,
            assignment_interval_ms=self.group_consumer_assignment_interval_ms,
            regex_refresh_interval_ms=self.group_consumer_regex_refresh_interval_ms,
            max_size=self.group_consumer_max_size,
            assignors=self.group_consumer_assignors,
            migration_policy=MigrationPolicy(policy),
        )

    def _integers(self) -> dict[str, int]:
        """Return the values of all configs of groups that are numbers, by Kafka's names."""
        return {name: value for name in OF_GROUPS if isinstance(value := getattr(self, _setting(name)), int)}


def _setting(name: str) -> str:
    """Return the name of the setting of a config."""
    return name.replace(".", "_")
