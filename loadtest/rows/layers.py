"""Where the time of one request goes: the calls between the services that it takes, and the CPU of each layer.

A cluster in this process serves librdkafka: first without a profile, which gives the CPU time by thread, and then with
cProfile on the thread of the services, which divides that thread's time. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

import ottla
from ottla_core.rpc.server import Endpoint
from ottla_stack.cluster import Cluster

TOPIC: Final = "layers"
LIMIT_S: Final = 60.0

_LAYERS: Final = (
    ("protobuf", ("google/protobuf", "google._upb", "SerializeToString", "FromString", "ByteSize", "WhichOneof")),
    ("gRPC's Python", ("/grpc/", "cygrpc", "grpc.")),
    ("our code", ("/core/ottla_core", "/services/", "/proto/")),
    ("disk", ("posix.", "fsync", "pwrite", "writev", "preadv", "sendfile")),
    ("asyncio", ("asyncio", "uvloop", "_contextvars", "concurrent/futures", "threading")),
)


class Exchanges:
    """The calls that services answered, with their milliseconds."""

    def __init__(self) -> None:
        self.took_ms: Final = defaultdict[str, list[float]](list)

    @contextmanager
    def watched(self) -> Iterator[None]:
        call = Endpoint.call

        async def timed(endpoint: Endpoint, request: Any, context: Any) -> Any:
            began = time.perf_counter()
            try:
                return await call(endpoint, request, context)
            finally:
                took_ms = (time.perf_counter() - began) * 1000
                self.took_ms[f"{endpoint.method.service}.{endpoint.method.name}"].append(took_ms)

        Endpoint.call = timed  # type: ignore[assignment, method-assign]  # for a while
        try:
            yield
        finally:
            Endpoint.call = call  # type: ignore[method-assign]  # as it was

    def each(self, requests: int) -> dict[str, dict[str, float]]:
        return {
            name: {"calls": len(ms) / requests, "p50_ms": statistics.median(ms)} for name, ms in self.took_ms.items()
        }


def threads_cpu_s() -> Counter[str]:
    """The CPU time of this process's threads, by name without digits."""
    found = Counter[str]()
    for task in Path("/proc/self/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        name = (task / "comm").read_text().strip().rstrip("0123456789_-")
        found[name] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # type: ignore[assignment]  # a Counter of seconds
    return found


def layer_of(file: str, function: str) -> str:
    where = f"{file} {function}"
    return next((name for name, marks in _LAYERS if any(mark in where for mark in marks)), "the rest of Python")


def by_layer(profile: cProfile.Profile, requests: int) -> dict[str, float]:
    """Microseconds of each request by the layer of the function that took them."""
    found = Counter[str]()
    stats: Any = pstats.Stats(profile)
    for (file, _, function), (_, _, own_s, _, _) in stats.stats.items():
        found[layer_of(file, function)] += 1e6 * own_s / requests
    return dict(found.most_common())


class Transactions:
    """One record in each of three partitions, and one offset."""

    def __init__(self, bootstrap: str) -> None:
        self._producer: Final = Producer({"bootstrap.servers": bootstrap, "transactional.id": TOPIC, "linger.ms": 0})
        self._group: Final = Consumer({"bootstrap.servers": bootstrap, "group.id": TOPIC})
        self._producer.init_transactions(LIMIT_S)

    def one(self, number: int) -> None:
        self._producer.begin_transaction()
        for partition in range(3):
            self._producer.produce(TOPIC, b"value", partition=partition)
        assert self._producer.flush(LIMIT_S) == 0
        metadata = self._group.consumer_group_metadata()
        self._producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, number)], metadata, LIMIT_S)
        self._producer.commit_transaction(LIMIT_S)


class Records:
    """One record, acks=all."""

    def __init__(self, bootstrap: str) -> None:
        self._producer: Final = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})

    def one(self, number: int) -> None:
        self._producer.produce(TOPIC, b"value", partition=number % 3)
        assert self._producer.flush(LIMIT_S) == 0


def measure(cluster: Cluster, one: Callable[[int], None], count: int) -> dict[str, Any]:
    for number in range(20):
        one(number)
    exchanges = Exchanges()
    before, began = threads_cpu_s(), time.monotonic()
    with exchanges.watched():
        for number in range(count):
            one(number)
    took_s = time.monotonic() - began
    used = threads_cpu_s()
    used.subtract(before)
    profile = cProfile.Profile()

    async def enable() -> None:
        profile.enable()

    async def disable() -> None:
        profile.disable()

    cluster.run(enable())
    for number in range(count):
        one(number)
    cluster.run(disable())
    return {
        "ms": 1000 * took_s / count,
        "exchanges": exchanges.each(count),
        "threads_us": {name: 1e6 * s / count for name, s in used.most_common(8) if s},
        "profiled_loop_us": by_layer(profile, count),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    given = parser.parse_args()
    with Cluster(brokers=given.brokers, group_coordinators=1, txn_coordinators=1) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create(TOPIC, partitions=3, if_exists="ok")
        found = {
            "transaction": measure(cluster, Transactions(cluster.bootstrap).one, given.count),
            "record, acks=all": measure(cluster, Records(cluster.bootstrap).one, given.count),
        }
        print(json.dumps(found))


if __name__ == "__main__":
    main()
