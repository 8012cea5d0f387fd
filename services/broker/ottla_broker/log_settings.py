"""What the cluster's configs mean to one topic's logs: from the image's texts to a `LogConfig`."""

from __future__ import annotations

from ottla_broker.storage.log_config import LogConfig, TimestampType
from ottla_core.cluster.image import ClusterImage, Topic
from ottla_core.config_values import resolve


def log_config(image: ClusterImage, topic: Topic, broker_id: int) -> LogConfig:
    cluster, broker = image.configs.get(("broker", "")), image.configs.get(("broker", str(broker_id)))
    values = resolve(topic.configs, cluster.values if cluster else {}, broker.values if broker else {})
    # A compacted topic keeps the newest value of every key, however old: time and size delete nothing of it.
    deletes = "delete" in values.items("cleanup.policy")
    return LogConfig(
        segment_bytes=values.integer("segment.bytes"),
        segment_ms=values.integer("segment.ms"),
        segment_index_bytes=values.integer("segment.index.bytes"),
        index_interval_bytes=values.integer("index.interval.bytes"),
        retention_ms=values.integer("retention.ms") if deletes else -1,
        retention_bytes=values.integer("retention.bytes") if deletes else -1,
        max_message_bytes=values.integer("max.message.bytes"),
        timestamp_type=TimestampType(values.text("message.timestamp.type")),
        timestamp_before_max_ms=values.integer("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=values.integer("message.timestamp.after.max.ms"),
        flush_messages=values.integer("flush.messages"),
        flush_ms=values.integer("flush.ms"),
    )
