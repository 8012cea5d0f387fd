"""A broker of a story: its real parts, put together as `ottla_broker.app` does, and run by hand.

It starts, hears of metadata, fetches, proposes, sees time pass only when it is told to. What in the product are loops
with a wire in them, a follower's fetcher and the registration, are single steps here: `fetch_from`, `register` and
`unfence` do what those do.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, Final, cast

from replicas import PARTITION
from tests.scenarios.controller import Controller

from ottla_broker.machines.departure import is_relied_upon
from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.machines.partition import IsrProposal
from ottla_broker.membership.restored_metadata import OlderMetadata
from ottla_broker.peers.registration_view import RegistrationView
from ottla_broker.replication.follower_epochs import FollowerEpochs
from ottla_broker.replication.following import LeaderResponse
from ottla_broker.replication.isr_changes import IsrChanges
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replicas import Replicas
from ottla_broker.replication.ticks import Ticks
from ottla_broker.replication.topic_config import default_log_config
from ottla_broker.service import BrokerService
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.soundness import BOOT_ID, Incarnation
from ottla_controller.machines.recovery import LogEnd, LogsReport
from ottla_core.clock import Clock
from ottla_core.cluster import keys
from ottla_core.cluster.image import Broker, ClusterImage, LastIncarnation
from ottla_core.cluster.proof import new_secret
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import iter_headers
from ottla_core.records.leader_epochs import EpochStart
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.status import TransportError
from ottla_proto import broker_pb2 as pb
from ottla_proto import controller_pb2

NEVER: Final = 1 << 20  # bytes, more than any story has


class State(Enum):
    RUNS = "runs"
    STOPPED = "stopped"  # SIGSTOP: it has its memory, and no time passes for it
    DOWN = "down"


class Metadata:
    """What a broker knows of the cluster: the image that was delivered to it last."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image

    def on_change(self, listener: Callable[[ClusterImage, ClusterImage], None]) -> None:
        """Nobody is called: images are delivered by hand."""


class StandingStill(Ticks):
    async def run(self) -> None:
        """Time passes by `SteppedReplicas.tick` only."""


class SteppedReplicas(Replicas):
    ticks_of = StandingStill

    async def apply(self, image: ClusterImage) -> None:
        self._look_at(None)  # images may be left out on the way
        await self._reconcile(image)

    def tick(self) -> None:
        for replica in self.table.all():
            if replica.leading is not None:
                replica.leading.on_tick()


class SteppedIsrChanges(IsrChanges):
    async def send(self) -> None:
        """What waits to be proposed, once. Raises OttlaError, TransportError where no answer came."""
        if batch := self._take():
            await self._send(batch)


