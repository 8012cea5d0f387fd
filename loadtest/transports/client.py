"""One client of the SDK, over the transport that its environment names. Prints one JSON object.

CPU is user and system time. It counts from the first answer on, so it has no imports and no connecting in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import ottla
from loadtest.rows.footprint import cpu_seconds
from loadtest.scale.sdk_consumer import SdkConsumer

_LIMIT_S: Final = 60.0
_SIZE: Final = 100
_VALUE: Final = bytes(range(_SIZE))
_A_BATCH: Final = 10
_COMMIT_PARTITIONS: Final = 6
_AT_ONCE: Final = 5_000


class Meter:
    """What a client and the servers have used since it was made."""

    def __init__(self, servers: Sequence[int], client: Callable[[], float] = time.process_time) -> None:
        self._servers: Final = servers
        self._client: Final = client
        self._began: Final = time.monotonic()
        self._cpu_s: Final = client(), self._servers_cpu_s()

    def read(self, records: int) -> dict[str, float]:
        """Return rates, and CPU for each record or commit. The fields end in the unit."""
        seconds = time.monotonic() - self._began
        client_s, servers_s = self._client() - self._cpu_s[0], self._servers_cpu_s() - self._cpu_s[1]
        return {
            "records_s": records / seconds,
            "client_us": client_s / records * 1e6,
            "servers_us": servers_s / records * 1e6,
            "all_us": (client_s + servers_s) / records * 1e6,
        }

    def _servers_cpu_s(self) -> float:
        return sum(map(cpu_seconds, self._servers))


class Client:
    """Each method is one kind of use, of one topic."""

    def __init__(self, bootstrap: str, topic: str, records: int, servers: Sequence[int]) -> None:
        self._bootstrap: Final = bootstrap
        self._topic: Final = topic
        self._records: Final = records
        self._servers: Final = servers

    def single(self) -> dict[str, float]:
        """Send one record at a time, and wait for each."""
        taken_ms: list[float] = []
        with self._producing(acks=1, linger=0) as producer:
            meter = self._meter()
            for _ in range(self._records):
                began = time.perf_counter()
                producer.send(_VALUE).result(_LIMIT_S)
                taken_ms.append((time.perf_counter() - began) * 1e3)
            return {**meter.read(self._records), "p50_ms": statistics.median(taken_ms)}

    def iterate(self) -> dict[str, float]:
        """Read record by record."""
        with self._consuming() as (consumer, meter):
            return meter.read(1 + sum(1 for _ in consumer))

    def batches(self) -> dict[str, float]:
        """Read some thousand records at a time."""
        with self._consuming() as (consumer, meter):
            return meter.read(1 + sum(map(len, consumer.batches(_AT_ONCE))))

    def acks_all(self) -> dict[str, float]:
        return self._produced(acks="all", enable_idempotence=False)

    def idempotent(self) -> dict[str, float]:
        return self._produced(acks="all", enable_idempotence=True)

    def acks_1(self) -> dict[str, float]:
        return self._produced(acks=1)

    def tens(self) -> dict[str, float]:
        """Send in batches of ten, with acks=1. They may grow if the broker falls behind."""
        size_bytes = _A_BATCH * (_SIZE + 10) + 61
        return self._produced(acks=1, linger=0, batch_size=size_bytes)

    def wide(self) -> dict[str, float]:
        """Send a record at a time to a consumer of all partitions, which is a process of its own. The CPU is its own
        and that of the servers."""
        taken_ms: list[float] = []
        with SdkConsumer(self._bootstrap, self._topic) as consumer, self._producing(acks=1, linger=0) as producer:
            consumer.until_read()
            partitions = producer.partitions_for()
            meter = Meter(self._servers, consumer.cpu_s)
            for number in range(self._records):
                began = time.perf_counter()
                producer.send(_VALUE, partition=number * 16 % partitions)
                consumer.until_read()
                taken_ms.append((time.perf_counter() - began) * 1e3)
            return {**meter.read(self._records), "p50_ms": statistics.median(taken_ms)}

    def commits(self) -> dict[str, float]:
        """Commit the positions of a group's only member, one commit after another."""
        group = f"{self._topic}-{time.time_ns()}"
        options: Mapping[str, Any] = {"group": group, "auto_offset_reset": "earliest", "commit": "manual"}
        with ottla.Consumer(self._topic, bootstrap=self._bootstrap, value="bytes", **options) as consumer:
            while not consumer.poll(_LIMIT_S):
                pass
            partitions = [(self._topic, number) for number in range(_COMMIT_PARTITIONS)]
            consumer.commit(dict.fromkeys(partitions, 0))
            meter, taken_ms = self._meter(), list[float]()
            for number in range(self._records):
                began = time.perf_counter()
                consumer.commit(dict.fromkeys(partitions, number + 1))
                taken_ms.append((time.perf_counter() - began) * 1e3)
            return {**meter.read(self._records), "p50_ms": statistics.median(taken_ms)}

    def _produced(self, **options: Any) -> dict[str, float]:
        with self._producing(**options) as producer:
            meter, send = self._meter(), producer.send
            for _ in range(self._records):
                send(_VALUE)
            producer.flush()
            return meter.read(self._records)

    @contextmanager
    def _producing(self, **options: Any) -> Iterator[ottla.Producer[bytes, bytes]]:
        with ottla.Producer(self._bootstrap, topic=self._topic, key="bytes", value="bytes", **options) as producer:
            producer.send(_VALUE).result(_LIMIT_S)
            yield producer

    @contextmanager
    def _consuming(self) -> Iterator[tuple[ottla.Consumer[bytes, bytes], Meter]]:
        options: Mapping[str, Any] = {"start": "earliest", "stop": "end", "key": "bytes", "value": "bytes"}
        with ottla.Consumer(self._topic, bootstrap=self._bootstrap, **options) as consumer:
            while not consumer.poll(_LIMIT_S, max_records=1):
                pass
            yield consumer, self._meter()

    def _meter(self) -> Meter:
        return Meter(self._servers)


def _peak_mb() -> float:
    """Return the most resident memory that this process has had. What `getrusage` returns may be its parent's."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("use", help="a method of Client")
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--servers", type=int, nargs="*", default=(), help="their process ids")
    given = parser.parse_args()
    client = Client(given.bootstrap, given.topic, given.records, given.servers)
    found: dict[str, float] = getattr(client, given.use)()
    print(json.dumps({**found, "peak_mb": _peak_mb()}))


if __name__ == "__main__":
    main()
