"""The settings of a txn-coordinator process: where it listens, where etcd is, and how transactions behave.

In the environment they are spelled OTTLA_TXN_COORDINATOR__<KEY>. The settings of transactions are Kafka's, with `_` for
`.`. The cluster's configs (`ottla config set`) override them, and hold from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from ottla_core.configs.config_values import OF_TRANSACTIONS
from ottla_core.files.secret_file import NO_FILE
from ottla_txn_coordinator.machines.transaction import TransactionSettings


@dataclass(frozen=True, slots=True)
class TxnCoordinatorConfig:
    node_id: int = 0
    cluster_id: str = "ottla"
    host: str = "127.0.0.1"
    port: int = 9670  # 0 picks a free one
    admin_host: str = "127.0.0.1"
    admin_port: int = 9770
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
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000  # milliseconds between expiry checks
    transaction_two_phase_commit_enable: bool = False  # whether clients may use two-phase commit, which has no timeout
    first_producer_epoch: int = 0  # producer epoch of a new transactional id; tests set it near the maximum
    internal_tls_certificate: PurePath = NO_FILE  # PEM file with this service's certificate for gRPC
    internal_tls_key: PurePath = NO_FILE  # PEM file with the certificate's private key
    internal_tls_ca: PurePath = NO_FILE  # PEM file with the authorities whose certificates other services must have
    log_level: str = "INFO"

    def with_cluster(self, configs: Mapping[str, str]) -> TxnCoordinatorConfig:
        """Return these settings, overridden by the cluster's configs: canonical texts, by Kafka's names."""
        altered = {name.replace(".", "_"): int(configs[name]) for name in OF_TRANSACTIONS if name in configs}
        return replace(self, **altered)  # type: ignore[arg-type]  # all of them are numbers

    def transactions(self) -> TransactionSettings:
        return TransactionSettings(
            max_timeout_ms=self.transaction_max_timeout_ms,
            id_expiration_ms=self.transactional_id_expiration_ms,
            expiry_check_s=self.transaction_remove_expired_transaction_cleanup_interval_ms / 1000,
            two_phase_commit=self.transaction_two_phase_commit_enable,
            first_epoch=self.first_producer_epoch,
        )
