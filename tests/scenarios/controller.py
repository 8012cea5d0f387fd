"""The controller of a story: the real service and the real decisions, over an image in place of etcd.

A transaction compares what its decision relied on with the image, as etcd would (rule C2). If that has changed, it is
decided again (rule C11). `hold` keeps the next one on its way, so that something can come before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from replicas import PARTITION

from ottla_controller.machines.decision import Decision, ReliedOn
from ottla_controller.machines.election import Settled, decide_reconcile, needs_election
from ottla_controller.machines.partition_index import PartitionIndex
from ottla_controller.machines.recovery import LogsReport, decide_recover, to_ask
from ottla_controller.service import ControllerService
from ottla_core.cluster import keys
from ottla_core.cluster.image import Broker, Change, ClusterImage, LastIncarnation, Partition
from ottla_core.rpc.context import RequestContext
from ottla_proto import controller_pb2 as pb
from ottla_proto.common_pb2 import Error

T = TypeVar("T")
TOPIC: Final = "t"


class Controller:
    """Its service takes it for its leadership, its journal and its metadata: all three are this image."""

    def __init__(self) -> None:
        self.image = ClusterImage("story")
        this = cast(Any, self)
        self.service = ControllerService(
            this, this, PartitionIndex(), new_topic_id=lambda: PARTITION.topic_id, logs=self._ask_logs
        )
        self.report: Callable[[int], Awaitable[LogsReport | None]]
        """What a broker says of its log; the world knows."""
        self.lost_races: list[str] = []
        """What the decisions that came too late had relied on, since somebody asked."""
        self._backup: ClusterImage | None = None
        self._holds_next = False
        self._held: asyncio.Event | None = None

    @property
    def partition(self) -> Partition:
        return self.image.partitions[PARTITION]

    async def create_topic(self, replicas: list[int], configs: dict[str, str]) -> None:
        assigned = pb.ReplicaAssignment(partition=0, replicas=replicas)
        new = pb.NewTopic(name=TOPIC, assignments=[assigned], configs=configs)
        response = await self.service.create_topics(pb.CreateTopicsRequest(topics=[new]), RequestContext())
        if response.topics[0].error.code:
            raise ValueError(response.topics[0].error.message)

    async def reconcile(self) -> list[Settled]:
        """What the reconciler does at its next look."""
        moved: list[Settled] = []
        while left := needs_election(self.image):
            settled: tuple[Settled, ...] = await self.commit(partial(decide_reconcile, partitions=left))
            moved += settled
        return moved

    def to_ask(self) -> list[int]:
        return sorted(to_ask(self.image))

    async def _ask_logs(self, image: ClusterImage, asked: Mapping[int, object]) -> dict[int, LogsReport]:
        reports = {broker_id: await self.report(broker_id) for broker_id in asked}
        return {broker_id: report for broker_id, report in reports.items() if report is not None}

    async def recover(self, reports: Mapping[int, LogsReport]) -> tuple[Settled, ...]:
        """What the recoverer does with what the brokers say."""
        return await self.commit(partial(decide_recover, partitions=[PARTITION], reports=reports))

    async def configure(self, configs: Mapping[str, str]) -> list[Error]:
        altered = pb.ConfigsAltered(resource=pb.ConfigResource(type=pb.CONFIG_RESOURCE_TOPIC, name=TOPIC))
        altered.ops.extend(pb.ConfigOp(name=n, op=pb.CONFIG_OP_SET, value=v) for n, v in configs.items())
        response = await self.service.alter_configs(pb.AlterConfigsRequest(resources=[altered]), RequestContext())
        return [result.error for result in response.resources if result.error.code]

    def back_up(self) -> None:
        self._backup = self.image

    def restore(self) -> None:
        """What the backup has, and nobody registered; restored as it should be: revisions are not used again."""
        assert self._backup is not None, "there is no backup"
        revision = self.image.revision + 1
        self.image = replace(self._backup, revision=revision, brokers={})

    async def declare_restored(self) -> None:
        await self.service.declare_restored(pb.DeclareRestoredRequest(), RequestContext())

    async def elect(self, kind: pb.ElectionType) -> pb.LeaderElected:
        asked = pb.ElectLeadersRequest(type=kind, partitions=[pb.PartitionOfTopic(topic=TOPIC, partition=0)])
        return (await self.service.elect_leaders(asked, RequestContext())).partitions[0]

    async def shut_down(self, broker_id: int, broker_epoch: int, secret: bytes) -> None:
        asked = pb.ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch, secret=secret)
        await self.service.controlled_shutdown(asked, RequestContext())

    # ---- the store --------------------------------------------------------------------------------------------------

    def put(self, key: keys.Key, value: Any) -> None:
        """One write, at the next revision; None deletes. A registration that is new gets that as its epoch."""
        self._write([Change(key, value)])

    def put_together(self, *entries: tuple[keys.Key, Any]) -> None:
        """The same for several keys, at one revision."""
        self._write([Change(key, value) for key, value in entries])

    def hold(self) -> None:
        """Keep the next transaction on its way until `let_go`; others overtake it."""
        self._holds_next = True

    def let_go(self) -> None:
        self._holds_next = False
        if self._held is not None:
            self._held.set()

    def _write(self, changes: list[Change]) -> None:
        revision = self.image.revision + 1
        self.image = self.image.with_changes([Change(c.key, self._stamped(c, revision)) for c in changes], revision)

    def _stamped(self, change: Change, revision: int) -> Any:
        match change.value:
            case None:
                return None
            case Broker() as broker if broker.id not in self.image.brokers:
                return replace(broker, epoch=revision, mod_revision=revision)
            case LastIncarnation() as life:
                return replace(life, epoch=revision)
            case value:
                return replace(value, mod_revision=revision)

    def _has_changed(self, seen: ReliedOn) -> bool:
        now = _find(self.image, seen.key)
        if seen.create_revision is not None:  # of registrations only
            return seen.create_revision != (now.epoch if now else 0)
        return bool(seen.mod_revision != (now.mod_revision if now else 0))

    # ---- what the service asks of its leadership, its journal and its metadata --------------------------------------

    def journal(self) -> Controller:
        return self

    async def commit(self, decide: Callable[[ClusterImage], Decision[T]]) -> T:
        while True:
            decision = decide(self.image)
            if self._holds_next:
                self._holds_next, self._held = False, asyncio.Event()
                await self._held.wait()
            relied_on = (seen for write in decision.writes for seen in write.relied_on)
            changed = next(filter(self._has_changed, relied_on), None)
            if changed is None:
                if decision.writes:
                    self._write([write.change for write in decision.writes])
                return decision.response
            self.lost_races.append(_named(changed.key))

    async def wait_for(self, revision: int, *, timeout: float) -> ClusterImage:
        return self.image


def _named(key: keys.Key) -> str:
    kind, *identity = key
    return f"the registration of {identity[0]}" if kind == "broker" else f"the {kind}"


def _find(image: ClusterImage, key: keys.Key) -> Any:
    kind, *identity = key
    match kind:
        case "broker":
            return image.brokers.get(identity[0])
        case "topic":
            return image.topics.get(identity[0])
        case "partition":
            return image.partitions.get(identity[0])
        case "producer_ids":
            return image.producer_ids
        case "restored":
            return image.restored
        case _:
            return image.configs.get((identity[0], identity[1]))
