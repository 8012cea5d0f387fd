"""What a broker process is told: where it listens, where its data lies, where etcd is.

Spelled OTTLA_BROKER__<KEY> in the environment. Topic and cluster configs under Kafka's names live in the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    node_id: int = -1  # -1: what the data directory says, or else the controller hands one out
    cluster_id: str = "ottla"
    data_dir: Path = Path("data")
    host: str = "127.0.0.1"
    port: int = 9650  # 0 picks a free one
    admin_port: int = 9750
    kafka_port: int = 9092  # of the Kafka protocol, on the same host; 0 picks a free one
    kafka_advertised: str = ""  # host:port that Kafka clients are told; empty: as they came (`kafka.addresses`)
    advertised_host: str = ""  # what services and clients are told; empty: `host`
    published_hosts: tuple[str, ...] = ()  # who dials by one of these is told it for every service (`addresses`)
    rack: str = ""
    etcd: tuple[str, ...] = ("127.0.0.1:9600",)
    lease_ttl_s: int = 6
    checkpoint_interval_s: float = 5.0
    retention_check_interval_s: float = 300.0
    log_level: str = "INFO"
