"""Requests that wait for the controller, and writes whose result is not known: who is served, and what is believed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest
from controllers import CONTEXT, HookedStore, World, configs, unavailable, write_configs
from waiting import LIMIT_S

from ottla_controller import journal as journal_module
from ottla_controller.machines.decision import Decision, ReliedOn, Write
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage, Controller, ResourceConfigs
from ottla_core.cluster.store import Delete, Put, Snapshot
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import controller_pb2 as pb


class Gate:
    """Holds the transactions of a store until it is opened."""

    def __init__(self, store: HookedStore) -> None:
        self.reached, self._open = asyncio.Event(), asyncio.Event()
        store.before_txn = self._before_txn

    async def _before_txn(self, ops: Sequence[Put | Delete]) -> None:
        self.reached.set()
        await self._open.wait()

    def open(self) -> None:
        self._open.set()


async def test_a_request_whose_caller_has_gone_before_its_turn_is_not_decided(world: World) -> None:
    node = await world.start_active()
    journal, gate, decided = node.leadership.journal(), Gate(node.store), []

    def decide(image: ClusterImage) -> Decision[None]:
        decided.append(image)
        return write_configs("99")

    first = asyncio.create_task(journal.commit(lambda _: write_configs("1")))
    await gate.reached.wait()
    gone = asyncio.create_task(journal.commit(decide))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    gate.open()
    await first
    await journal.commit(lambda _: write_configs("2"))
    assert decided == []
    assert await configs(world) == {"num.partitions": "2"}


async def test_a_decision_that_fails_after_its_caller_has_gone_is_no_unhandled_error(world: World) -> None:
    node = await world.start_active()
    journal, reached, ending = node.leadership.journal(), asyncio.Event(), asyncio.Event()
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        reached.set()
        await ending.wait()
        raise OttlaError(ErrorCode.NOT_CONTROLLER, "this controller has stepped down")

    node.store.before_txn = before_txn
    gone = asyncio.create_task(journal.commit(lambda _: write_configs("1")))
    await reached.wait()
    (decision,) = journal._running
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    ending.set()
    await asyncio.wait({decision})
    del decision
    gc.collect()
    assert unhandled == []


async def test_more_requests_than_may_wait_are_refused_and_elections_go_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "MAX_WAITING", 2)
    node = await world.start_active()
    journal, gate = node.leadership.journal(), Gate(node.store)
    order: list[str] = []

    async def commit(name: str, *, urgent: bool = False) -> None:
        await journal.commit(lambda _: order.append(name) or write_configs(name), urgent=urgent)

    tasks = [asyncio.create_task(commit("1"))]
    await gate.reached.wait()
    tasks += [asyncio.create_task(commit(name)) for name in ("2", "3")]
    await asyncio.sleep(0)
    with pytest.raises(OttlaError, match="2 requests are already waiting for the controller") as refused:
        await commit("4")
    assert refused.value.retriable
    tasks.append(asyncio.create_task(commit("election", urgent=True)))
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(*tasks)
    assert order == ["1", "election", "2", "3"]


class TakenOver(HookedStore):
    """Another controller takes over between the first and the second read of a refused transaction."""

    def __init__(self, world: World) -> None:
        super().__init__(world.new_store())
        self._world = world
        self.lease = 0
        self.armed = False

    async def snapshot(self, prefix: str, **given: Any) -> Snapshot:
        snapshot = await self._store.snapshot(prefix, **given)
        if self.armed:
            self.armed = False
            await self._world.store.revoke_lease(self.lease, timeout=LIMIT_S)
            await self._world.put(keys.CONTROLLER, Controller(8, "controller-8:9640", 0))
            await self._world.put(keys.SEQ, 2)
        return snapshot


@pytest.mark.feature(121)
async def test_a_write_that_was_never_made_is_not_taken_for_made_because_another_controller_wrote(world: World) -> None:
    """1. A write gets lost, its result is not known. 2. It is sent again, and refused: a broker it relied on is gone.
    3. Why, is read. Meanwhile another controller is elected, and writes: `seq` has moved, and not by us.
    """
    await world.register(0)
    store = TakenOver(world)
    term = await world.begin_term(store)
    await term.journal.commit(lambda _: write_configs("1"))
    store.lease = term.lease
    sendings = 0

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        nonlocal sendings
        sendings += 1
        if sendings == 1:
            raise unavailable(indefinite=True)
        await world.remove(keys.broker(0))
        store.armed = True

    store.before_txn = before_txn
    epoch = term.follower.image.brokers[0].epoch
    relying = Write(
        Change(keys.configs("broker", ""), ResourceConfigs({"num.partitions": "99"})),
        (ReliedOn(keys.broker(0), create_revision=epoch),),
    )
    with pytest.raises(OttlaError, match="another controller was elected") as refused:
        await term.journal.commit(lambda _: Decision(None, (relying,)))
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    assert await configs(world) == {"num.partitions": "1"}


@pytest.mark.parametrize(
    ("resource", "op", "words"),
    [
        (pb.ConfigResource(type=pb.CONFIG_RESOURCE_BROKER, name="9" * 5_000), 0, "is not a broker id"),
        (pb.ConfigResource(type=pb.CONFIG_RESOURCE_BROKER, name="２"), 0, "is not a broker id"),
        (pb.ConfigResource(type=pb.CONFIG_RESOURCE_BROKER, name=""), 7, "7 is not an operation on a config"),
        (pb.ConfigResource(type=9, name=""), 0, "configs belong to a topic, a broker, a group"),  # type: ignore[arg-type]  # what no type allows
    ],
)
async def test_what_no_client_of_this_release_sends_is_refused_in_words(
    world: World, resource: pb.ConfigResource, op: int, words: str
) -> None:
    node = await world.start_active()
    ops = [pb.ConfigOp(name="num.partitions", op=op, value="2")]  # type: ignore[arg-type]  # what no type allows
    request = pb.AlterConfigsRequest(resources=[pb.ConfigsAltered(resource=resource, ops=ops)])
    (result,) = (await node.service.alter_configs(request, CONTEXT)).resources
    assert result.error.code == ErrorCode.INVALID_REQUEST
    assert words in result.error.message
    assert await configs(world) == {}
