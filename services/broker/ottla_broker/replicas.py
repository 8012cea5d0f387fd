"""All partitions of this broker: what the image assigns to it is opened, what it takes away is deleted.

Reconciling is level-triggered: one task brings the logs to what the newest image says, however many changes came
meanwhile. Directory work runs in threads; a replica is installed, and takes appends, on the loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from ottla_broker.log_settings import log_config
from ottla_broker.replica import Replica
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.waiters import Waiters
from ottla_core.clock import Clock
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage, Partition, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId
from ottla_core.tasks import end_task

_log = logging.getLogger(__name__)

_RETRY_S = 1.0


class Replicas:
    """A component: `start` opens what the image assigns to this broker; later images are followed until `stop`."""

    def __init__(
        self,
        follower: MetadataFollower,
        log_dir: Callable[[], LogDir],
        clock: Clock,
        on_disk_failure: Callable[[OttlaError], None],
    ) -> None:
        self.waiters = Waiters()
        self._follower = follower
        self._log_dir = log_dir
        self._clock = clock
        self._on_disk_failure = on_disk_failure
        self._replicas: dict[PartitionId, Replica] = {}
        self._changed = asyncio.Event()
        self._applied_revision = 0
        self._applied = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        image = self._follower.image
        known = {p for topic in image.topics.values() for p, _ in image.partitions_of(topic)}
        await asyncio.to_thread(self._log_dir().set_strays_aside, known)
        self._follower.on_change(lambda old, new: self._changed.set())
        await self._reconcile(image)
        self._task = asyncio.create_task(self._follow(), name="replicas")

    async def stop(self) -> None:
        await end_task(self._task)

    def all(self) -> Collection[Replica]:
        return self._replicas.values()

    def leader(self, partition_id: PartitionId, known_epoch: int | None) -> Replica:
        """The replica that this broker leads in the epoch that the client knows, or OttlaError."""
        replica = self._replicas.get(partition_id)
        if replica is None:
            raise self._not_here(partition_id)
        replica.check_leader(known_epoch)
        return replica

    def high_watermarks(self) -> dict[PartitionId, int]:
        return {replica.id: replica.high_watermark for replica in self._replicas.values()}

    async def until_applied(self, revision: int) -> None:
        """Return once the metadata up to `revision` is applied to the logs here."""
        async with self._applied:
            await self._applied.wait_for(lambda: self._applied_revision >= revision)

    def _not_here(self, partition_id: PartitionId) -> OttlaError:
        topic = self._follower.image.topic_by_id(partition_id.topic_id)
        if topic is None:
            return OttlaError(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"no topic has the id {partition_id.topic_id.hex()}",
                hint="it was deleted, or this broker's metadata is behind; refresh the metadata",
            )
        if not 0 <= partition_id.partition < topic.partition_count:
            return OttlaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic.name!r} has no partition {partition_id.partition}, only {topic.partition_count}",
            )
        return OttlaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"this broker has no replica of {topic.name}-{partition_id.partition}",
            hint="refresh the metadata",
        )

    # ---- reconciling -------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            image = self._follower.image
            try:
                await self._reconcile(image)
            except Exception as error:
                known = isinstance(error, OttlaError)
                _log.error("can't follow the metadata of revision %d: %s", image.revision, error, exc_info=not known)
                await asyncio.sleep(_RETRY_S)
                self._changed.set()

    async def _reconcile(self, image: ClusterImage) -> None:
        """Bring the replicas to what `image` says: gone ones first, then new ones, then leadership and configs."""
        wanted = self._assigned(image)
        kept = {partition_id for partitions in wanted.values() for partition_id, _ in partitions}
        for partition_id in self._replicas.keys() - kept:
            replica = self._replicas.pop(partition_id)
            _log.info("deleting %s", replica)
            await asyncio.to_thread(self._log_dir().delete, partition_id)
            self.waiters.wake(partition_id)
        for name, partitions in wanted.items():
            topic = image.topics[name]
            config = log_config(image, topic, self._broker_id)
            for partition_id, partition in partitions:
                try:
                    await self._apply(topic, partition_id, partition, config)
                except OttlaError as error:  # of this partition alone: the others are served, and this one tried again
                    _log.error("%s-%d can't be opened, trying again: %s", name, partition_id.partition, error)
                    asyncio.get_running_loop().call_later(_RETRY_S, self._changed.set)
        async with self._applied:
            self._applied_revision = image.revision
            self._applied.notify_all()

    async def _apply(self, topic: Topic, partition_id: PartitionId, partition: Partition, config: LogConfig) -> None:
        replica = self._replicas.get(partition_id)
        if replica is None:
            log = await asyncio.to_thread(self._open, partition_id, topic.name, partition, config)
            replica = Replica(
                partition_id, topic.name, self._broker_id, log, self.waiters, self._clock.wall_ms, self._on_disk_failure
            )
            self._replicas[partition_id] = replica
        if replica.log.config != config:
            replica.log.config = config
        replica.on_partition(partition)

    def _open(self, partition_id: PartitionId, topic: str, partition: Partition, config: LogConfig) -> Log:
        """In a thread: the log, and where this broker leads, the start of its epoch on the platter (rule 4)."""
        log = self._log_dir().create(partition_id, topic, config, now_ms=self._clock.wall_ms())
        if partition.leader == self._broker_id and partition.leader_epoch > log.epochs.latest:
            log.assign_epoch(partition.leader_epoch)
        return log

    def _assigned(self, image: ClusterImage) -> dict[str, list[tuple[PartitionId, Partition]]]:
        """The partitions that this broker is to have, by topic."""
        return {
            topic.name: [(i, p) for i, p in image.partitions_of(topic) if self._broker_id in p.replicas]
            for topic in image.topics.values()
        }

    @property
    def _broker_id(self) -> int:
        return self._log_dir().identity.node_id
