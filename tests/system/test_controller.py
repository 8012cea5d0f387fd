"""The controller over both stores: elections, fenced writes, and what its clients are answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from uuid import uuid4

import pytest
from controllers import CONTEXT, Node, World, unavailable
from images import topic_id
from waiting import until

from ottla_controller import journal as journal_module
from ottla_controller.machines.decision import Decision, Write
from ottla_core.cluster import keys
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.image import Change, ClusterImage, Configs, Partition
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import Delete, MetaStore, Put
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_proto import controller_pb2 as pb
from ottla_stack.embedded_etcd import EmbeddedEtcd, plan_etcd


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEtcd]:
    etcd = EmbeddedEtcd(plan_etcd(tmp_path_factory.mktemp("etcd")))
    etcd.start()
    yield etcd
    etcd.stop()


@pytest.fixture(params=["memory", "etcd"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    stores: list[MetaStore] = []

    def connect() -> MetaStore:
        if request.param == "memory":
            stores[:] = stores or [MemoryStore()]
        else:
            stores.append(EtcdStore([request.getfixturevalue("etcd").endpoint]))
        return stores[-1]

    world = World(f"test-{uuid4().hex[:8]}", connect(), connect)
    yield world
    await world.stop()
    for store in stores:
        await store.close()


@pytest.fixture
async def memory() -> AsyncIterator[tuple[World, MemoryStore]]:
    """For what only the store in memory can be told to do."""
    store = MemoryStore()
    world = World("test", store, lambda: store)
    yield world, store
    store.reconnect()
    await world.stop()
    await store.close()


def topic(name: str, partitions: int = 1, **configs: str) -> pb.NewTopic:
    named = {n.replace("_", "."): value for n, value in configs.items()}
    return pb.NewTopic(name=name, partitions=partitions, replication_factor=1, configs=named)


def write_configs(value: str) -> Decision[None]:
    """A decision that relies on nothing but the term."""
    return Decision(None, (Write(Change(keys.configs("broker", ""), Configs({"num.partitions": value}))),))


# ---- what clients ask ----------------------------------------------------------------------------------------------


@pytest.mark.feature(122)
@pytest.mark.feature(123)
@pytest.mark.feature(164)
async def test_topics_are_created_grown_and_deleted_and_who_was_answered_reads_what_was_written(world: World) -> None:
    await world.register(0, 1, 2)
    node = await world.start_active()
    (created,) = await node.create(topic("orders", 4, retention_ms="1h"))
    assert (created.error.code, created.partitions, created.replication_factor) == (0, 4, 1)
    image = node.follower.image
    assert image.topics["orders"].id == created.topic_id
    assert [p.leader for _, p in image.partitions_of(image.topics["orders"])] == [0, 1, 2, 0]

    increase = pb.CreatePartitionsRequest(topics=[pb.PartitionIncrease(name="orders", total_count=6)])
    (grown,) = (await node.service.create_partitions(increase, CONTEXT)).topics
    assert "keys" not in grown.error.message
    assert "key may now go to another partition" in grown.warning
    assert len(node.follower.image.partitions) == 6

    (deleted,) = await node.delete("orders")
    assert deleted.topic_id == created.topic_id
    assert await world.keys() == set()


async def test_a_topic_of_many_partitions_takes_several_transactions_and_appears_as_one(world: World) -> None:
    await world.register(0, 1, 2)
    node = await world.start_active()
    seen: set[tuple[bool, int]] = set()
    node.follower.on_change(lambda _, new: seen.add(("wide" in new.topics, len(new.partitions))))
    seq = node.follower.image.seq
    (created,) = await node.create(topic("wide", 450))
    assert (created.error.code, node.follower.image.seq - seq) == (0, 5)
    assert all(count == 450 for there, count in seen if there)
    await node.delete("wide")
    assert await world.keys() == set()


@pytest.mark.feature(161)
async def test_configs_are_altered_and_described_with_their_source(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    await node.create(topic("orders", segment_bytes="1MiB"))
    resources = [
        pb.ConfigResource(type=pb.CONFIG_RESOURCE_TOPIC, name="orders"),
        pb.ConfigResource(type=pb.CONFIG_RESOURCE_BROKER, name=""),
    ]
    ops = [("retention.ms", "7d"), ("num.partitions", "3")]
    alter = pb.AlterConfigsRequest(
        resources=[
            pb.ConfigsAltered(resource=r, ops=[pb.ConfigOp(name=n, value=v)])
            for r, (n, v) in zip(resources, ops, strict=True)
        ]
    )
    altered = await node.service.alter_configs(alter, CONTEXT)
    assert [r.error.code for r in altered.resources] == [0, 0]
    described = await node.service.describe_configs(pb.DescribeConfigsRequest(resources=resources), CONTEXT)
    of_topic, of_cluster = ({e.name: (e.value, e.source) for e in r.entries} for r in described.resources)
    assert of_topic["retention.ms"] == ("604800000", "DYNAMIC_TOPIC_CONFIG")
    assert of_topic["segment.bytes"] == ("1048576", "DYNAMIC_TOPIC_CONFIG")
    assert of_topic["segment.ms"] == ("604800000", "DEFAULT_CONFIG")
    assert of_cluster["num.partitions"] == ("3", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    (created,) = await node.create(pb.NewTopic(name="default", partitions=-1, replication_factor=-1))
    assert created.partitions == 3


async def test_each_topic_has_its_own_result_and_a_dry_run_writes_nothing(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    results = await node.create(topic("good"), topic("b/d"), topic("bad", retention_ms="soon"), validate_only=True)
    assert [r.error.code for r in results] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_CONFIG]
    assert await world.keys() == set()
    results = await node.create(topic("good"), topic("b/d"))
    assert [r.error.code for r in results] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert ("topic", "good") in await world.keys()
    with pytest.raises(OttlaError, match="'twice' twice"):
        await node.create(topic("twice"), topic("twice"))


@pytest.mark.rule(34)
async def test_producer_ids_and_broker_ids_survive_the_controller_that_handed_them_out(world: World) -> None:
    await world.register(0)
    first = await world.start_active(0)

    async def ids(node: Node) -> tuple[int, int]:
        epoch = node.follower.image.brokers[0].epoch
        request = pb.AllocateProducerIdsRequest(kind="broker", instance_id=0, instance_epoch=epoch)
        block = await node.service.allocate_producer_ids(request, CONTEXT)
        asked = pb.AllocateBrokerIdRequest(directory_id="new-directory")
        return block.first, (await node.service.allocate_broker_id(asked, CONTEXT)).broker_id

    assert await ids(first) == (0, 1001)
    await first.stop()
    second = await world.start_active(1)
    assert await ids(second) == (1000, 1001)


async def test_a_broker_that_has_just_registered_gets_producer_ids(world: World) -> None:
    node = await world.start_active()
    await world.register(0)
    epoch = (await world.store.snapshot(keys.key_text(world.cluster_id, keys.broker(0)), timeout=5)).entries[0]
    request = pb.AllocateProducerIdsRequest(kind="broker", instance_id=0, instance_epoch=epoch.create_revision)
    assert (await node.service.allocate_producer_ids(request, CONTEXT)).count == 1000


# ---- elections and the fence ---------------------------------------------------------------------------------------


@pytest.mark.feature(116)
async def test_one_of_two_is_active_the_other_names_it_and_takes_over(world: World) -> None:
    await world.register(0)
    first = await world.start_active(0)
    second = await world.start(1)
    await until(lambda: second.follower.image.controller)
    with pytest.raises(OttlaError, match="active one is controller 0; ask controller-0:9640") as refused:
        raise_in_band(await error_of(second))
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    epoch = first.leadership.journal().epoch
    await first.stop()
    await until(lambda: second.leadership.active)
    assert second.leadership.journal().epoch > epoch
    assert [t.error.code for t in await second.create(topic("orders"))] == [0]


@pytest.mark.feature(121)
@pytest.mark.rule(12)
async def test_a_deposed_controller_can_not_write(world: World) -> None:
    """1. The first is active. 2. etcd ends its lease. 3. The second is elected. 4. The first wakes up, and writes."""
    await world.register(0)
    first = await world.start_active(0)
    old_term = first.leadership.journal()
    second = await world.start(1)
    await first.leadership.stop_standing()
    await world.depose()
    await until(lambda: second.leadership.active)
    seq = second.follower.image.seq
    with pytest.raises(OttlaError, match="another controller was elected") as refused:
        await old_term.commit(lambda _: write_configs("99"))
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    assert await world.keys(["configs"]) == set()
    assert second.follower.image.seq == seq
    with pytest.raises(OttlaError, match="another controller was elected"):
        await old_term.commit(lambda _: write_configs("99"))