class Line:
    """The wire to the controller. `lost` is what it loses of the next call: "request", "answer" or nothing."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.lost = ""
        self.answer: controller_pb2.IsrDecided | None = None

    async def call(
        self, method: object, request: controller_pb2.AlterPartitionRequest, *, timeout: float
    ) -> controller_pb2.AlterPartitionResponse:
        lost, self.lost = self.lost, ""
        if lost == "request":
            raise TransportError(ErrorCode.REQUEST_TIMED_OUT, "the controller did not answer in time")
        response = await self._controller.service.alter_partition(request, RequestContext())
        if lost == "answer":
            raise TransportError(ErrorCode.REQUEST_TIMED_OUT, "the controller did not answer in time")
        self.answer = response.partitions[0]
        return response


class Node:
    def __init__(self, broker_id: int, directory: Path, clock: Clock, controller: Controller) -> None:
        self.id: Final = broker_id
        self.state = State.DOWN
        self._directory = directory
        self._clock = clock
        self._controller = controller
        self._lives = 0
        self._disks = 1

    # ---- a process --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Everything up to the registration: the metadata of now, the directory, the logs, the port."""
        self._lives += 1
        self._incarnation = f"{self.id}-{self._lives}"
        self.metadata = Metadata(self._controller.image)
        metadata = cast(Any, self.metadata)
        disk = f"-{self._disks}" if self._disks > 1 else ""
        identity = DirectoryIdentity("story", self.id, f"directory-{self.id}{disk}")
        config = default_log_config(self.metadata.image, self.id)
        self.log_dir = LogDir.open(self._directory, identity, config, now_ms=self._clock.wall_ms())
        self._threads = DiskThreads()
        self.replicas = SteppedReplicas(metadata, lambda: self.log_dir, self._clock, self._threads, _fail)
        self.line = Line(self._controller)
        self._seat = RegistrationView(metadata, self._incarnation, lambda: self.id, new_secret())
        self._isr_changes = SteppedIsrChanges(cast(Any, self.line), self._seat)
        self._older_metadata = OlderMetadata(cast(Any, None))  # which never runs: a start finds all that there is
        self.replicas.on_older_metadata(self._older_metadata.found)
        self.replicas.on_proposal(self._isr_changes.submit, self._isr_changes.forget)
        lives = FollowerEpochs(metadata, self._clock)
        self.service = BrokerService(self.replicas, metadata, lambda: self.log_dir, lives, self._seat)
        await self.replicas.start()
        self.state = State.RUNS

    async def end(self, *, clean: bool = False) -> None:
        """The process ends: killed, or closed in order."""
        self.state = State.DOWN
        await self.replicas.stop()
        if clean:
            self.log_dir.close(self.replicas.table.high_watermarks(), now_ms=self._clock.wall_ms())
        else:
            self.log_dir.abandon()
        await self._threads.stop()

    def lose_tail(self, batches: int) -> None:
        """What the machine's end takes with it: the last batches, which were in the page cache, and the boot."""
        path = next(self._directory.glob("*/*.log"))
        data = path.read_bytes()
        starts = [at for at, _ in iter_headers(data)]
        path.write_bytes(data[: starts[-batches]])
        (self._directory / BOOT_ID).write_text("another boot\n")

    def lose_disk(self) -> None:
        shutil.rmtree(self._directory)
        self._disks += 1

    def lose_logs(self) -> None:
        """The partitions' directories go, and what names the data directory stays."""
        for log in self._directory.glob("*/partition.metadata"):
            shutil.rmtree(log.parent)

    def save(self) -> None:
        """Copy the volume as it is now."""
        shutil.rmtree(self._saved, ignore_errors=True)
        shutil.copytree(self._directory, self._saved)

    def take_saved(self) -> None:
        shutil.rmtree(self._directory)
        shutil.copytree(self._saved, self._directory)

    # ---- its seat ---------------------------------------------------------------------------------------------------

    def register(self) -> Broker:
        """As `registration` does: a former life goes, and the new one comes fenced."""
        key = keys.broker(self.id)
        if self.id in self._controller.image.brokers:
            self._controller.put(key, None)
        newest = self._controller.image.last_incarnations.get(self.id)
        life = None if newest is None else Incarnation(newest.incarnation, newest.epoch)
        if self.log_dir.compare(life):
            self._older_metadata.found(0 if life is None else life.epoch)
        identity = self.log_dir.identity
        address = f"broker-{self.id}:9650"
        broker = Broker(
            self.id,
            0,
            identity.directory_id,
            address,
            incarnation=self._incarnation,
            unclean=self.log_dir.may_have_lost_tail,
            ahead_of=self._older_metadata.revision,
            secret=self.secret,
        )
        last = LastIncarnation(self._incarnation, identity.directory_id)
        self._controller.put_together((key, broker), (keys.last_incarnation(self.id), last))
        return self._controller.image.brokers[self.id]

    def unfence(self) -> str | None:
        """Why it may not be unfenced yet, or nothing: it is."""
        image = self.metadata.image
        me = image.brokers.get(self.id)
        if me is None or me.incarnation != self._incarnation:
            return "its metadata does not have its registration yet"
        if image.is_behind:
            return "the metadata is older than the logs"
        if self.log_dir.may_have_lost_tail and is_relied_upon(image, self.id):
            return "it may have lost records that it is relied upon to have"
        self.log_dir.vouch(Incarnation(self._incarnation, self._controller.image.last_incarnations[self.id].epoch))
        self.replicas.look_at_all()
        registered = self._controller.image.brokers[self.id]
        self._controller.put(keys.broker(self.id), replace(registered, fenced=False, unclean=False))
        return None

    def fill_disk(self, why: str) -> None:
        """As `disk_room` tells it."""
        self.log_dir.disk.full = why
        registered = self._controller.image.brokers[self.id]
        self._controller.put(keys.broker(self.id), replace(registered, read_only=bool(why)))

    async def report(self) -> LogsReport:
        """How far its log goes."""
        request = pb.LogEndsRequest(revision=self.metadata.image.revision)
        request.partitions.add(topic_id=PARTITION.topic_id, partition=PARTITION.partition)
        response = await self.service.log_ends(request, RequestContext())
        [end] = response.partitions
        return LogsReport(response.broker_epoch, {PARTITION: LogEnd(end.last_epoch, end.log_end_offset, end.sound)})

    @property
    def _saved(self) -> Path:
        return self._directory.with_name(f"{self._directory.name}-saved")

    # ---- its partition ----------------------------------------------------------------------------------------------

    @property
    def replica(self) -> Replica:
        return self.replicas.table.find(PARTITION)

    @property
    def secret(self) -> bytes:
        return self._seat.secret

    @property
    def broker_epoch(self) -> int:
        return self._seat.current().epoch

    @property
    def proposal(self) -> IsrProposal | None:
        leading = self.replica.leading
        return None if leading is None else leading.proposal

    async def hear(self, image: ClusterImage) -> None:
        self.metadata.image = image
        await self.replicas.apply(image)

    def pass_time(self) -> None:
        self.replicas.tick()
        self.log_dir.checkpoint(self.replicas.table.high_watermarks())

    async def propose(self) -> None:
        """Raises what the controller answers for all, and TransportError where nothing came back."""
        self.line.answer = None
        await self._isr_changes.send()

    async def fetch_from(self, leader: Node) -> pb.PartitionFetched:
        """One fetch, and what follows from the answer; it is empty where there is no news. Raises OttlaError."""
        replica = self.replica
        asked = pb.FetchPartition(
            topic_id=PARTITION.topic_id,
            partition=PARTITION.partition,
            current_leader_epoch=replica.leader_epoch,
            fetch_offset=replica.log.log_end_offset,
            max_bytes=NEVER,
            last_fetched_epoch=replica.log.epochs.latest,
            high_watermark=replica.offsets.high_watermark,
            log_start_offset=replica.log.log_start_offset,
        )
        follower = pb.Follower(broker_id=self.id, broker_epoch=self.broker_epoch, secret=self.secret)
        request = pb.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=NEVER, follower=follower, partitions=[asked])
        response = await leader.service.replica_fetch(request, RequestContext())
        answer = response.partitions[0] if response.partitions else pb.PartitionFetched(high_watermark=-1)
        if answer.error.code:
            raise OttlaError(answer.error.code, answer.error.message)
        following = replica.followed_in(asked.current_leader_epoch)
        if following is not None and answer.HasField("diverging_epoch"):
            end = answer.diverging_epoch
            await following.on_diverging(EpochStart(end.leader_epoch, end.end_offset), answer.log_start_offset)
        elif following is not None:
            epochs = [EpochStart(each.leader_epoch, each.start_offset) for each in answer.epochs]
            high_watermark = HighWatermark(answer.high_watermark)
            told = LeaderResponse(answer.records, high_watermark, answer.log_start_offset, epochs, answer.purged_before)
            if (copying := following.on_fetched(asked.fetch_offset, told)) is not None:
                await copying
        return answer

    async def consume(self) -> bytes:
        """What a consumer can read here, from the log's start on. Raises OttlaError."""
        asked = pb.FetchPartition(topic_id=PARTITION.topic_id, partition=0, fetch_offset=0, max_bytes=NEVER)
        request = pb.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=NEVER, partitions=[asked])
        [answer] = (await self.service.fetch(request, RequestContext())).partitions
        if answer.error.code:
            raise OttlaError(answer.error.code, answer.error.message)
        return answer.records


def _fail(error: OttlaError) -> None:
    raise error
