"""What clients ask of the controller, over both stores: topics, configs, ids."""

from __future__ import annotations

import asyncio

import pytest
from controllers import CONTEXT, Node, World, topic
from waiting import LIMIT_S

from ottla_core.cluster import keys
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import controller_pb2 as pb


@pytest.mark.feature(122)
@pytest.mark.feature(123)
@pytest.mark.feature(164)
async def test_topics_are_created_grown_and_deleted(world: World) -> None:
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


async def test_who_is_answered_reads_what_was_written(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    node.store.flowing.clear()
    creating = asyncio.create_task(node.create(topic("orders")))
    text = keys.key_text(world.cluster_id, keys.topic("orders"))
    while not (await world.store.snapshot(text, timeout=LIMIT_S)).entries:
        await asyncio.sleep(0.005)
    assert not creating.done()  # it is durable, but the own image does not hold it
    node.store.flowing.set()
    await creating
    assert "orders" in node.follower.image.topics


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


@pytest.mark.feature(164)
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


async def test_what_has_no_effect_is_told_and_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.register(0)
    node = await world.start_active()
    (dry,) = await node.create(topic("kept", preallocate="true"), validate_only=True)
    assert [record for record in caplog.records if record.name.startswith("ottla")] == []
    (created,) = await node.create(topic("kept", preallocate="true"))
    (words,) = created.warnings
    assert words == "preallocate is stored; this release does not act on it yet"
    assert list(dry.warnings) == [words]
    assert f"topic kept: {words}" in caplog.text, "what clients of Kafka's protocol are not told"
    cluster = pb.ConfigResource(type=pb.CONFIG_RESOURCE_BROKER)
    ops = [pb.ConfigOp(name="log.preallocate", value="true"), pb.ConfigOp(name="num.partitions", value="2")]
    request = pb.AlterConfigsRequest(resources=[pb.ConfigsAltered(resource=cluster, ops=ops)])
    (altered,) = (await node.service.alter_configs(request, CONTEXT)).resources
    assert list(altered.warnings) == ["log.preallocate is stored; this release does not act on it yet"]
    assert f"the cluster: {altered.warnings[0]}" in caplog.text


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
    node.store.flowing.clear()
    await world.register(0)
    (entry,) = (await world.store.snapshot(keys.key_text(world.cluster_id, keys.broker(0)), timeout=LIMIT_S)).entries
    request = pb.AllocateProducerIdsRequest(kind="broker", instance_id=0, instance_epoch=entry.create_revision)
    asking = asyncio.create_task(node.service.allocate_producer_ids(request, CONTEXT))
    await asyncio.sleep(0)
    node.store.flowing.set()
    assert (await asking).count == 1000
