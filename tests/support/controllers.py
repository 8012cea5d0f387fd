"""Controllers in this process, over any store, and the brokers that they place replicas on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from waiting import until

from ottla_controller.journal import Journal
from ottla_controller.leadership import Leadership
from ottla_controller.machines.decision import Decision, Write
from ottla_controller.machines.partition_index import PartitionIndex
from ottla_controller.service import ControllerService
from ottla_core.clock import Clock
from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode, encode
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Broker, Change, Controller, ResourceConfigs
from ottla_core.cluster.store import Compare, Delete, EventBatch, MetaStore, Put, StoreUnavailableError, TxnResult
from ottla_core.errors import OttlaError
from ottla_core.rpc.context import RequestContext
from ottla_proto import controller_pb2 as pb

T = 5.0
CONTEXT = RequestContext()


class HookedStore:
    """A store that a test gets between: `before_txn` may change the world or raise instead, `flowing` holds watches."""

    def __init__(self, store: MetaStore) -> None:
        self._store = store
        self.before_txn: Callable[[Sequence[Put | Delete]], Awaitable[None]] | None = None
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.sent: list[tuple[Sequence[Compare], Sequence[Put | Delete]]] = []

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Put | Delete], *, timeout: float) -> TxnResult:
        self.sent.append((compares, ops))
        if self.before_txn is not None:
            await self.before_txn(ops)
        return await self._store.txn(compares, ops, timeout=timeout)

    async def watch(self, prefix: str, *, from_revision: int) -> AsyncGenerator[EventBatch, None]:
        async with aclosing(self._store.watch(prefix, from_revision=from_revision)) as batches:
            async for batch in batches:
                await self.flowing.wait()
                yield batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@dataclass
class Node:
    """One controller: what its process holds, without the process."""

    store: HookedStore
    follower: MetadataFollower
    leadership: Leadership
    service: ControllerService

    async def stop(self) -> None:
        await self.leadership.stop()
        await self.follower.stop()

    async def create(self, *topics: pb.NewTopic, validate_only: bool = False) -> list[pb.TopicCreated]:
        request = pb.CreateTopicsRequest(topics=topics, validate_only=validate_only)
        return list((await self.service.create_topics(request, CONTEXT)).topics)

    async def delete(self, *names: str) -> list[pb.TopicDeleted]:
        return list((await self.service.delete_topics(pb.DeleteTopicsRequest(names=names), CONTEXT)).topics)


@dataclass
class Term:
    """A journal with its follower; `ended` tells how often it said that its term is over."""

    journal: Journal
    follower: MetadataFollower
    ended: list[bool]
    lease: int


@dataclass
class World:
    """A cluster's store as a test sees it; `new_store` is a connection of its own for each process."""

    cluster_id: str
    store: MetaStore
    new_store: Callable[[], MetaStore]
    nodes: list[Node] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)

    async def start(self, node_id: int = 0) -> Node:
        """A controller that stands for election."""
        store = HookedStore(self.new_store())
        follower, index = MetadataFollower(store, self.cluster_id), PartitionIndex()
        follower.on_change(index.follow)
        follower.start()
        leadership = Leadership(
            store, follower, self.cluster_id, node_id, lambda: f"controller-{node_id}:9640", lease_ttl_s=3
        )
        node = Node(store, follower, leadership, ControllerService(leadership, follower, index))
        self.nodes.append(node)
        await leadership.start()
        return node

    async def start_active(self, node_id: int = 0) -> Node:
        node = await self.start(node_id)
        await until(lambda: node.leadership.active)
        return node

    async def begin_term(self, store: MetaStore | None = None, clock: Clock | None = None) -> Term:
        """A term by hand, of a controller that does not notice when it is over."""
        store = store or self.new_store()
        follower = MetadataFollower(store, self.cluster_id, clock=clock)
        follower.start()
        lease = await self.store.grant_lease(60, timeout=T)
        epoch = await self.put(keys.CONTROLLER, Controller(9, "controller-9:9640", 0), lease=lease)
        ended: list[bool] = []
        journal = Journal(store, follower, self.cluster_id, epoch, end_term=lambda: ended.append(True), clock=clock)
        term = Term(journal, follower, ended, lease)
        self.terms.append(term)
        await journal.open()
        return term

    async def register(self, *broker_ids: int) -> None:
        """Live brokers, under no lease."""
        for n in broker_ids:
            broker = Broker(n, 0, f"directory-{n}", f"host-{n}:9650", fenced=False)
            await self.put(keys.broker(n), broker)

    async def put(self, key: keys.Key, value: Any, *, lease: int = 0) -> int:
        put = Put(keys.key_text(self.cluster_id, key), encode(key, value), lease)
        return (await self.store.txn([], [put], timeout=T)).revision

    async def remove(self, *gone: keys.Key) -> None:
        await self.store.txn([], [Delete(keys.key_text(self.cluster_id, key)) for key in gone], timeout=T)

    async def keys(self, kinds: Iterable[str] = ("topic", "partition")) -> set[keys.Key]:
        """The keys of these kinds that are in the store now."""
        snapshot = await self.store.snapshot(keys.prefix(self.cluster_id), timeout=T)
        parsed = (keys.parse_key(self.cluster_id, e.key) for e in snapshot.entries)
        return {key for key in parsed if key is not None and key[0] in kinds}

    async def stop(self) -> None:
        for node in self.nodes:
            await node.stop()
        for term in self.terms:
            await term.journal.close(T)
            await term.follower.stop()


def unavailable(*, indefinite: bool) -> StoreUnavailableError:
    return StoreUnavailableError("etcd did not answer", indefinite=indefinite)


def topic(name: str, partitions: int = 1, **configs: str) -> pb.NewTopic:
    """As a request has it; `segment_bytes="1MiB"` is its config segment.bytes."""
    named = {n.replace("_", "."): value for n, value in configs.items()}
    return pb.NewTopic(name=name, partitions=partitions, replication_factor=1, configs=named)


def write_configs(value: str) -> Decision[None]:
    """A decision that relies on nothing but the term."""
    return Decision(None, (Write(Change(keys.configs("broker", ""), ResourceConfigs({"num.partitions": value}))),))


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
