"""All partitions of a broker, on a real data directory, while the metadata changes under them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from logs import SMALL, values_batch
from waiting import until

from ottla_broker.disk_threads import DiskThreads
from ottla_broker.machines.epochs import EpochStart
from ottla_broker.replica import Replica
from ottla_broker.replicas import Replicas
from ottla_broker.storage import checkpoint
from ottla_broker.storage.identity import Identity
from ottla_broker.storage.log_dir import LogDir
from ottla_core.clock import ManualClock
from ottla_core.cluster.image import Broker, ClusterImage, Partition, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId

TOPIC = TopicId(b"t" * 16)
ID = PartitionId(TOPIC, 0)
LED = Partition(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1,))


def image_of(partition: Partition, revision: int) -> ClusterImage:
    return ClusterImage(
        "c",
        revision,
        brokers={n: Broker(n, 10 + n, "d", f"localhost:{n}", fenced=False) for n in (1, 2)},
        topics={"t": Topic("t", TOPIC, 1)},
        topic_names={TOPIC: "t"},
        partitions={ID: partition},
    )


class Metadata:
    """A follower of metadata that follows the test."""

    def __init__(self, partition: Partition) -> None:
        self.image = image_of(partition, 1)
        self._listeners: list[Callable[[ClusterImage, ClusterImage], None]] = []

    def on_change(self, listener: Callable[[ClusterImage, ClusterImage], None]) -> None:
        self._listeners.append(listener)

    def become(self, partition: Partition) -> None:
        old, self.image = self.image, image_of(partition, self.image.revision + 1)
        for listener in self._listeners:
            listener(old, self.image)


class Held:
    """Broker 1, which is trusted with all that it had."""

    def __init__(self, path: Path) -> None:
        clock = ManualClock()
        self.metadata: Any = Metadata(LED)
        self.log_dir = LogDir.open(path, Identity("c", 1, "d" * 22), SMALL, now_ms=clock.wall_ms())
        self.log_dir.vouch()
        self.replicas = Replicas(self.metadata, lambda: self.log_dir, clock, DiskThreads(), lambda error: None)

    @property
    def replica(self) -> Replica:
        return self.replicas.find(ID)

    def epochs_on_disk(self) -> list[EpochStart] | None:
        return checkpoint.read_epochs(self.replica.log.directory / checkpoint.LEADER_EPOCHS)


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Held]:
    held = Held(tmp_path / "data")
    await held.replicas.start()
    yield held
    await held.replicas.stop()
    held.log_dir.abandon()


class Gate:
    """Something that waits for the disk until it is let go."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        self.reached.set()
        assert self.open.wait(20)
        return self._call(*arguments)


@pytest.mark.rule(4)
async def test_nothing_is_taken_before_the_start_of_the_epoch_is_on_the_platter(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = held.replica
    replica.append(values_batch(b"a"))
    gate = Gate(checkpoint.write_epochs)
    monkeypatch.setattr(checkpoint, "write_epochs", gate)
    held.metadata.become(replace(LED, leader_epoch=2, partition_epoch=1))
    await until(gate.reached.is_set)
    with pytest.raises(OttlaError) as refused:
        replica.append(values_batch(b"too early"))
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    gate.open.set()
    await until(lambda: replica.leads)
    assert held.epochs_on_disk() == [(1, 0), (2, 1)]
    assert replica.append(values_batch(b"b")).base_offset == 1


@pytest.mark.rule(4)
async def test_a_log_that_is_being_cut_leads_when_it_is_whole_again(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = held.replica
    replica.append(values_batch(b"a"))
    held.metadata.become(replace(LED, leader=2, leader_epoch=2, isr=(2,), partition_epoch=1))
    await until(lambda: not replica.leads)
    gate = Gate(replica.log.truncate_to)
    monkeypatch.setattr(replica.log, "truncate_to", gate)
    cutting = asyncio.create_task(replica.on_diverging(2, EpochStart(1, 0)))
    await until(gate.reached.is_set)
    held.metadata.become(replace(LED, leader_epoch=3, partition_epoch=2))
    await until(lambda: replica.leader_id is None)
    assert held.epochs_on_disk() == [(1, 0)], "the epoch would begin where the log is about to end no more"
    gate.open.set()
    await cutting
    await until(lambda: replica.leads)
    assert held.epochs_on_disk() == [(3, 0)]


async def test_a_partition_that_goes_is_forgotten(held: Held) -> None:
    forgotten: list[PartitionId] = []
    held.replicas.on_proposal(lambda replica: None, forgotten.append)
    held.metadata.become(replace(LED, replicas=(2,), leader=2, leader_epoch=2, isr=(2,)))
    await until(lambda: not held.replicas.all())
    assert forgotten == [ID]
