"""The settings of a controller process: where it listens and where etcd is.

In the environment they are spelled OTTLA_CONTROLLER__<KEY>. Topic and cluster configs, under Kafka's names, are kept in
the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.files.secret_file import NO_FILE


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    node_id: int = 0
    cluster_id: str = "ottla"
    host: str = "127.0.0.1"
    port: int = 9640  # 0 picks a free one
    admin_host: str = "127.0.0.1"
    admin_port: int = 9740
    admin_token_file: PurePath = NO_FILE
    insecure: bool = False
    advertised_host: str = ""  # what clients get, or `host` if this is empty
    etcd: tuple[str, ...] = ("127.0.0.1:9600",)
    etcd_tls_ca: PurePath = NO_FILE
    etcd_tls_certificate: PurePath = NO_FILE
    etcd_tls_key: PurePath = NO_FILE
    etcd_user: str = ""
    etcd_password_file: PurePath = NO_FILE
    etcd_quota_bytes: int = 2 << 30  # value of etcd's --quota-backend-bytes; both have the same default
    lease_ttl_s: int = 3
    first_configs: tuple[str, ...] = ()  # cluster-wide configs of a new cluster, each as name=value
    internal_tls_certificate: PurePath = NO_FILE  # PEM file with this service's certificate for gRPC
    internal_tls_key: PurePath = NO_FILE  # PEM file with the certificate's private key
    internal_tls_ca: PurePath = NO_FILE  # PEM file with the authorities whose certificates other services must have
    log_level: str = "INFO"

    def cluster_configs(self) -> dict[str, str]:
        """Return `first_configs` by name. Raises INVALID_CONFIG for one that is not name=value."""
        pairs = [text.partition("=") for text in self.first_configs]
        for name, separator, _ in pairs:
            if not (name and separator):
                raise OttlaError(
                    ErrorCode.INVALID_CONFIG,
                    f"first_configs contains {name!r}, which does not have the form name=value",
                    hint="give name=value pairs, such as default.replication.factor=3,min.insync.replicas=2",
                )
        return {name.strip(): value.strip() for name, _, value in pairs}
