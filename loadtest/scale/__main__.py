"""`make bench-scale`: three brokers with few partitions, then with many, and what that costs.

Of ottla everything; of Apache Kafka the time to an acknowledgement, in turn with ottla's, after 20,000 records on the
same topic. The last line is one JSON object. Exit code 1 where a figure misses its goal, or is left out (`--alone`):
then the line names it.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from peers.kafka.server import KafkaServer

from loadtest.kafka.sides import Side, side_of
from loadtest.scale.clients import REPLICAS, Clients
from loadtest.scale.curve import draw
from loadtest.scale.ottla_side import Ottla
from ottla_stack.running import RunningStack

_FEW: Final = 6
_STEPS: Final = (600, 2_000, 5_000)
_WARM_UP: Final = 20_000
_FILES: Final = 1 << 17
_KAFKA_FILES: Final = 4
"""What a Kafka node may hold open for a partition: it dies where it needs more. It has fewer partitions then, and the
line says how many; of one segment each, for a second one takes it more than ten minutes on two cores."""
_HOT: Final = "hot"
GOALS: Final[Mapping[str, float]] = {
    "cpu_ratio_10k_6": 1.2,
    "p50_vs_kafka_6": 1.2,
    "p50_vs_kafka_10k": 1.0,
    "cpu_s_a_million_acks_all": 1.0,
    "create_s": 60,
    "idle_core_pct": 5,
    "kb_per_replica": 15,
    "restart_clean_s": 10,
    "restart_killed_s": 20,
    "failover_s": 5,
    "metadata_one_ms": 2,
    "metadata_all_ms": 100,
    "loop_hold_ms": 20,
    "idle_sessions_cpu_ratio": 1.5,
    "sdk_consumer_cpu_ratio": 1.2,
}
"""Upper limits. The names are those at 10,000 partitions, whatever was asked for: the line has the number."""

Latency = tuple[float, float]


def grow(ottla: Ottla, partitions: int, records: int) -> list[dict[str, float]]:
    """Ever more partitions, and what a record, a replica and doing nothing costs beside them."""
    clients, before_kb, create_s = ottla.clients, ottla.resident_kb(), 0.0
    found: list[dict[str, float]] = []
    for size in [_FEW, *(step for step in _STEPS if step < partitions), partitions]:
        if size > _FEW:
            create_s += clients.enlarge(size - _FEW - sum(clients.topics.values()))
            time.sleep(5.0)  # what creation has left to do
        kb = ottla.resident_kb() - before_kb
        idle = ottla.idle_core_pct(20.0)
        p50_ms, cpu_ms = clients.one_at_a_time(_HOT, _FEW, records)
        per_replica = kb / (REPLICAS * (size - _FEW)) if size > _FEW else 0.0
        step = {"partitions": size, "create_s": create_s, "idle_core_pct": idle, "kb_per_replica": per_replica}
        found.append(step | {"p50_ms": p50_ms, "cpu_ms": cpu_ms})
        say("beside", json.dumps({name: round(value, 3) for name, value in found[-1].items()}))
    return found


def latencies(sides: list[Clients], records: int, pairs: int) -> list[Latency]:
    """Return each side's medians over all alternating rounds: ms to the acknowledgement and CPU ms per record."""
    for clients in sides:
        clients.warm_up(_HOT, _FEW, _WARM_UP)
    rounds = [[clients.one_at_a_time(_HOT, _FEW, records) for clients in sides] for _ in range(pairs)]
    for n, clients in enumerate(sides):
        say(f"{clients.side.name}, ms to an answer", [round(of_round[n][0], 2) for of_round in rounds])
    return [
        (statistics.median(p50 for p50, _ in of_side), statistics.median(cpu for _, cpu in of_side))
        for of_side in zip(*rounds, strict=True)
    ]


