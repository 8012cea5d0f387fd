"""`make bench-scale`: three brokers with few partitions, then with many, and what that costs. PARTITIONS=10000 KAFKA=1

Of ottla everything; of Apache Kafka, where it is compared, the time to an acknowledgement, in turn with ottla's. The
last line is one JSON object. Exit code 1 where a figure misses its goal: then it names them.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from peers.kafka.server import KafkaServer

from loadtest.kafka.sides import Side, side_of
from loadtest.scale.clients import REPLICAS, Clients
from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb

_FEW: Final = 6
_FILES: Final = 65_536
_HOT, _MANY = "hot", "many"
GOALS: Final[Mapping[str, float]] = {
    "cpu_ratio_large_small": 1.2,
    "p50_vs_kafka_small": 1.2,
    "p50_vs_kafka_large": 1.0,
    "create_s": 60,
    "idle_core_pct": 5,
    "kb_per_replica": 15,
    "restart_clean_s": 10,
    "restart_killed_s": 20,
    "failover_s": 5,
    "metadata_one_ms": 2,
    "metadata_all_ms": 100,
}
"""Upper limits, at 10,000 partitions."""


class Ottla:
    """A stack of three brokers, and what is measured of it."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack: Final = stack
        self.clients: Final = Clients(side_of(stack))
        self.brokers: Final = [f"broker-{n}" for n in range(REPLICAS)]

    def resident_kb(self) -> float:
        return 1024 * sum(resident_mb(self.stack.pid(name)) for name in self.brokers)

    def restart_s(self, number: signal.Signals, partitions: int) -> float:
        """From the signal until the broker is back in every ISR."""
        began = time.monotonic()
        self.stack.restart(self.brokers[0], number=number)
        self.clients.until(lambda: self.clients.in_sync(_MANY) == partitions * REPLICAS)
        return time.monotonic() - began

    def failover_s(self) -> tuple[float, int]:
        """From kill -9 until the last partition that the broker led has acknowledged a record; how many it led."""
        led = self.clients.led_by(_MANY, 1)
        process = self.stack.process(self.brokers[1])
        assert process is not None
        began = time.monotonic()
        process.identity.send(signal.SIGKILL)
        self.clients.accept(_MANY, led)
        return time.monotonic() - began, len(led)


def measure(ottla: Ottla, partitions: int, records: int, pairs: int, kafka: Clients | None) -> dict[str, float]:
    found: dict[str, float] = {}
    sides = [ottla.clients, *([kafka] if kafka else [])]
    for clients in sides:
        clients.create(_HOT, _FEW)
    small = latencies(sides, records, pairs)
    before_kb = ottla.resident_kb()
    say("few", small)
    found["create_s"] = ottla.clients.create(_MANY, partitions - _FEW)
    if kafka:
        say("Kafka has created as many after", kafka.create(_MANY, partitions - _FEW))
    say("created after", found["create_s"])
    time.sleep(5.0)  # what creation has left to do
    found["idle_core_pct"] = ottla.clients.idle_core_pct(20.0)
    found["kb_per_replica"] = (ottla.resident_kb() - before_kb) / (REPLICAS * (partitions - _FEW))
    large = latencies(sides, records, pairs)
    say("many", large)
    found["p50_ms_small"], found["cpu_ms_small"] = small[0]
    found["p50_ms_large"], found["cpu_ms_large"] = large[0]
    found["cpu_ratio_large_small"] = large[0][1] / small[0][1]
    if kafka:
        found["p50_vs_kafka_small"] = small[0][0] / small[1][0]
        found["p50_vs_kafka_large"] = large[0][0] / large[1][0]
    found["metadata_one_ms"] = ottla.clients.metadata_ms(_HOT)
    found["metadata_all_ms"] = ottla.clients.metadata_ms(None)
    found["restart_clean_s"] = ottla.restart_s(signal.SIGTERM, partitions - _FEW)
    found["restart_killed_s"] = ottla.restart_s(signal.SIGKILL, partitions - _FEW)
    found["failover_s"], found["failover_partitions"] = ottla.failover_s()
    return found


def latencies(sides: list[Clients], records: int, pairs: int) -> list[tuple[float, float]]:
    """Of each side the medians over all rounds, in turn: ms to the acknowledgement, CPU ms a record."""
    rounds = [[clients.one_at_a_time(_HOT, _FEW, records) for clients in sides] for _ in range(pairs)]
    return [
        (statistics.median(p50 for p50, _ in of_side), statistics.median(cpu for _, cpu in of_side))
        for of_side in zip(*rounds, strict=True)
    ]


def say(what: str, value: object) -> None:
    print(f"{what}: {value}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=500, help="one at a time, in each round")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--kafka", action="store_true", help="beside Apache Kafka")
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, most), most))
    with tempfile.TemporaryDirectory(prefix="ottla-scale-") as folder, ExitStack() as ended:
        stack = ended.enter_context(RunningStack(Path(folder) / "ottla", brokers=REPLICAS, group_coordinators=1))
        kafka = ended.enter_context(KafkaServer(Path(folder) / "kafka", nodes=REPLICAS)) if given.kafka else None
        beside = Clients(Side("kafka", kafka.bootstrap, tuple(kafka.pids))) if kafka else None
        found = measure(Ottla(stack), given.partitions, given.records, given.pairs, beside)
    missed = [name for name, most in GOALS.items() if found.get(name, 0.0) > most]
    rounded = {name: round(value, 3) for name, value in found.items()}
    print(json.dumps({"partitions": given.partitions, **rounded, "pairs": given.pairs, "missed": missed}))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
