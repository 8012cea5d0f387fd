"""The settings of a group-coordinator process: where it listens, where etcd is, and how groups behave.

In the environment they are spelled OTTLA_GROUP_COORDINATOR__<KEY>. The settings of groups are Kafka's, with `_` for
`.`. The cluster's configs (`ottla config set`) override them, and hold from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from ottla_core.configs.config_values import OF_GROUPS
from ottla_core.coordination.effects import ShardLimits
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.files.secret_file import NO_FILE
from ottla_group_coordinator.machines.consumer.assignors import ASSIGNORS
from ottla_group_coordinator.machines.consumer.settings import (
    ConsumerGroupsSettings,
    ConsumerSettings,
    MigrationPolicy,
)
from ottla_group_coordinator.machines.membership import GroupSettings

_MINUTE_MS = 60_000
_OF_PRODUCERS = "producer.id.expiration.ms"
"""Brokers use it, too, and each may have a value of its own. For groups, the cluster's value counts."""
_OF_ONE_GROUP = ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms")
"""Settings that a group may have for itself, by Kafka's names with `consumer.` before them."""
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
    group_consumer_session_timeout_ms: int = 45_000  # time without heartbeats after which a member is gone
    group_consumer_min_session_timeout_ms: int = 45_000  # least value of a group's own consumer.session.timeout.ms
    group_consumer_max_session_timeout_ms: int = 60_000  # largest value of a group's own consumer.session.timeout.ms
    group_consumer_heartbeat_interval_ms: int = 5_000  # pause between two heartbeats of a member
    group_consumer_min_heartbeat_interval_ms: int = 5_000  # least value of a group's own consumer.heartbeat.interval.ms
    group_consumer_max_heartbeat_interval_ms: int = 15_000  # largest value of consumer.heartbeat.interval.ms
    group_consumer_assignment_interval_ms: int = 1_000  # least time between two assignments of a group
    group_consumer_min_assignment_interval_ms: int = 0  # least value of a group's own consumer.assignment.interval.ms
    group_consumer_max_assignment_interval_ms: int = 15_000  # largest value of consumer.assignment.interval.ms
    group_consumer_max_size: int = 2**31 - 1  # largest number of members of a group of the consumer protocol
    group_consumer_assignors: str = "uniform,range"  # assignors that members may choose; the first is the default
    group_consumer_migration_policy: str = "bidirectional"  # disabled, downgrade, upgrade or bidirectional
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
        named = {name.replace(".", "_"): configs[name] for name in (*OF_GROUPS, _OF_PRODUCERS) if name in configs}
        altered: dict[str, Any] = {name: type(getattr(self, name))(text) for name, text in named.items()}
        return replace(self, **altered)

    def limits(self) -> ShardLimits:
        """Return the limits for the owners of shards."""
        shortest_ms = min(self.group_min_session_timeout_ms, self.group_consumer_min_session_timeout_ms)
        proof_s = max(_LEAST_PROOF_S, shortest_ms / 3000)
        return ShardLimits(append_s=self.offsets_commit_timeout_ms / 1000, unproved_s=proof_s)

    def groups(self) -> GroupSettings:
        """Return the settings of groups. Raises INVALID_CONFIG for settings with which no member could join."""
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

    def consumer_group(self, configs: Mapping[str, str]) -> tuple[ConsumerSettings, list[str]]:
        """Return the settings of a group that has these configs, and what is to be said of those that are out of
        range. They count as the nearest value in range, as in Kafka."""
        cluster, capped, altered = self._consumer_groups(), [], dict[str, Any]()
        for name in _OF_ONE_GROUP:
            if (text := configs.get(f"consumer.{name.replace('_', '.')}")) is None:
                continue
            least, most = (getattr(self, f"group_consumer_{end}_{name}") for end in ("min", "max"))
            value = max(least, min(int(text), most))
            if value != int(text):
                capped.append(
                    f"consumer.{name.replace('_', '.')}={text} is not from {least} to {most}, so {value} counts"
                )
            altered[name] = value
        return replace(cluster, **altered), capped

    def _consumer_groups(self) -> ConsumerSettings:
        assignors = tuple(name.strip() for name in self.group_consumer_assignors.split(",") if name.strip())
        if not assignors or not set(assignors) <= set(ASSIGNORS):
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"group_consumer_assignors={self.group_consumer_assignors} names none, or one that does not exist",
                hint=f"name one or more of: {', '.join(ASSIGNORS)}",
            )
        try:
            policy = MigrationPolicy(self.group_consumer_migration_policy.lower())
        except ValueError:
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"group_consumer_migration_policy={self.group_consumer_migration_policy} is no policy",
                hint=f"set it to one of: {', '.join(each.value for each in MigrationPolicy)}",
            ) from None
        return ConsumerSettings(
            session_timeout_ms=self.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=self.group_consumer_heartbeat_interval_ms,
            assignment_interval_ms=self.group_consumer_assignment_interval_ms,
            max_size=self.group_consumer_max_size,
            assignors=assignors,
            migration_policy=policy,
        )
