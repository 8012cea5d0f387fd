"""What a hop between a broker and a coordinator costs for what Kafka's clients ask through the broker: the CPU time of
all services for each request, without what they take while nobody asks.

One broker, one group-coordinator and one txn-coordinator. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

import ottla
from loadtest.rows.connections import text
from loadtest.rows.footprint import cpu_seconds
from loadtest.rows.group_calls import GroupCalls
from loadtest.rows.heartbeats import INTERVAL_S, joined, kafka_clients
from ottla_core.host_port import HostPort
from ottla_core.process import descriptors
from ottla_stack.running import RunningStack

TOPIC: Final = "hops"
AT_ONCE: Final = 64
LIMIT_S: Final = 60.0
SERVICES: Final = ("broker-0", "group-coordinator-0", "txn-coordinator-0")
_OFFSET_COMMIT: Final = 8
_SETTLE_S: Final = 5.0

Request = Callable[[int], Awaitable[None]]
"""One request of the client with this number, answered well."""


class ServicesCpu:
    """The CPU time of the services, and what they take while nobody asks."""

    def __init__(self, stack: RunningStack) -> None:
        self._pids: Final = {name: stack.pid(name) for name in SERVICES}
        self._idle_per_s = dict.fromkeys(SERVICES, 0.0)

    def measure_idle(self, seconds: float) -> None:
        before = self._read()
        time.sleep(seconds)
        self._idle_per_s = {name: (s - before[name]) / seconds for name, s in self._read().items()}

    def start(self) -> Callable[[int], dict[str, float]]:
        """Return a function that tells the microseconds of each request since now, by service and in all."""
        before, began = self._read(), time.monotonic()

        def per_request(requests: int) -> dict[str, float]:
            took_s = time.monotonic() - began
            used_s = {n: s - before[n] - self._idle_per_s[n] * took_s for n, s in self._read().items()}
            each = {name: 1e6 * s / requests for name, s in used_s.items()}
            return {**each, "all": sum(each.values()), "per_s": requests / took_s}

        return per_request

    def _read(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()}


@contextmanager
def measured_stack(topic: str, partitions: int) -> Iterator[tuple[RunningStack, ServicesCpu]]:
    """Start one broker and one coordinator of each kind, create a topic, and measure the CPU time of idle services."""
    descriptors.raise_limit()
    directory = Path(tempfile.mkdtemp(prefix=f"ottla-{topic}-"))
    try:
        with RunningStack(directory / "stack", brokers=1, group_coordinators=1, txn_coordinators=1) as stack:
            with ottla.Admin(stack.bootstrap) as admin:
                admin.topics.create(topic, partitions=partitions, if_exists="ok")
            cpu = ServicesCpu(stack)
            time.sleep(_SETTLE_S)
            cpu.measure_idle(5.0)
            yield stack, cpu
    finally:
        shutil.rmtree(directory)


async def closed(cpu: ServicesCpu, clients: int, request: Request, seconds: float) -> dict[str, float]:
    """Each client makes its next request when the last one is answered."""
    took_ms: list[float] = []

    async def ask_on(number: int, ends_at: float) -> None:
        while (began := time.monotonic()) < ends_at:
            await request(number)
            took_ms.append((time.monotonic() - began) * 1000)

    async def ask_for(seconds: float) -> None:
        took_ms.clear()
        await asyncio.gather(*(ask_on(n, time.monotonic() + seconds) for n in range(clients)))

    await ask_for(1.0)
    per_request = cpu.start()
    await ask_for(seconds)
    return {**per_request(len(took_ms)), "p50_ms": statistics.median(took_ms)}


async def paced(cpu: ServicesCpu, clients: int, request: Request, seconds: float) -> dict[str, float]:
    """Each client makes a request every 3 s, as a member sends heartbeats."""
    done = 0

    async def live(number: int, ends_at: float) -> None:
        nonlocal done
        await asyncio.sleep(INTERVAL_S * number / clients)
        while time.monotonic() < ends_at:
            await request(number)
            done += 1
            await asyncio.sleep(INTERVAL_S)

    living = [asyncio.create_task(live(n, time.monotonic() + INTERVAL_S + seconds)) for n in range(clients)]
    await asyncio.sleep(INTERVAL_S)
    had, per_request = done, cpu.start()
    await asyncio.sleep(seconds)
    found = per_request(done - had)
    await asyncio.gather(*living)
    return found


async def committers(address: str, clients: int, connections: AsyncExitStack) -> Request:
    """Each commits one offset of a group of its own, over a connection of its own."""
    streams = []
    for _ in range(clients):
        reader, writer = await asyncio.open_connection(*HostPort.parse(address))
        connections.callback(writer.close)
        streams.append((reader, writer))
    head = struct.pack(">hhih", _OFFSET_COMMIT, 2, 1, -1)
    offset = 0

    async def commit(number: int) -> None:
        nonlocal offset
        offset += 1
        reader, writer = streams[number]
        one = struct.pack(">i", 1) + struct.pack(">iq", 0, offset) + text("")
        body = text(f"commits-{number}") + struct.pack(">i", -1) + text("") + struct.pack(">q", -1)
        body += struct.pack(">i", 1) + text(TOPIC) + one
        writer.write(struct.pack(">i", len(head) + len(body)) + head + body)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        (error,) = struct.unpack(">h", (await reader.readexactly(size))[-2:])
        assert error == 0, f"a commit was refused with {error}"

    return commit


def transactions(cpu: ServicesCpu, address: str, count: int) -> dict[str, float]:
    """One record in each of three partitions and one offset; a commit is timed from the offset to the decision."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": TOPIC, "linger.ms": 0})
    group = Consumer({"bootstrap.servers": address, "group.id": "of-transactions"})
    producer.init_transactions(LIMIT_S)
    took_ms: list[float] = []

    def one(number: int) -> None:
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(TOPIC, b"value", partition=partition)
        assert producer.flush(LIMIT_S) == 0
        began = time.monotonic()
        metadata = group.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, number)], metadata, LIMIT_S)
        producer.commit_transaction(LIMIT_S)
        took_ms.append((time.monotonic() - began) * 1000)

    for number in range(20):
        one(number)
    took_ms.clear()
    per_request = cpu.start()
    for number in range(count):
        one(number)
    found = {**per_request(count), "p50_ms": statistics.median(took_ms)}
    group.close()
    return found


async def measure(stack: RunningStack, cpu: ServicesCpu, given: argparse.Namespace) -> dict[str, dict[str, float]]:
    address = stack.bootstrap
    found = {}
    async with AsyncExitStack() as connections, GroupCalls(stack) as calls:
        members = await joined(calls, given.members, 1)
        beat = await kafka_clients(stack, members, connections)
        found["heartbeats, each every 3 s"] = await paced(
            cpu, given.members, lambda n: beat(members[n]), 2 * INTERVAL_S
        )
        found["heartbeats, 64 at once"] = await closed(cpu, AT_ONCE, lambda n: beat(members[n]), given.seconds)
        commit = await committers(address, AT_ONCE, connections)
        found["commit alone"] = await closed(cpu, 1, commit, given.seconds)
        found["commits, 64 at once"] = await closed(cpu, AT_ONCE, commit, given.seconds)
    found["transaction"] = await asyncio.to_thread(transactions, cpu, address, given.transactions)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--transactions", type=int, default=150)
    given = parser.parse_args()
    with measured_stack(TOPIC, 3) as (stack, cpu):
        print(json.dumps(asyncio.run(measure(stack, cpu, given))))


if __name__ == "__main__":
    main()
