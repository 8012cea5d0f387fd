"""The parts of the broker that the handlers call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla_broker.kafka.addresses import KafkaAddresses
from ottla_broker.kafka.errors import unknown_topic
from ottla_broker.kafka.fetch_sessions import FetchSessions
from ottla_broker.kafka.wire.encoded_topics import EncodedTopics
from ottla_broker.peers.coordinator_peers import CoordinatorPeers
from ottla_broker.peers.mirrors import Mirrors
from ottla_broker.peers.transactions import TransactionVerifier
from ottla_broker.replication.leading import Leading
from ottla_broker.replication.replicas import Replicas
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log_dir import LogDir
from ottla_core.clock import Clock
from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage
from ottla_core.cluster.producer_ids import ProducerIdManager
from ottla_core.model import PartitionId
from ottla_proto import controller_pb2 as pb


@dataclass(frozen=True, slots=True)
class Backend:
    replicas: Replicas
    metadata: MetadataFollower
    controller: ControllerPeer
    coordinators: CoordinatorPeers
    verifier: TransactionVerifier
    producer_ids: ProducerIdManager
    addresses: KafkaAddresses
    sessions: FetchSessions
    topics: EncodedTopics
    log_dir: Callable[[], LogDir]
    clock: Clock
    threads: DiskThreads
    mirrors: Mirrors
    process_configs: Mapping[str, pb.ConfigEntry]

    @property
    def node_id(self) -> int:
        return self.log_dir().identity.node_id

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image

    def id_of(self, topic: str, partition: int) -> PartitionId | None:
        """Return the id of a partition, or None if there is no such topic. Whether the topic has the partition is
        checked later."""
        known = self.image.topics.get(topic)
        return None if known is None else PartitionId(known.id, partition)


def known_epoch(leader_epoch: int) -> int | None:
    """Return a leader epoch of a request, or None for Kafka's -1, which is not to be checked."""
    return None if leader_epoch < 0 else leader_epoch


def leading_by_name(backend: Backend, topic: str, partition: int, leader_epoch: int) -> Leading:
    """Return the leadership of the partition. Raises UNKNOWN_TOPIC_OR_PARTITION and what `ReplicaTable.leading`
    raises."""
    partition_id = backend.id_of(topic, partition)
    if partition_id is None:
        raise unknown_topic(topic)
    return backend.replicas.table.leading(partition_id, known_epoch(leader_epoch))
