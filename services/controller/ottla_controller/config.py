"""What a controller process is told: where it listens and where etcd is.

Spelled OTTLA_CONTROLLER__<KEY> in the environment. Topic and cluster configs under Kafka's names live in the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    node_id: int = 0
    cluster_id: str = "ottla"
    host: str = "127.0.0.1"
    port: int = 9640  # 0 picks a free one
    admin_port: int = 9740
    advertised_host: str = ""  # what clients are told; empty: `host`
    etcd: tuple[str, ...] = ("127.0.0.1:9600",)
    lease_ttl_s: int = 3
    log_level: str = "INFO"
