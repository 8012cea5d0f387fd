"""A broker that leads several partitions of one topic, without a network; looks at them are counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from logs import SMALL, open_log, values_batch
from replicas import replica_context

from ottla_broker.replication.fetch_purgatory import FetchPurgatory
from ottla_broker.replication.replica import Replica
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.clock import ManualClock
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId

TOPIC = TopicId(b"t" * 16)
ALONE = Partition(replicas=(1,), leader=1, leader_epoch=1, isr=(1,))


@dataclass
class Led:
    """Stands in for the table of replicas. `looked`: partitions in the order in which they were looked at."""

    directory: Path
    count: int = 3
    topic: TopicId = TOPIC
    looked: list[int] = field(default_factory=list)
    replicas: dict[PartitionId, Replica] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.around = replica_context(1, ManualClock(), DiskThreads(), live={1: 11})
        for number in range(self.count):
            self.add(self.id(number))

    @property
    def consumers(self) -> FetchPurgatory:
        return self.around.consumers

    def id(self, number: int) -> PartitionId:
        return PartitionId(self.topic, number)

    def add(self, partition_id: PartitionId) -> Replica:
        log = open_log(self.directory / f"{partition_id.topic_id.hex()}-{partition_id.partition}")
        replica = Replica(partition_id, "t", log, self.around)
        replica.configure(SMALL, 30.0)
        replica.log.assign_epoch(1)
        replica.step_back()
        replica.become_leader(ALONE)
        self.replicas[partition_id] = replica
        return replica

    def delete(self, partition_id: PartitionId) -> None:
        self.replicas.pop(partition_id).close()

    def append(self, number: int, value: bytes = b"v") -> int:
        """How many bytes that were."""
        return self.replicas[self.id(number)].led_in(None).append(values_batch(value)).size_bytes

    def find(self, partition_id: PartitionId) -> Replica:
        self.looked.append(partition_id.partition)
        if partition_id not in self.replicas:
            raise OttlaError(ErrorCode.UNKNOWN_TOPIC_ID, "no such topic")
        return self.replicas[partition_id]

    def get(self, partition_id: PartitionId) -> Replica | None:
        self.looked.append(partition_id.partition)
        return self.replicas.get(partition_id)

    def since(self) -> list[int]:
        """What was looked at since the last call."""
        looked, self.looked = self.looked, []
        return looked
