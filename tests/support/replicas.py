"""Replicas of one partition without a network: several brokers' logs, one clock, fetches by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from logs import SMALL, open_log

from ottla_broker.machines.follower_session import Followed
from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.replication.fetch import FetchResult
from ottla_broker.replication.fetch_purgatory import ConfirmationPurgatory, FetchPurgatory, Sessions
from ottla_broker.replication.follower_fetch import FollowerFetch, fetch_as_follower
from ottla_broker.replication.following import Following, LeaderResponse
from ottla_broker.replication.leading import Leading, ReplicaContext
from ottla_broker.replication.replica import Replica
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log_config import LogConfig
from ottla_core.clock import Clock, ManualClock
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_core.rpc.context import StreamScope

PARTITION = PartitionId(TopicId(b"t" * 16), 0)


def replica_context(
    broker_id: int,
    clock: Clock,
    threads: DiskThreads,
    on_disk_failure: Callable[[OttlaError], None] = lambda error: None,
    on_proposal: Callable[[Leading], None] = lambda leading: None,
    live: Mapping[int, int] = {},
) -> ReplicaContext:
    parked = (FetchPurgatory(), Sessions(), FetchPurgatory(), ConfirmationPurgatory())
    return ReplicaContext(broker_id, clock, threads, on_disk_failure, on_proposal, live, *parked)


@dataclass
class Brokers:
    """One replica of the partition on each broker; all of them are live, with the epoch 10 + id."""

    directory: Path
    ids: tuple[int, ...] = (1, 2, 3)
    config: LogConfig = SMALL
    clock: ManualClock = field(default_factory=ManualClock)
    live: dict[int, int] = field(default_factory=dict)
    failures: list[OttlaError] = field(default_factory=list)
    proposals: list[Leading] = field(default_factory=list)
    replicas: dict[int, Replica] = field(default_factory=dict)
    around: dict[int, ReplicaContext] = field(default_factory=dict)
    topic: str = "t"
    registered: set[int] = field(default_factory=set)
    seen_confirmations: dict[tuple[int, int], int] = field(default_factory=dict)
    """The newest check at a leader's last answer, by follower and leader."""

    def __post_init__(self) -> None:
        self.live |= {n: 10 + n for n in self.ids}
        self.registered |= {*self.ids}
        for broker_id in self.ids:
            self.open(broker_id)

    def open(
        self, broker_id: int, *, high_watermark: int = 0, log_start_offset: int = 0, clean: bool = False
    ) -> Replica:
        """The broker's replica as it is found on its disk, after a kill unless `clean`."""
        around = replica_context(
            broker_id, self.clock, DiskThreads(), self.failures.append, self.proposals.append, self.live
        )
        around = replace(around, is_registered=lambda: broker_id in self.registered)
        directory = self.directory / str(broker_id)
        log = open_log(directory, self.config, clean=clean, log_start_offset=log_start_offset)
        replica = Replica(PARTITION, self.topic, log, around, high_watermark=HighWatermark(high_watermark))
        replica.configure(self.config, 30.0)
        self.around[broker_id], self.replicas[broker_id] = around, replica
        return replica

    def apply(self, partition: Partition, *to: int) -> None:
        """The controller's decision reaches these brokers; all, where none is named."""
        for broker_id in to or self.ids:
            replica = self.replicas[broker_id]
            if replica.must_become_leader(partition):
                replica.become_leader(partition)
            else:
                replica.on_partition(partition)

    async def fetch(
        self, follower_id: int, leader_id: int, *, max_wait_s: float = 0, max_bytes: int = 1 << 20
    ) -> FetchResult:
        """One fetch of a follower from a leader, in a session of its own, and what follows from the answer."""
        follower = self.replicas[follower_id]
        epoch, offset = follower.leader_epoch, follower.log.log_end_offset
        followed = Followed(
            PARTITION,
            epoch,
            offset,
            max_bytes,
            follower.log.epochs.latest,
            follower.offsets.high_watermark,
            follower.log.log_start_offset,
            has_readers=True,
        )
        request = FollowerFetch(
            follower_id,
            self.live[follower_id],
            self.seen_confirmations.get((follower_id, leader_id), 0),
            session_id=1,
            responses=0,
            begins=True,
            named=[followed],
            forgotten=[],
            max_wait_s=max_wait_s,
            min_bytes=1,
            max_bytes=1 << 20,
        )
        response = await fetch_as_follower(request, self.found_on(leader_id), StreamScope())
        self.seen_confirmations[follower_id, leader_id] = response.newest_confirmation
        leader = self.replicas[leader_id]
        nothing = FetchResult(PARTITION, b"", follower.offsets.high_watermark, leader.log.log_start_offset)
        [answer] = response.partitions or [nothing]
        is_out_of_range = answer.error is not None and answer.error.code is ErrorCode.OFFSET_OUT_OF_RANGE
        if answer.error is not None and not is_out_of_range:
            raise answer.error
        following = follower.followed_in(epoch)
        if following is None:
            return answer
        if is_out_of_range:
            await following.on_out_of_range(answer.log_start_offset)
        elif answer.diverging is not None:
            await following.on_diverging(answer.diverging, answer.log_start_offset)
        else:
            told = LeaderResponse(
                answer.records,
                answer.high_watermark,
                answer.log_start_offset,
                answer.epochs,
                answer.purged_before,
            )
            if (copying := following.on_fetched(offset, told)) is not None:
                await copying
        return answer

    def leading(self, broker_id: int) -> Leading:
        """What that broker leads with."""
        return self.replicas[broker_id].led_in(None)

    def following(self, broker_id: int) -> Following:
        """What that broker follows another one with."""
        following = self.replicas[broker_id].following
        assert following is not None
        return following

    def found_on(self, leader_id: int) -> Any:
        around = self.around[leader_id]
        return OneReplica(self.replicas[leader_id], around.consumers, around.followers, around.confirmations)


@dataclass(frozen=True)
class OneReplica:
    """Where a fetch finds its replica, on a broker that has no other."""

    replica: Replica
    consumers: FetchPurgatory
    followers: Sessions
    confirmations: ConfirmationPurgatory

    def get(self, partition_id: PartitionId) -> Replica | None:
        return self.replica if partition_id == self.replica.id else None

    def find(self, partition_id: PartitionId) -> Replica:
        assert partition_id == self.replica.id
        return self.replica

    def leading(self, partition_id: PartitionId, known_epoch: int | None) -> Leading:
        return self.find(partition_id).led_in(known_epoch)
