"""What connections of Kafka's protocol cost a broker: thousands that are idle, and some that ask and do not read.

The idle ones have asked for the versions, as every client does first. Their effect on others is the 99th percentile of
a produce (acks=1, one at a time) at a broker that has them and at one that has none. Both are asked in turn, so that
what else the machine does meets them alike, and with every pair they change places. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import ottla
from ottla_core.host_port import HostPort
from ottla_core.process import descriptors
from ottla_core.records.twins import new_builder
from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb

TOPIC: Final = "bench"
_LIMIT_S: Final = 30.0
_FILL_MB: Final = 64
_SETTLE_S: Final = 2.0
_STALL_S: Final = 5.0
_FETCHES: Final = 64
"""Each reader that stalls has asked for so many answers of a few MB."""
_WARM_UP: Final = 8
_RESET: Final = struct.pack("ii", 1, 0)

_PRODUCE, _FETCH, _API_VERSIONS = 0, 1, 18


class KafkaConnection:
    """One connection; `ask` waits for the answer, `send` does not."""

    def __init__(self, address: str) -> None:
        self._socket: Final = socket.create_connection(HostPort.parse(address), timeout=_LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)  # its port is free again at once

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def send(self, key: int, version: int, body: bytes) -> None:
        head = struct.pack(">hhih", key, version, 1, -1)
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)

    def ask(self, key: int, version: int, body: bytes) -> bytes:
        self.send(key, version, body)
        (size_bytes,) = struct.unpack(">i", self._read(4))
        return self._read(size_bytes)

    def _read(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            piece = self._socket.recv(size_bytes - len(data))
            if not piece:
                raise ConnectionError("the broker has closed the connection")
            data += piece
        return bytes(data)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def produce_body(partition: int) -> bytes:
    """Return a Produce body of version 3: one record of 100 bytes, acks=1."""
    builder = new_builder(max_bytes=1 << 20)
    builder.append(1_700_000_000_000, None, bytes(100))
    records = builder.seal()
    of_topic = text(TOPIC) + struct.pack(">iii", 1, partition, len(records)) + records
    return struct.pack(">hhii", -1, 1, 10_000, 1) + of_topic


def fetch_body() -> bytes:
    """Return a Fetch body of version 4, from the first offset to the end."""
    of_topic = text(TOPIC) + struct.pack(">iiqi", 1, 0, 0, 1 << 30)
    return struct.pack(">iiiibi", -1, 0, 1, 1 << 30, 0, 1) + of_topic


@contextmanager
def idle_connections(address: str, count: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(KafkaConnection(address)).ask(_API_VERSIONS, 0, b"")
        yield


def produce_p99_ms(addresses: Sequence[str], requests: int) -> list[float]:
    """Return the p99 of each broker, which leads the partition with its number; brokers are measured in alternation."""
    bodies = [produce_body(partition) for partition in range(len(addresses))]
    taken: list[list[float]] = [[] for _ in addresses]
    with ExitStack() as stack:
        connections = [stack.enter_context(KafkaConnection(address)) for address in addresses]
        for _ in range(requests):
            for connection, body, times in zip(connections, bodies, taken, strict=True):
                began = time.perf_counter()
                answer = connection.ask(_PRODUCE, 3, body)
                times.append(1000 * (time.perf_counter() - began))
                (error,) = struct.unpack_from(">h", answer, 4 + 4 + len(text(TOPIC)) + 4 + 4)
                assert error == 0, f"the produce was refused with {error}"
    return [statistics.quantiles(times, n=100)[98] for times in taken]


def settled_mb(pid: int) -> float:
    time.sleep(_SETTLE_S)
    return resident_mb(pid)


def measure_idle(
    addresses: Sequence[str], pids: Sequence[int], count: int, pairs: int, requests: int
) -> dict[str, object]:
    produce_p99_ms(addresses, requests)  # warm
    more_mb: list[float] = []
    p99_ms: list[tuple[float, float]] = []
    for number in range(pairs):
        crowded = number % len(addresses)
        before_mb = settled_mb(pids[crowded])
        with idle_connections(addresses[crowded], count):
            more_mb.append(settled_mb(pids[crowded]) - before_mb)
            measured = produce_p99_ms(addresses, requests)
        p99_ms.append((measured[crowded], measured[1 - crowded]))
    return {
        "connections": count,
        "more_mb": round(max(more_mb), 1),
        "p99_ms": [[round(ms, 3) for ms in pair] for pair in p99_ms],
        "p99_ratio": round(statistics.median(with_them / without for with_them, without in p99_ms), 3),
    }


def measure_stalled(address: str, pid: int, count: int) -> dict[str, object]:
    """The most that the broker holds while so many connections ask for answers of a few MB and read none of them."""
    body, most_mb = fetch_body(), 0.0
    with KafkaConnection(address) as reader:
        for _ in range(_WARM_UP):
            reader.ask(_FETCH, 4, body)
    before_mb = settled_mb(pid)
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(KafkaConnection(address))
            for _ in range(_FETCHES):
                connection.send(_FETCH, 4, body)
        give_up_at = time.monotonic() + _STALL_S
        while time.monotonic() < give_up_at:
            most_mb = max(most_mb, resident_mb(pid))
            time.sleep(0.05)
        (p99_ms,) = produce_p99_ms([address], 1_000)
    return {
        "readers": count,
        "more_mb": round(most_mb - before_mb, 1),
        "mb_each": round((most_mb - before_mb) / count, 2),
        "produce_p99_ms": round(p99_ms, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=5_000)
    parser.add_argument("--stalled", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--requests", type=int, default=10_000, help="produces of each measurement")
    given = parser.parse_args()
    descriptors.raise_limit()
    directory = Path(tempfile.mkdtemp(prefix="ottla-connections-"))
    try:
        with RunningStack(directory, brokers=2) as stack:
            ottla.Admin(stack.bootstrap).topics.create(TOPIC, assignments={0: [0], 1: [1]})
            addresses = stack.bootstrap.split(",")
            pids = [stack.pid(f"broker-{n}") for n in range(2)]
            idle = measure_idle(addresses, pids, given.idle, given.pairs, given.requests)
            with ottla.Producer(stack.bootstrap, topic=TOPIC, value="bytes") as producer:
                for _ in range(_FILL_MB * 1000):
                    producer.send(bytes(1000), partition=0)
            stalled = [measure_stalled(addresses[0], pids[0], count) for count in given.stalled]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps({"idle": idle, "stalled": stalled}))


if __name__ == "__main__":
    main()
