"""What a group-coordinator process is told: where it listens, where etcd is, and how groups behave.

Spelled OTTLA_GROUP_COORDINATOR__<KEY> in the environment. The settings of groups are Kafka's, with `_` for `.`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla_core.errors import ErrorCode, OttlaError
from ottla_group_coordinator.machines.membership import GroupSettings

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    node_id: int = 0
    cluster_id: str = "ottla"
    host: str = "127.0.0.1"
    port: int = 9660  # 0 picks a free one
    admin_port: int = 9760
    advertised_host: str = ""  # what clients are told; empty: `host`
    etcd: tuple[str, ...] = ("127.0.0.1:9600",)
    lease_ttl_s: int = 6
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    metrics_max_partitions: int = 1_000  # whose lag /metrics shows, two series each
    log_level: str = "INFO"

    def groups(self) -> GroupSettings:
        """Raises INVALID_CONFIG for settings under which nobody could join."""
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"group_min_session_timeout_ms={self.group_min_session_timeout_ms} is above "
                f"group_max_session_timeout_ms={self.group_max_session_timeout_ms}",
                hint="then no session timeout is allowed at all",
            )
        return GroupSettings(
            min_session_timeout_ms=self.group_min_session_timeout_ms,
            max_session_timeout_ms=self.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=self.group_initial_rebalance_delay_ms,
            max_size=self.group_max_size,
            offset_metadata_max_bytes=self.offset_metadata_max_bytes,
            offsets_retention_ms=self.offsets_retention_minutes * _MINUTE_MS,
            retention_check_s=self.offsets_retention_check_interval_ms / 1000,
        )
