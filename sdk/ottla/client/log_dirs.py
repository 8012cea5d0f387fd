"""The data directories of a broker, as it describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.client.grouping import grouped
from ottla.client.kafka.apis import DESCRIBE_LOG_DIRS
from ottla.client.kafka.exchange import Exchange
from ottla.errors import OttlaError, error_from_code
from ottla_core.kafka.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla_core.model import TopicPartition


@dataclass(frozen=True, slots=True)
class LogDirInfo:
    """One data directory of a broker, with the size of its file system and of each replica, in bytes.

    Brokers before Kafka 3.3 do not know the size of the file system, which is then 0. `uncleanable` maps each log that
    can't be compacted to the reason. `late_transactions` lists the partitions that the broker leads and that have an
    overdue open transaction. `incomplete` lists the replicas that may lack acknowledged records, because the broker
    stopped uncleanly, lost its disk or got an old copy of it. They become complete when they are in sync again. Only
    brokers of ottla know these three.
    """

    path: str
    total_bytes: int
    usable_bytes: int
    replica_bytes: Mapping[TopicPartition, int]
    uncleanable: Mapping[TopicPartition, str] = field(default_factory=dict)
    late_transactions: tuple[TopicPartition, ...] = ()
    incomplete: tuple[TopicPartition, ...] = ()
    error: OttlaError | None = None
    """Why the broker can't use the directory. Its replicas are not known then."""


def described_log_dirs(partitions: Iterable[TopicPartition] | None = None) -> Exchange[tuple[LogDirInfo, ...]]:
    """Return the exchange that asks a broker for its directories, with the replicas of these partitions or, for None,
    with all."""
    named = None
    if partitions is not None:
        topic = DescribeLogDirsRequest.DescribableLogDirTopic
        named = [topic(topic=name, partitions=numbers) for name, numbers in grouped(partitions).items()]
    request = DescribeLogDirsRequest(topics=named)
    return Exchange(DESCRIBE_LOG_DIRS, lambda _: request, lambda response: tuple(map(_directory, response.results)))


def _directory(directory: DescribeLogDirsResponse.DescribeLogDirsResult) -> LogDirInfo:
    replicas = {
        TopicPartition(topic.name, replica.partition_index): replica
        for topic in directory.topics
        for replica in topic.partitions
        if not replica.is_future_key  # a copy that is being moved here from another directory
    }
    return LogDirInfo(
        directory.log_dir,
        max(0, directory.total_bytes),
        max(0, directory.usable_bytes),
        {partition: max(0, replica.partition_size) for partition, replica in replicas.items()},
        {partition: replica.uncleanable for partition, replica in replicas.items() if replica.uncleanable},
        tuple(partition for partition, replica in replicas.items() if replica.late_transaction),
        tuple(partition for partition, replica in replicas.items() if replica.incomplete),
        error_from_code(directory.error_code, "") if directory.error_code else None,
    )
