"""From the cluster's texts to a log's settings: topic before broker before cluster before Kafka's defaults."""

from __future__ import annotations

import pytest

from ottla_broker.replication.topic_config import default_log_config, log_config
from ottla_broker.storage.log_config import LogConfig, TimestampType
from ottla_core.cluster.image import ClusterImage, ResourceConfigs, Topic
from ottla_core.model import TopicId
from ottla_core.records.compression import Codec, Compression


def config_of(
    topic: dict[str, str], cluster: dict[str, str] | None = None, broker: dict[str, str] | None = None
) -> LogConfig:
    image = ClusterImage(
        "c", configs={("broker", ""): ResourceConfigs(cluster or {}), ("broker", "3"): ResourceConfigs(broker or {})}
    )
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
    assert (compacted.deletes, both.deletes) == (False, True)


@pytest.mark.rule(64)
@pytest.mark.parametrize(
    ("policy", "compacts"), [("delete", False), ("compact", True), ("compact,delete", True), (None, False)]
)
def test_where_records_are_compacted_keys_are_needed(policy: str | None, compacts: bool) -> None:
    assert config_of({"cleanup.policy": policy} if policy else {}).compacts == compacts


@pytest.mark.rule(30)
def test_how_long_an_idle_producer_is_remembered_is_the_clusters_choice() -> None:
    name = "producer.id.expiration.ms"
    assert config_of({}, {name: "5000"}).producer_expiration_ms == 5000
    assert config_of({}, {name: "5000"}, {name: "7000"}).producer_expiration_ms == 7000
    image = ClusterImage("c", configs={("broker", ""): ResourceConfigs({name: "5000", "log.segment.bytes": "1000000"})})
    unknown_topic = default_log_config(image, 3)
    assert (unknown_topic.producer_expiration_ms, unknown_topic.segment_bytes) == (5000, 1_000_000)


@pytest.mark.rule(43)
def test_a_transaction_is_late_five_minutes_after_the_longest_timeout() -> None:
    assert config_of({}).late_transaction_ms == 1_200_000
    assert config_of({}, {"transaction.max.timeout.ms": "5000"}).late_transaction_ms == 305_000


@pytest.mark.parametrize(
    ("name", "compression"),
    [
        ("producer", None),
        ("uncompressed", Compression(Codec.NONE)),
        ("gzip", Compression(Codec.GZIP, 7)),
        ("snappy", Compression(Codec.SNAPPY)),
        ("lz4", Compression(Codec.LZ4, 17)),
        ("zstd", Compression(Codec.ZSTD, -3)),
    ],
)
def test_the_codec_of_a_topic_has_its_level(name: str, compression: Compression | None) -> None:
    levels = {"compression.gzip.level": "7", "compression.lz4.level": "17", "compression.zstd.level": "-3"}
    assert config_of({"compression.type": name, **levels}).compression == compression
    assert config_of({}, {"compression.type": name}, levels).compression == compression
