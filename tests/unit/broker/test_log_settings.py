"""From the cluster's texts to a log's settings: topic before broker before cluster before Kafka's defaults."""

from __future__ import annotations

import pytest

from ottla_broker.log_settings import log_config
from ottla_broker.storage.log_config import LogConfig, TimestampType
from ottla_core.cluster.image import ClusterImage, Configs, Topic
from ottla_core.model import TopicId


def config_of(
    topic: dict[str, str], cluster: dict[str, str] | None = None, broker: dict[str, str] | None = None
) -> LogConfig:
    image = ClusterImage("c", configs={("broker", ""): Configs(cluster or {}), ("broker", "3"): Configs(broker or {})})
    return log_config(image, Topic("t", TopicId(b"t" * 16), 1, topic), 3)


def test_without_configs_kafkas_defaults_hold() -> None:
    assert config_of({}) == LogConfig()


@pytest.mark.feature(101)
def test_the_topic_comes_before_the_broker_and_the_broker_before_the_cluster() -> None:
    cluster = {"log.segment.bytes": "1000000", "log.retention.ms": "5", "log.message.timestamp.type": "LogAppendTime"}
    config = config_of({"segment.bytes": "3000000"}, cluster, {"log.segment.bytes": "2000000", "log.retention.ms": "6"})
    assert (config.segment_bytes, config.retention_ms) == (3_000_000, 6)
    assert config.timestamp_type is TimestampType.LOG_APPEND_TIME


@pytest.mark.rule(63)
def test_a_compacted_topic_is_not_deleted_by_time_or_size() -> None:
    limits = {"retention.ms": "1000", "retention.bytes": "1000"}
    compacted = config_of({**limits, "cleanup.policy": "compact"})
    both = config_of({**limits, "cleanup.policy": "compact,delete"})
    assert (compacted.retention_ms, compacted.retention_bytes) == (-1, -1)
    assert (both.retention_ms, both.retention_bytes) == (1000, 1000)
