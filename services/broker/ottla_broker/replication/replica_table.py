"""The replicas of this broker as its adapters see them: found by partition, with the purgatories of delayed requests.

Handlers of both protocols need replicas by id, and an exact error if there is none. What makes, ends and deletes
replicas is `Replicas`, which no handler sees. A delayed request waits in a purgatory of the broker and not of a
replica, because one fetch waits for many partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from ottla_broker.replication.fetch_purgatory import ConfirmationPurgatory, FetchPurgatory, Sessions
from ottla_broker.replication.leading import Leading
from ottla_broker.replication.replica import Replica
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId


class ReplicaTable:
    def __init__(self, metadata: MetadataFollower) -> None:
        self.consumers: Final = FetchPurgatory()
        self.followers: Final = Sessions()
        self.deletions: Final = FetchPurgatory()
        self.confirmations: Final = ConfirmationPurgatory()
        self.flushed_by_time: Final[dict[Replica, None]] = {}
        """Replicas whose topic has a flush.ms, so that maintenance need not look at the others."""
        self.compacted: Final[dict[Replica, None]] = {}
        """Replicas whose cleanup.policy has compact, so that the cleaner need not look at the others."""
        self._metadata: Final = metadata
        self._replicas: Final[dict[PartitionId, Replica]] = {}

    def drain(self) -> None:
        """Respond to everything that is delayed, because the broker shuts down."""
        self.consumers.close()
        self.followers.close()
        self.deletions.close()
        self.confirmations.close()

    def add(self, replica: Replica) -> None:
        self._replicas[replica.id] = replica

    def remove(self, replica: Replica) -> None:
        del self._replicas[replica.id]
        self.flushed_by_time.pop(replica, None)
        self.compacted.pop(replica, None)

    def all(self) -> Collection[Replica]:
        return self._replicas.values()

    def of_topics(self, topic_ids: Iterable[TopicId]) -> list[Replica]:
        """Return the replicas of these topics that this broker has. Unknown topics and partitions are left out."""
        image = self._metadata.image
        topics = [topic for topic_id in topic_ids if (topic := image.topic_by_id(topic_id)) is not None]
        found = (self.get(PartitionId(topic.id, n)) for topic in topics for n in range(topic.partition_count))
        return [replica for replica in found if replica is not None]

    def get(self, partition_id: PartitionId) -> Replica | None:
        return self._replicas.get(partition_id)

    def find(self, partition_id: PartitionId) -> Replica:
        """Return the replica on this broker. Raises OttlaError if there is none."""
        replica = self._replicas.get(partition_id)
        if replica is None:
            raise self._no_replica(partition_id)
        return replica

    def leading(self, partition_id: PartitionId, known_epoch: int | None) -> Leading:
        """Return the proof that this broker leads the partition in the epoch that the client knows. Raises OttlaError
        otherwise."""
        return self.find(partition_id).led_in(known_epoch)

    def high_watermarks(self) -> dict[PartitionId, int]:
        return {replica.id: replica.offsets.high_watermark for replica in self._replicas.values()}

    def _no_replica(self, partition_id: PartitionId) -> OttlaError:
        topic = self._metadata.image.topic_by_id(partition_id.topic_id)
        # The three errors tell a client what to do: the topic is gone, the partition number is wrong, or another broker
        # has it.
        if topic is None:
            return OttlaError(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"no topic has the id {partition_id.topic_id.hex()}",
                hint="the topic was deleted, or this broker's metadata is behind; refresh the metadata",
            )
        if not 0 <= partition_id.partition < topic.partition_count:
            return OttlaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic.name!r} has no partition {partition_id.partition}; its partition count is "
                f"{topic.partition_count}",
            )
        return OttlaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"this broker has no replica of {topic.name}-{partition_id.partition}",
            hint="refresh the metadata",
        )
