"""The controller over both stores: elections, fenced writes, and what its clients are answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from uuid import uuid4

import pytest
from controllers import CONTEXT, HookedStore, Node, World, unavailable
from images import topic_id
from waiting import until

from ottla_controller import journal as journal_module
from ottla_controller.machines.decision import Decision, Write
from ottla_core.clock import ManualClock
from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.image import Change, Configs, Controller, Partition
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
    while not (await world.store.snapshot(text, timeout=5)).entries:
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
    (entry,) = (await world.store.snapshot(keys.key_text(world.cluster_id, keys.broker(0)), timeout=5)).entries
    request = pb.AllocateProducerIdsRequest(kind="broker", instance_id=0, instance_epoch=entry.create_revision)
    asking = asyncio.create_task(node.service.allocate_producer_ids(request, CONTEXT))
    await asyncio.sleep(0)
    node.store.flowing.set()
    assert (await asking).count == 1000


# ---- elections and the fence ---------------------------------------------------------------------------------------


@pytest.mark.feature(116)
async def test_one_of_two_is_active_the_other_names_it_and_takes_over(world: World) -> None:
    await world.register(0)
    first = await world.start_active(0)
    second = await world.start(1)
    await until(lambda: second.follower.image.controller)
    with pytest.raises(OttlaError, match=r"active one is controller 0.*ask controller-0:9640") as refused:
        await second.create(topic("orders"))
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    epoch = first.leadership.journal().epoch
    await first.stop()
    await until(lambda: second.leadership.active)
    assert second.leadership.journal().epoch > epoch
    assert [t.error.code for t in await second.create(topic("orders"))] == [0]


@pytest.mark.feature(116)
async def test_of_two_that_see_the_seat_vacant_one_gets_it(world: World) -> None:
    node = await world.start(0)
    winner = Controller(1, "controller-1:9640", 0)
    tried = asyncio.Event()

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if not tried.is_set():
            await world.put(keys.CONTROLLER, winner)
            tried.set()

    node.store.before_txn = before_txn
    await tried.wait()
    await until(lambda: node.follower.image.controller)
    with pytest.raises(OttlaError, match="active one is controller 1"):
        await node.create(topic("orders"))
    await world.remove(keys.CONTROLLER)
    await until(lambda: node.leadership.active)


@pytest.mark.feature(121)
async def test_a_deposed_controller_that_does_not_know_it_can_not_write(world: World) -> None:
    """1. The first is active. 2. etcd ends its lease. 3. The second is elected. 4. The first wakes up, and writes."""
    old = await world.begin_term()
    await old.journal.commit(lambda _: write_configs("2"))
    new = await world.start(1)
    await world.store.revoke_lease(old.lease, timeout=5)
    await until(lambda: new.leadership.active)
    await until(lambda: old.follower.image.revision >= new.leadership.journal().epoch)
    before = await configs(world)
    for _ in range(2):
        with pytest.raises(OttlaError, match="another controller was elected") as refused:
            await old.journal.commit(lambda _: write_configs("99"))
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
    assert await configs(world) == before
    assert old.ended == [True]


@pytest.mark.feature(116)
async def test_a_controller_that_lost_its_lease_stands_again(world: World) -> None:
    node = await world.start_active()
    epoch = node.leadership.journal().epoch
    text = keys.key_text(world.cluster_id, keys.CONTROLLER)
    (entry,) = (await world.store.snapshot(text, timeout=5)).entries
    await world.store.revoke_lease(entry.lease, timeout=5)
    await until(lambda: node.leadership.active and node.leadership.journal().epoch > epoch)
    assert node.follower.image.controller is not None


@pytest.mark.feature(121)
async def test_a_new_controller_removes_what_a_dead_one_left_half_done(world: World) -> None:
    await world.register(0)
    first = await world.start_active(0)
    (created,) = await first.create(topic("orders", 2))
    await first.stop()
    partition = Partition((0,), 0, 0, (0,))
    half_created = keys.partition(PartitionId(topic_id(7), 0))
    half_grown = keys.partition(PartitionId(TopicId(created.topic_id), 2))
    await world.put(half_created, partition)
    await world.put(half_grown, partition)
    second = await world.start_active(1)
    whole = {keys.partition(PartitionId(TopicId(created.topic_id), n)) for n in range(2)}
    assert await world.keys(["partition"]) == whole
    assert second.follower.image.topics["orders"].partition_count == 2


# ---- races ---------------------------------------------------------------------------------------------------------


async def test_of_two_admins_who_create_one_topic_one_is_told_that_it_exists(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    results = await asyncio.gather(*(node.create(topic("orders", 3)) for _ in range(2)))
    assert sorted(r.error.code for (r,) in results) == [0, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert len(await world.keys()) == 4


@pytest.mark.rule(23)
async def test_a_topic_that_is_deleted_and_created_again_has_another_id(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    (first,) = await node.create(topic("orders", 2))
    await node.delete("orders")
    (second,) = await node.create(topic("orders", 1))
    assert len(first.topic_id) == len(second.topic_id) == 16
    assert first.topic_id != second.topic_id
    assert await world.keys(["partition"]) == {keys.partition(PartitionId(TopicId(second.topic_id), 0))}


async def test_a_broker_that_dies_between_the_decision_and_the_write_gets_no_partition(world: World) -> None:
    await world.register(0, 1)
    node = await world.start_active()
    dying = [keys.broker(0)]

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if dying:
            await world.remove(dying.pop())

    node.store.before_txn = before_txn
    (created,) = await node.create(topic("orders", 2))
    image = node.follower.image
    assert created.error.code == 0
    assert {p.leader for p in image.partitions.values()} == {1}
    assert image.topics["orders"].id == created.topic_id


async def test_brokers_that_never_stay_the_same_are_an_error_in_the_end(world: World) -> None:
    await world.register(0)
    node = await world.start_active()

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        await world.remove(keys.broker(0))
        await world.register(0)

    node.store.before_txn = before_txn
    (refused,) = await node.create(topic("orders"))
    assert refused.error.code == ErrorCode.REQUEST_TIMED_OUT
    assert "changed during each of 5 attempts" in refused.error.message
    assert await world.keys() == set()


async def test_a_caller_that_goes_away_leaves_no_half_written_topic(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    began = asyncio.Event()

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        began.set()

    node.store.before_txn = before_txn
    creating = asyncio.create_task(node.create(topic("wide", 450)))
    await began.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    (next_one,) = await node.create(topic("next"))
    assert next_one.error.code == 0
    assert node.follower.image.topics.keys() == {"wide", "next"}


# ---- the store goes away -------------------------------------------------------------------------------------------


async def test_without_the_store_writes_fail_at_once_and_go_on_by_themselves(
    memory: tuple[World, MemoryStore],
) -> None:
    world, store = memory
    await world.register(0)
    node = await world.start_active()
    store.disconnect()
    began_at = time.monotonic()
    (refused,) = await node.create(topic("orders"))
    assert time.monotonic() - began_at < 0.5
    assert refused.error.code == ErrorCode.REQUEST_TIMED_OUT
    assert "nothing was changed" in refused.error.message
    assert node.leadership.active  # nobody fences itself for that (rule C12)
    store.reconnect()
    assert await outcome(node) == 0


async def test_a_lost_reply_is_read_back(memory: tuple[World, MemoryStore]) -> None:
    world, store = memory
    await world.register(0)
    node = await world.start_active()
    seq = node.follower.image.seq
    store.lose_next_reply()
    (created,) = await node.create(topic("orders", 3))
    assert created.error.code == 0
    assert node.follower.image.topics["orders"].id == created.topic_id
    assert node.follower.image.seq == seq + 1  # carried out once, although it was sent twice
    before = node.follower.image
    store.lose_next_reply()
    await node.leadership.journal().commit(lambda _: write_configs("7"))
    assert (node.follower.image.seq, node.follower.image.revision) == (before.seq + 1, before.revision + 1)


async def test_a_store_that_is_silent_for_long_is_not_waited_for(memory: tuple[World, MemoryStore]) -> None:
    world, _ = memory
    clock = ManualClock()
    term = await world.begin_term(clock=clock)
    clock.advance(journal_module.SILENCE_LIMIT_S + 1)
    with pytest.raises(OttlaError, match="last heard of 6 s ago") as refused:
        await term.journal.commit(lambda _: write_configs("7"))
    assert refused.value.retriable
    assert await configs(world) == {}


async def test_a_write_that_never_left_is_sent_again(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    failures = [unavailable(indefinite=True)]

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if failures:
            raise failures.pop()

    node.store.before_txn = before_txn
    (created,) = await node.create(topic("orders", 3))
    assert created.error.code == 0
    assert len(await world.keys()) == 4


@pytest.mark.feature(121)
async def test_a_write_whose_result_stays_unknown_ends_the_term_and_comes_too_late(world: World) -> None:
    """1. A write is delayed on its way. 2. Its result is looked for until the term ends. 3. Another controller is
    elected. 4. The write arrives."""
    clock = ManualClock()
    store = HookedStore(world.new_store())
    term = await world.begin_term(store, clock=clock)

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        clock.advance(journal_module.UNKNOWN_LIMIT_S)
        raise unavailable(indefinite=True)

    store.before_txn = before_txn
    with pytest.raises(OttlaError, match="may have been done") as unknown:
        await term.journal.commit(lambda _: write_configs("99"))
    assert unknown.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert term.ended == [True]
    with pytest.raises(OttlaError, match="not known what became of a write"):
        await term.journal.commit(lambda _: write_configs("99"))
    await world.store.revoke_lease(term.lease, timeout=5)
    await world.start_active(1)
    late = store.sent[-1]
    assert not (await world.store.txn(*late, timeout=5)).succeeded
    assert await configs(world) == {}


async def test_what_is_left_half_written_is_removed_before_the_next_decision(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    left = [3]

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise unavailable(indefinite=False)

    node.store.before_txn = before_txn
    (refused,) = await node.create(topic("wide", 450))
    assert refused.error.code == ErrorCode.REQUEST_TIMED_OUT
    assert len(await world.keys()) == 200
    (created,) = await node.create(topic("next"))
    assert created.error.code == 0
    assert await world.keys() == {
        keys.topic("next"),
        keys.partition(PartitionId(TopicId(created.topic_id), 0)),
    }


async def test_a_topic_is_deleted_with_its_topic_key_whatever_becomes_of_its_partitions(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    await node.create(topic("wide", 250))

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if len(node.store.sent) > sent + 1:
            raise unavailable(indefinite=False)

    sent = len(node.store.sent)
    node.store.before_txn = before_txn
    (deleted,) = await node.delete("wide")
    assert (deleted.error.code, len(await world.keys())) == (0, 151)
    node.store.before_txn = None
    (again,) = await node.create(topic("wide", 2))
    assert (again.error.code, len(await world.keys())) == (0, 3)


async def test_no_decision_is_made_from_an_image_that_lacks_an_own_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image holds a topic's first partitions and not yet its topic key: by it, they would have to be removed."""
    monkeypatch.setattr(journal_module, "IMAGE_TIMEOUT_S", 0.1)
    await world.register(0)
    node = await world.start_active()

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if len(ops) < 100:
            await until(lambda: len(node.follower.image.partitions) == 100)
            node.store.flowing.clear()

    node.store.before_txn = before_txn
    (whole,) = await node.create(topic("whole", 150))
    assert (whole.error.code, "whole" in node.follower.image.topics) == (0, False)
    assert await outcome(node) == ErrorCode.REQUEST_TIMED_OUT
    node.store.before_txn = None
    node.store.flowing.set()
    await until(lambda: "whole" in node.follower.image.topics)
    assert await outcome(node) == 0
    assert len(await world.keys(["partition"])) == 151


