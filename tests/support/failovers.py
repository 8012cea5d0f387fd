"""Controllers that act by themselves, with what a test asks of partitions."""

from __future__ import annotations

from dataclasses import dataclass

from controllers import CONTEXT, HookedStore, Node, World
from waiting import until

from ottla_controller.coordinators import ShardAssigner
from ottla_controller.leadership import Leadership
from ottla_controller.machines.partition_index import PartitionIndex
from ottla_controller.presence import Presence
from ottla_controller.reconcile import Reconciler
from ottla_controller.service import ControllerService, random_topic_id
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Partition
from ottla_core.telemetry import Counter, Metrics
from ottla_proto import controller_pb2 as pb


@dataclass
class ActingNode(Node):
    """A controller with its duties."""

    metrics: Metrics
    presence: Presence

    def partitions(self, topic: str = "t") -> list[Partition]:
        image = self.follower.image
        return [p for _, p in image.partitions_of(image.topics[topic])]

    @property
    def leaders(self) -> list[int]:
        return [p.leader for p in self.partitions()]

    def count(self, name: str) -> int:
        (sample,) = self.metrics.samples[name].values()
        assert isinstance(sample, Counter)
        return sample.value

    async def create_replicated(self, *replicas: tuple[int, ...], **configs: str) -> pb.TopicCreated:
        """The topic `t` with these replicas of its partitions."""
        assignments = [pb.ReplicaAssignment(partition=n, replicas=r) for n, r in enumerate(replicas)]
        named = {n.replace("_", "."): value for n, value in configs.items()}
        (created,) = await self.create(pb.NewTopic(name="t", assignments=assignments, configs=named))
        assert created.error.code == 0, created.error.message
        return created

    async def propose(self, broker: int, isr: tuple[int, ...], partition: int = 0) -> pb.IsrDecided:
        """What the leader of one partition of `t` is answered, who knows the registrations and epochs of now."""
        image = self.follower.image
        now = self.partitions()[partition]
        proposal = pb.IsrProposal(
            topic_id=image.topics["t"].id,
            partition=partition,
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch,
            new_isr=[pb.IsrMember(broker_id=b, broker_epoch=image.brokers[b].epoch) for b in isr],
        )
        request = pb.AlterPartitionRequest(
            broker_id=broker, broker_epoch=image.brokers[broker].epoch, partitions=[proposal]
        )
        return (await self.service.alter_partition(request, CONTEXT)).partitions[0]


async def start_acting(world: World, node_id: int = 0, clock: Clock | None = None) -> ActingNode:
    """A controller that stands for election and, when it is elected, acts."""
    clock = clock or SystemClock()
    store, metrics = HookedStore(world.new_store()), Metrics()
    follower = MetadataFollower(store, world.cluster_id, clock=clock)
    presence = Presence(follower, clock)
    index = PartitionIndex()
    follower.on_change(index.follow)
    reconciler = Reconciler(follower, index, presence.within_grace, clock, metrics)
    follower.start()
    leadership = Leadership(
        store,
        follower,
        world.cluster_id,
        node_id,
        lambda: f"127.0.0.1:{node_id + 1}",  # nobody is there
        lease_ttl_s=3,
        duties=[presence, reconciler, ShardAssigner(follower, random_topic_id, metrics)],
        clock=clock,
    )
    service = ControllerService(leadership, follower, index, on_elected=reconciler.report)
    node = ActingNode(store, follower, leadership, service, metrics, presence)
    world.nodes.append(node)
    await leadership.start()
    return node


async def start_acting_active(world: World, node_id: int = 0, clock: Clock | None = None) -> ActingNode:
    node = await start_acting(world, node_id, clock)
    await until(lambda: node.leadership.active)
    return node
