"""What a controller does in a cluster of 200,000 partitions: its machines, duties and journal, on the store in memory.

`python -m loadtest.scale.simulation` creates them, takes a broker away and back, and changes ISRs; of each step it
prints the work and the seconds. The last line is one JSON object. Work is counted, since that must not grow with the
partitions that a step has nothing to do with: partitions looked at for elections, transactions, keys written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Final

from ottla_controller.leadership import Leadership
from ottla_controller.machines.partition_index import PartitionIndex, leaderless, under_replicated
from ottla_controller.reconcile import Reconciler
from ottla_controller.recovery import Recoverer
from ottla_controller.service import ControllerService
from ottla_core.clock import SystemClock
from ottla_core.cluster import keys
from ottla_core.cluster.codec import encode
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Broker
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import Compare, Delete, Put, TxnResult
from ottla_core.model import PartitionId
from ottla_core.rpc.context import RequestContext
from ottla_core.telemetry import Counter, Metrics
from ottla_proto import controller_pb2 as pb

REPLICAS: Final = 3
_LARGEST_TOPIC: Final = 10_000
_LIMIT_S: Final = 600.0
_CONTEXT: Final = RequestContext()


@dataclass(frozen=True, slots=True)
class Step:
    """`concerned`: the partitions that the step is about."""

    concerned: int
    looked_at: int
    transactions: int
    written: int
    seconds: float


class _CountedStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.transactions = self.written = 0

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Put | Delete], *, timeout: float) -> TxnResult:
        self.transactions += 1
        self.written += len(ops)
        await asyncio.sleep(0)  # as a store on the network would let others run
        return await super().txn(compares, ops, timeout=timeout)


class Simulation:
    """A controller and `brokers` registrations, without their processes. `steps` has what was measured, by name."""

    def __init__(self, partitions: int, brokers: int, seed: int) -> None:
        self.steps: Final[dict[str, Step]] = {}
        self._partitions: Final = partitions
        self._brokers: Final = brokers
        self._random: Final = Random(seed)
        self._store: Final = _CountedStore()
        self._metrics: Final = Metrics()
        self._follower: Final = MetadataFollower(self._store, "simulation")
        self._index: Final = PartitionIndex()
        self._follower.on_change(self._index.follow)
        reconciler = Reconciler(self._follower, self._index, frozenset, SystemClock(), self._metrics)
        recoverer = Recoverer(self._follower, self._index, reconciler.report)
        self._leadership: Final = Leadership(
            self._store,
            self._follower,
            "simulation",
            0,
            lambda: "controller-0:9640",
            lease_ttl_s=60,
            duties=[reconciler, recoverer],
        )
        self._service: Final = ControllerService(self._leadership, self._follower, self._index)

    async def run(self) -> None:
        self._follower.start()
        await self._leadership.start()
        for number in range(self._brokers):
            await self._put(Broker(number, 0, f"directory-{number}", f"host-{number}:9650", fenced=False))
        await self._until(lambda: len(self._follower.image.brokers) == self._brokers)
        while not self._leadership.active:  # noqa: ASYNC110 - a term's start sets no event
            await asyncio.sleep(0)
        async with self._measured("create", lambda: self._follower.image.partitions):
            await self._create()
        gone = self._random.randrange(self._brokers)
        replicas = sorted(self._index.of(gone))
        async with self._measured("broker_gone", lambda: replicas):
            await self._write(Delete(keys.key_text("simulation", keys.broker(gone))))
            await self._until(lambda: len(self._index.where(under_replicated)) == len(replicas))
        assert not self._index.where(leaderless), "two others are in sync of each"
        async with self._measured("broker_back", lambda: replicas):
            await self._put(Broker(gone, 0, f"directory-{gone}", f"host-{gone}:9650", fenced=False))
            await self._until(lambda: gone in self._follower.image.brokers)
            await self._propose(replicas)
        assert not self._index.where(under_replicated), "all are in sync again"
        some = self._random.sample(sorted(self._follower.image.partitions), min(500, self._partitions))
        async with self._measured("isr_changes", lambda: some):
            for id_ in some:
                await self._propose([id_], without_last=True)
        await self._leadership.stop()
        await self._follower.stop()
        await self._store.close()

    @asynccontextmanager
    async def _measured(self, name: str, concerned: Callable[[], Any]) -> AsyncGenerator[None]:
        began, before = time.monotonic(), self._counts()
        yield
        seconds = time.monotonic() - began
        await asyncio.sleep(0.1)  # what the reconcile still looks at
        looked_at, transactions, written = (a - b for a, b in zip(self._counts(), before, strict=True))
        self.steps[name] = Step(len(concerned()), looked_at, transactions, written, round(seconds, 3))

    def _counts(self) -> tuple[int, int, int]:
        (looked_at,) = self._metrics.samples["ottla_controller_partitions_looked_at_total"].values()
        assert isinstance(looked_at, Counter)
        return int(looked_at.value), self._store.transactions, self._store.written

    async def _create(self) -> None:
        for first in range(0, self._partitions, _LARGEST_TOPIC):
            count = min(_LARGEST_TOPIC, self._partitions - first)
            topic = pb.NewTopic(name=f"from-{first}", partitions=count, replication_factor=REPLICAS)
            response = await self._service.create_topics(pb.CreateTopicsRequest(topics=[topic]), _CONTEXT)
            assert not response.topics[0].error.code, response.topics[0].error.message

    async def _propose(self, partitions: Iterable[PartitionId], *, without_last: bool = False) -> None:
        """What their leaders would: all replicas in sync, or all but the last one."""
        image = self._follower.image
        by_leader: defaultdict[int, list[pb.IsrProposal]] = defaultdict(list)
        for id_ in partitions:
            partition = image.partitions[id_]
            others = [b for b in partition.replicas if b != partition.leader]
            isr = [partition.leader, *(others[:-1] if without_last else others)]
            by_leader[partition.leader].append(
                pb.IsrProposal(
                    topic_id=id_.topic_id,
                    partition=id_.partition,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    new_isr=[pb.IsrMember(broker_id=b, broker_epoch=image.brokers[b].epoch) for b in isr],
                )
            )
        for leader, proposals in by_leader.items():
            epoch = image.brokers[leader].epoch
            request = pb.AlterPartitionRequest(broker_id=leader, broker_epoch=epoch, partitions=proposals)
            response = await self._service.alter_partition(request, _CONTEXT)
            assert not any(decided.error.code for decided in response.partitions)

    async def _put(self, broker: Broker) -> None:
        key = keys.broker(broker.id)
        await self._write(Put(keys.key_text("simulation", key), encode(key, broker)))

    async def _write(self, op: Put | Delete) -> None:
        await MemoryStore.txn(self._store, [], [op], timeout=_LIMIT_S)

    async def _until(self, condition: Callable[[], bool]) -> None:
        await self._follower.wait_for(lambda image: condition(), _LIMIT_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=200_000)
    parser.add_argument("--brokers", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(f"seed {given.seed}: {given.partitions:,} partitions x {REPLICAS} on {given.brokers} brokers", flush=True)
    simulation = Simulation(given.partitions, given.brokers, given.seed)
    asyncio.run(simulation.run())
    for name, step in simulation.steps.items():
        print(f"{name}: {step}")
    print(json.dumps({**vars(given), **{name: asdict(step) for name, step in simulation.steps.items()}}))


if __name__ == "__main__":
    main()