async def test_etcd_is_killed_and_comes_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The term goes on where its lease outlived the outage, or else a new one begins; nobody has to do anything."""
    etcd = EmbeddedEtcd(plan_etcd(tmp_path_factory.mktemp("killed-etcd")))
    etcd.start()
    stores: list[EtcdStore] = []

    def connect() -> EtcdStore:
        stores.append(EtcdStore([etcd.endpoint]))
        return stores[-1]

    world = World("test", connect(), connect)
    try:
        await world.register(0)
        node = await world.start_active()
        await asyncio.to_thread(etcd.stop)
        began_at = time.monotonic()
        code = await outcome(node)
        assert code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)
        assert time.monotonic() - began_at < 2 * journal_module.STORE_TIMEOUT_S + journal_module.UNKNOWN_LIMIT_S
        await asyncio.to_thread(etcd.start)
        async with asyncio.timeout(20):
            while (code := await outcome(node)) not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                assert OttlaError(code, "").retriable
                await asyncio.sleep(0.01)
        assert node.follower.image.topics.keys() == {"orders"}
    finally:
        await world.stop()
        for store in stores:
            await store.close()
        await asyncio.to_thread(etcd.stop)


async def outcome(node: Node) -> int:
    """The error code that creating `orders` is answered with."""
    try:
        (created,) = await node.create(topic("orders"))
    except OttlaError as error:
        return error.code
    return created.error.code


async def configs(world: World) -> dict[str, str]:
    """The cluster-wide configs, as they lie in the store."""
    text = keys.key_text(world.cluster_id, keys.configs("broker", ""))
    entries = (await world.store.snapshot(text, timeout=5)).entries
    return {} if not entries else dict(decode(keys.configs("broker", ""), entries[0]).values)
