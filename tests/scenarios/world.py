"""The world of a story: a controller, brokers, a clock that stands, and what clients have sent and were answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from batches import NOON
from replicas import PARTITION
from tests.scenarios.controller import Controller
from tests.scenarios.node import Node, State

from ottla_broker.replication import produce as replication
from ottla_broker.replication.leading import ACKS_ALL
from ottla_broker.replication.produce import ProduceResult
from ottla_controller.machines.recovery import LogsReport
from ottla_core.clock import ManualClock
from ottla_core.records.batch import NO_PRODUCER_ID, iter_headers
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder

_TURNS: Final = 50
"""Turns of the event loop: more than any scenario needs to come to rest, as nothing waits for time or other threads."""


@dataclass(frozen=True, slots=True)
class Record:
    offset: int
    leader_epoch: int
    value: str

    def __str__(self) -> str:
        return f"{self.offset}:{self.leader_epoch}/{self.value}"


def records_in(data: bytes) -> list[Record]:
    """The records of whole batches."""
    return [
        Record(record[0], header.leader_epoch, (record[3] or b"").decode())
        for at, header in iter_headers(data)
        for record in read_records(data[at : at + header.size_bytes])
    ]


@dataclass(frozen=True, slots=True)
class Produce:
    """A produce request of one batch. `producer` is (id, epoch, first sequence); the leader epoch None is not told."""

    broker: int
    values: tuple[str, ...]
    acks: int
    producer: tuple[int, int, int] = (NO_PRODUCER_ID, -1, -1)

    def __str__(self) -> str:
        return " ".join(self.values)

    def batch(self) -> bytes:
        builder = new_builder(1 << 16)
        for value in self.values:
            assert builder.append(NOON, None, value.encode(), [])
        producer_id, epoch, sequence = self.producer
        return builder.seal(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


@dataclass
class World:
    directory: Path
    clock: ManualClock = field(default_factory=ManualClock)
    controller: Controller = field(default_factory=Controller)
    nodes: dict[int, Node] = field(default_factory=dict)
    in_sockets: list[Produce] = field(default_factory=list)
    """What was sent to brokers that are stopped."""
    waiting: list[tuple[Produce, asyncio.Task[ProduceResult]]] = field(default_factory=list)
    promised: list[str] = field(default_factory=list)
    """Values that were acknowledged with acks=all."""

    def __post_init__(self) -> None:
        self.controller.report = self._report

    async def _report(self, broker_id: int) -> LogsReport | None:
        node = self.nodes[broker_id]
        return await node.report() if node.state is State.RUNS else None

    async def create(self, brokers: int, configs: dict[str, str]) -> None:
        """Brokers 1, 2, … with one partition on all of them; everybody knows of it."""
        for broker_id in range(1, brokers + 1):
            node = Node(broker_id, self.directory / str(broker_id), self.clock, self.controller)
            self.nodes[broker_id] = node
            await node.start()
            node.register()
            await node.hear(self.controller.image)
            assert node.unfence() is None
        await self.controller.create_topic(list(self.nodes), configs)
        for node in self.running():
            await node.hear(self.controller.image)

    def running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.state is State.RUNS]

    def produce(self, sent: Produce) -> None:
        """Send it; a stopped broker finds it when it goes on."""
        node = self.nodes[sent.broker]
        if node.state is State.STOPPED:
            self.in_sockets.append(sent)
        else:
            self.waiting.append((sent, asyncio.create_task(_produced(node, sent))))

    def take_from_socket(self, broker_id: int) -> list[Produce]:
        found = [sent for sent in self.in_sockets if sent.broker == broker_id]
        self.in_sockets = [sent for sent in self.in_sockets if sent.broker != broker_id]
        return found

    def take_answered(self) -> list[tuple[Produce, ProduceResult]]:
        """The requests that are answered since the last call."""
        done = [(sent, task.result()) for sent, task in self.waiting if task.done()]
        self.waiting = [(sent, task) for sent, task in self.waiting if not task.done()]
        for sent, result in done:
            if result.error is None and sent.acks == ACKS_ALL:
                self.promised += [value for value in sent.values if value not in self.promised]
        return done

    async def cut_off(self, broker_id: int) -> list[Produce]:
        """The connections of a broker that is gone break: what it had not answered."""
        gone = [(sent, task) for sent, task in self.waiting if sent.broker == broker_id]
        self.waiting = [(sent, task) for sent, task in self.waiting if sent.broker != broker_id]
        for _, task in gone:
            task.cancel()
        await asyncio.gather(*(task for _, task in gone), return_exceptions=True)
        return [*(sent for sent, _ in gone), *self.take_from_socket(broker_id)]

    def replica_records(self, node: Node) -> list[Record]:
        log = node.replica.log
        return records_in(log.read(log.log_start_offset, 1 << 20, log.log_end_offset))

    async def rest(self) -> None:
        """Let what has been set off come to its end."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for node in self.nodes.values():
            if node.state is not State.DOWN:
                await self.cut_off(node.id)
                await node.end()


def listed(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "nobody"


async def _produced(node: Node, sent: Produce) -> ProduceResult:
    produce = replication.Produce(node.replicas.table.find, sent.acks)
    result = produce.append(PARTITION, sent.batch())
    if produce.waits:
        await produce.acknowledged()
    return result