def compare(small: list[Latency], large: list[Latency]) -> dict[str, float]:
    """Ratios of the medians; with Kafka's where it ran."""
    ours = {"cpu_ratio_10k_6": large[0][1] / small[0][1], "p50_ms_6": small[0][0], "p50_ms_10k": large[0][0]}
    if len(small) == 1:
        return ours
    return ours | {"p50_vs_kafka_6": small[0][0] / small[1][0], "p50_vs_kafka_10k": large[0][0] / large[1][0]}


def measure(
    ottla: Ottla, kafka: Clients | None, given: argparse.Namespace
) -> tuple[dict[str, float], list[dict[str, float]]]:
    sides = [ottla.clients, *([kafka] if kafka else [])]
    for clients in sides:
        clients.create(_HOT, _FEW)
    found = {"cpu_s_a_million_acks_all": ottla.cpu_s_a_million(given.million)}
    say("CPU s a million at acks=all", found)
    small = latencies(sides, given.records, given.pairs)
    curve = grow(ottla, given.partitions, given.records)
    if kafka:
        theirs = min(given.partitions, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _KAFKA_FILES)
        found |= {"kafka_partitions": theirs, "kafka_create_s": kafka.create("many", theirs - _FEW)}
        say("Kafka has created", found)
    found |= compare(small, latencies(sides, given.records, given.pairs))
    found |= {name: curve[-1][name] for name in ("create_s", "idle_core_pct", "kb_per_replica")}
    found["metadata_one_ms"] = ottla.clients.metadata_ms(_HOT)
    found["metadata_all_ms"] = ottla.clients.metadata_ms(None)
    found["loop_hold_ms"] = ottla.loop_hold_ms()
    found["idle_sessions_cpu_ratio"] = ottla.idle_sessions_cpu_ratio(_HOT, _FEW, given.idle, given.records)
    found |= ottla.sdk_consumer(
        _HOT, max(ottla.clients.topics, key=ottla.clients.topics.__getitem__), _FEW, given.records, given.pairs
    )
    return found, curve


def measure_faults(ottla: Ottla) -> dict[str, float]:
    """With Kafka gone: what a process does while it starts is the machine's, too."""
    found: dict[str, float] = {}
    ottla.clients.balance()
    found["failover_s"], found["failover_partitions"] = ottla.failover_s()
    found["restart_clean_s"] = ottla.restart_s(killed=False)
    found["restart_killed_s"] = ottla.restart_s(killed=True)
    return found


def say(what: str, value: object) -> None:
    print(f"{what}: {value}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=500, help="one at a time, in each round")
    parser.add_argument("--million", type=int, default=1_000_000, help="records that are produced with acks=all")
    parser.add_argument("--idle", type=int, default=5_000, help="consumers with sessions")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka: its figures count as missed")
    parser.add_argument("--picture", type=Path, help="where the curves are drawn")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    with suppress(ValueError, OSError):  # Kafka holds a file for each segment
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    with tempfile.TemporaryDirectory(prefix="ottla-scale-") as folder, ExitStack() as ended:
        stack = ended.enter_context(RunningStack(Path(folder) / "ottla", brokers=REPLICAS, group_coordinators=1))
        ottla = Ottla(stack, Clients(side_of(stack)))
        with ExitStack() as beside:
            kafka = None if given.alone else beside.enter_context(KafkaServer(Path(folder) / "kafka", nodes=REPLICAS))
            other = Clients(Side("kafka", kafka.bootstrap, tuple(kafka.pids))) if kafka else None
            found, curve = measure(ottla, other, given)
        found |= measure_faults(ottla)
    if given.picture:
        draw(curve, given.picture)
    skipped = [name for name in GOALS if name not in found]
    missed = [name for name, most in GOALS.items() if found.get(name, 0.0) > most]
    rounded = {name: round(value, 3) for name, value in found.items()}
    print(
        json.dumps(
            {"partitions": given.partitions, **rounded, "pairs": given.pairs, "missed": missed, "skipped": skipped}
        )
    )
    return 1 if missed or skipped else 0


if __name__ == "__main__":
    sys.exit(main())
