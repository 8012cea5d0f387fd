"""The store goes away, answers nothing or loses an answer: what the controller says, and how it goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from controllers import HookedStore, World, configs, outcome, topic, unavailable, write_configs
from waiting import LIMIT_S, until

from ottla_controller import journal as journal_module
from ottla_core.clock import ManualClock
from ottla_core.cluster import keys
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import Delete, Put
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_stack.embedded_etcd import EmbeddedEtcd, plan_etcd


async def test_without_the_store_writes_fail_at_once_and_go_on_by_themselves(
    memory: tuple[World, MemoryStore],
) -> None:
    world, store = memory
    await world.register(0)
    node = await world.start_active()
    store.disconnect()
    began_at = time.monotonic()
    (refused,) = await node.create(topic("orders"))
    assert time.monotonic() - began_at < journal_module.STORE_TIMEOUT_S
    assert refused.error.code == ErrorCode.REQUEST_TIMED_OUT
    assert "nothing was changed" in refused.error.message
    assert node.leadership.active  # nobody fences itself while the store is away (rule C12)
    store.reconnect()
    assert await outcome(node) == 0


async def test_a_lost_response_is_read_back(memory: tuple[World, MemoryStore]) -> None:
    world, store = memory
    await world.register(0)
    node = await world.start_active()
    seq = node.follower.image.seq
    store.lose_next_response()
    (created,) = await node.create(topic("orders", 3))
    assert created.error.code == 0
    assert node.follower.image.topics["orders"].id == created.topic_id
    assert node.follower.image.seq == seq + 1  # carried out once, although it was sent twice
    before = node.follower.image
    store.lose_next_response()
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
    with pytest.raises(OttlaError, match="may have been made") as unknown:
        await term.journal.commit(lambda _: write_configs("99"))
    assert unknown.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert term.ended == [True]
    with pytest.raises(OttlaError, match="outcome of a write is unknown"):
        await term.journal.commit(lambda _: write_configs("99"))
    await world.store.revoke_lease(term.lease, timeout=LIMIT_S)
    await world.start_active(1)
    late = store.sent[-1]
    assert not (await world.store.txn(*late, timeout=LIMIT_S)).succeeded
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
