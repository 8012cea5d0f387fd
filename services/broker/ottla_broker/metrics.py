"""A broker's metrics: of its metadata and its replicas, and those of Kafka's ReplicaManager."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from heapq import nlargest
from typing import Final

from ottla_broker.compaction.cleaner import LogCleaner
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_fetcher import Replication
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.replication.replicas import Replicas
from ottla_broker.replication.topic_metrics import Traffic
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.telemetry import Metrics, Table

MAX_PARTITIONS: Final = 1_000


def add_metrics(metrics: Metrics, follower: MetadataFollower, replicas: Replicas, replication: Replication) -> None:
    def existing() -> list[Replica]:
        return list(replicas.table.all())  # copied in one step, because a scrape has a thread of its own

    gauge = partial(_add_gauge, metrics)
    gauge("ottla_broker_partitions", "Replicas on this broker.", lambda: len(replicas.table.all()))
    gauge("ottla_broker_parked_fetches", "Fetches that are waiting for data.", lambda: replicas.table.consumers.parked)
    gauge("ottla_broker_leaders", "Partitions that this broker leads.", lambda: sum(r.leads for r in existing()))
    gauge(
        "ottla_broker_under_replicated_partitions",
        "Partitions led by this broker that have out-of-sync replicas.",
        lambda: sum(r.is_under_replicated for r in existing()),
    )
    gauge(
        "ottla_broker_under_min_isr_partitions",
        "Partitions led by this broker whose ISR is too small for acks=all.",
        lambda: sum(r.is_under_min_isr for r in existing()),
    )
    gauge(
        "ottla_broker_late_transaction_partitions",
        "Partitions led by this broker in which a transaction has been open for too long.",
        lambda: sum(r.has_late_transaction for r in existing()),
    )
    gauge(
        "ottla_broker_failing_partitions",
        "Replicas that can't lead or follow; the broker keeps trying.",
        lambda: replicas.failing,
    )
    gauge(
        "ottla_broker_incomplete_partitions",
        "Replicas that may lack acknowledged records since an unclean stop or a lost disk, until they are in sync.",
        lambda: replicas.incomplete,
    )
    gauge("ottla_broker_deleting_partitions", "Logs that are waiting to be deleted.", lambda: replicas.deleting)
    gauge("ottla_broker_read_only", "1 while the disk has no room for appends, else 0.", lambda: replicas.is_read_only)
    gauge(
        "ottla_broker_stray_partitions",
        "Logs set aside because they belong to no topic; only the operator deletes them.",
        lambda: replicas.strays.partitions,
    )
    gauge("ottla_broker_stray_bytes", "Bytes in stray logs.", lambda: replicas.strays.size_bytes)
    gauge(
        "ottla_broker_replica_lag_records",
        "Lag of the follower on this broker that is furthest behind its leader.",
        replication.lag,
    )
    gauge(
        "ottla_metadata_revision",
        "etcd revision of the cluster metadata that this process has applied.",
        lambda: follower.image.revision,
    )
    gauge("ottla_metadata_staleness_seconds", "Seconds since etcd last responded.", lambda: follower.staleness_s)
    add_topic_tables(metrics, replicas.table)


def add_cleaner_metrics(metrics: Metrics, cleaner: LogCleaner) -> None:
    """Add the metrics of Kafka's LogCleanerManager."""
    gauge, totals = partial(_add_gauge, metrics), cleaner.totals
    gauge("ottla_cleaner_max_dirty_ratio", "Dirty ratio of the dirtiest compacted log.", lambda: cleaner.dirtiest_ratio)
    gauge(
        "ottla_cleaner_uncleanable_partitions",
        "Compacted logs whose last cleaning failed.",
        lambda: cleaner.uncleanable,
    )
    gauge(
        "ottla_cleaner_last_run_timestamp_seconds",
        "Unix time at which the last cleaning ended.",
        lambda: totals.ended_at_ms / 1000,
    )
    for name, help_text, value in (
        ("runs", "Cleans of compacted logs.", lambda: totals.runs),
        ("read_bytes", "Bytes read by compaction.", lambda: totals.bytes_read),
        ("saved_bytes", "Bytes freed by compaction.", lambda: totals.bytes_saved),
        ("seconds", "Seconds spent on compaction.", lambda: totals.seconds),
    ):
        metrics.table(f"ottla_cleaner_{name}_total", Table(help_text, (), partial(_single, value), counts=True))


def _single(value: Callable[[], float]) -> Mapping[tuple[str, ...], float]:
    return {(): float(value())}


def _add_gauge(metrics: Metrics, name: str, help_text: str, value: Callable[[], float]) -> None:
    metrics.gauge(name, help_text, lambda: float(value()))


def add_topic_tables(metrics: Metrics, replicas: ReplicaTable) -> None:
    """Add series for every topic that has a replica on this broker; those of other topics disappear."""

    def existing() -> list[Replica]:
        return list(replicas.all())  # copied in one step, because a scrape has its own thread

    def count(name: str, help_text: str, value: Callable[[Traffic], int]) -> None:
        def read() -> Mapping[tuple[str, ...], float]:
            return {(replica.traffic.topic,): value(replica.traffic) for replica in existing()}

        metrics.table(name, Table(help_text, ("topic",), read, counts=True))

    def log_bytes() -> Mapping[tuple[str, ...], float]:
        sums: defaultdict[tuple[str, ...], float] = defaultdict(int)
        for replica in existing():
            sums[replica.traffic.topic,] += replica.log.size_bytes
        return sums

    count(
        "ottla_topic_bytes_in_total",
        "Bytes appended, as the client sent them (compressed).",
        lambda traffic: traffic.bytes_in,
    )
    count("ottla_topic_records_in_total", "Records appended.", lambda traffic: traffic.records_in)

    def partitions(value: Callable[[Replica], float | None]) -> Mapping[tuple[str, ...], float]:
        """Return the values of the largest replicas."""
        largest = nlargest(MAX_PARTITIONS, ((r.log.size_bytes, r.topic, r.id.partition, r) for r in existing()))
        found = ((topic, partition, value(replica)) for _, topic, partition, replica in largest)
        return {(topic, str(partition)): number for topic, partition, number in found if number is not None}

    count(
        "ottla_topic_records_past_retention_total",
        "Records that were older than retention.ms on arrival.",
        lambda traffic: traffic.past_retention,
    )
    for name, help_text, value in (
        (
            "ottla_partition_log_bytes",
            "Bytes in the log, for the thousand largest replicas on this broker.",
            lambda r: r.log.size_bytes,
        ),
        (
            "ottla_partition_retention_size_percent",
            "Size of the log, in percent of retention.bytes (KIP-1257).",
            _retention_size_percent,
        ),
    ):
        metrics.table(name, Table(help_text, ("topic", "partition"), partial(partitions, value)))
    count("ottla_topic_bytes_out_total", "Bytes sent to consumers.", lambda traffic: traffic.bytes_out)
    metrics.table(
        "ottla_topic_log_bytes", Table("Bytes in the logs of the replicas on this broker.", ("topic",), log_bytes)
    )


def _retention_size_percent(replica: Replica) -> float | None:
    most_bytes = replica.log.config.retention_bytes
    return 100 * replica.log.size_bytes / most_bytes if most_bytes > 0 else None
