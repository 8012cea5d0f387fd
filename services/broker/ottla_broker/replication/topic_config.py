"""The meaning of the cluster's configs for one topic's logs: from the image's texts to a `LogConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla_broker.storage.log_config import MAX_INT64, LogConfig, TimestampType
from ottla_core.cluster.image import ClusterImage, Topic
from ottla_core.configs.config_values import EffectiveConfigs, resolve, resolve_broker
from ottla_core.model import MAX_BATCH_BYTES
from ottla_core.records.compression import Codec, Compression

_LATE_MS: Final = 300_000
"""Kafka's value. In this time a coordinator ends a transaction that has lasted too long."""


def log_config(image: ClusterImage, topic: Topic, broker_id: int) -> LogConfig:
    return _log_config(image, topic.configs, broker_id)


def default_log_config(image: ClusterImage, broker_id: int) -> LogConfig:
    """Return the config of a log whose topic is not known yet, while the data directory is opened."""
    return _log_config(image, {}, broker_id)


def _log_config(image: ClusterImage, topic: Mapping[str, str], broker_id: int) -> LogConfig:
    cluster, broker = image.broker_configs(), image.broker_configs(broker_id)
    values, of_broker = resolve(topic, cluster, broker), resolve_broker(cluster, broker, {})
    policy = values.items("cleanup.policy")
    # A compacted topic keeps the newest value of every key, however old: time and size delete nothing of it.
    deletes, compacts = "delete" in policy, "compact" in policy
    # The active segment is not compacted, so it may not be active for longer than records may wait (KIP-354).
    longest_ms = values.integer("max.compaction.lag.ms") if compacts else MAX_INT64
    return LogConfig(
        segment_bytes=values.integer("segment.bytes"),
        segment_ms=min(values.integer("segment.ms"), longest_ms),
        segment_jitter_ms=values.integer("segment.jitter.ms"),
        segment_index_bytes=values.integer("segment.index.bytes"),
        index_interval_bytes=values.integer("index.interval.bytes"),
        retention_ms=values.integer("retention.ms") if deletes else -1,
        retention_bytes=values.integer("retention.bytes") if deletes else -1,
        max_message_bytes=min(values.integer("max.message.bytes"), MAX_BATCH_BYTES),  # larger ones could be stored once
        compression=_compression(values),
        timestamp_type=TimestampType(values.text("message.timestamp.type")),
        timestamp_before_max_ms=values.integer("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=values.integer("message.timestamp.after.max.ms"),
        flush_messages=values.integer("flush.messages"),
        flush_ms=values.integer("flush.ms"),
        min_insync_replicas=values.integer("min.insync.replicas"),
        producer_expiration_ms=of_broker.integer("producer.id.expiration.ms"),
        late_transaction_ms=of_broker.integer("transaction.max.timeout.ms") + _LATE_MS,
        delete_retention_ms=values.integer("delete.retention.ms"),
        min_compaction_lag_ms=values.integer("min.compaction.lag.ms"),
        max_compaction_lag_ms=values.integer("max.compaction.lag.ms"),
        least_dirty_ratio=values.decimal("min.cleanable.dirty.ratio"),
        deletes=deletes,
        compacts=compacts,
        drops_keyless=values.boolean("compaction.drop.keyless"),
    )


def _compression(values: EffectiveConfigs) -> Compression | None:
    match values.text("compression.type"):
        case "uncompressed":
            return Compression(Codec.NONE)
        case "gzip":
            return Compression(Codec.GZIP, values.integer("compression.gzip.level"))
        case "lz4":
            return Compression(Codec.LZ4, values.integer("compression.lz4.level"))
        case "snappy":
            return Compression(Codec.SNAPPY)
        case "zstd":
            return Compression(Codec.ZSTD, values.integer("compression.zstd.level"))
        case _:
            return None  # producer: each batch keeps its codec
