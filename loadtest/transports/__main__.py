"""`make bench-transports`: the SDK over Kafka's protocol beside the SDK over gRPC, with the same brokers.

Each run is a client in a process of its own, and the transports take turns. The figures are ratios of Kafka's protocol
to gRPC in each pair of runs. A peak of memory is that of Kafka's protocol alone. CPU is user and system time, so it
means something on a busy machine, too. Rates and latencies need an idle one. Exit code 1 where a goal is missed or a
row was left out.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ottla
from loadtest.goals import Figures, Goal, conclude, rows_of, say
from loadtest.kafka.comparison import in_turn
from loadtest.programs import run
from ottla_stack.running import RunningStack

_PRODUCERS_BUFFER_MB: Final = 33.6
_BESIDES_MB: Final = 45
"""What a client may take besides its buffer."""


@dataclass(frozen=True, slots=True)
class Row:
    """A use of `client.py`. `partitions` and `replicas` are those of its topic, and `fields` are compared."""

    records: int
    fields: Sequence[str]
    partitions: int = 1
    replicas: int = 1
    filled: bool = False


ROWS: Final[Mapping[str, Row]] = {
    "single": Row(3_000, ("p50_ms", "client_us", "servers_us")),
    "iterate": Row(3_000_000, ("records_s", "client_us", "servers_us"), filled=True),
    "batches": Row(3_000_000, ("records_s", "client_us", "servers_us"), filled=True),
    "acks_1": Row(1_000_000, ("records_s", "client_us", "servers_us"), partitions=6),
    "acks_all": Row(1_000_000, ("records_s", "client_us", "servers_us"), partitions=6, replicas=3),
    "idempotent": Row(1_000_000, ("records_s", "client_us", "servers_us"), partitions=6, replicas=3),
    "tens": Row(200_000, ("records_s", "client_us", "servers_us")),
    "wide": Row(300, ("p50_ms", "client_us", "servers_us", "all_us"), partitions=5_000),
    "commits": Row(2_000, ("p50_ms", "client_us", "servers_us", "all_us"), partitions=6, filled=True),
}
GOALS: Final[Mapping[str, Goal]] = {
    "single_p50_ms": Goal(most=0.6),
    "iterate_records_s": Goal(least=1.2),
    "iterate_client_us": Goal(most=1.0),
    "iterate_servers_us": Goal(most=0.6),
    "batches_client_us": Goal(most=1.0),
    "batches_servers_us": Goal(most=0.6),
    "acks_all_records_s": Goal(least=1.0),
    "idempotent_records_s": Goal(least=1.0),
    "tens_records_s": Goal(least=1.0),
    "wide_all_us": Goal(most=1.3),
    "commits_all_us": Goal(most=1.0),
    "acks_1_peak_mb": Goal(most=_PRODUCERS_BUFFER_MB + _BESIDES_MB),
}
_TRANSPORTS: Final = ("kafka", "grpc")
_MEASURED: Final = ("broker", "group-coordinator")
"""The services whose CPU counts. The others take as much while nothing happens."""


def measure(stack: RunningStack, name: str, pairs: int) -> Figures:
    row = ROWS[name]
    with ottla.Admin(stack.bootstrap) as admin:
        admin.topics.create(name, partitions=row.partitions, replicas=row.replicas)
    if row.filled:
        run("rows.produce", stack.bootstrap, "--topic", name, "--records", str(row.records))
    found = in_turn(_TRANSPORTS, pairs, lambda transport, _: once(stack, name, transport))
    ratios = {f"{name}_{field}": [kafka[field] / grpc[field] for kafka, grpc in found] for field in row.fields}
    return {**ratios, f"{name}_peak_mb": [kafka["peak_mb"] for kafka, _ in found]}


def once(stack: RunningStack, name: str, transport: str) -> dict[str, Any]:
    services = [service for service in stack.plan.services() if service.name.startswith(_MEASURED)]
    bootstrap = stack.bootstrap if transport == "kafka" else stack.plan.grpc_bootstrap
    pids = [str(stack.pid(service.name)) for service in services]
    os.sync()  # so that no transport runs while the disk still writes what the other one has left
    arguments = (name, bootstrap, name, "--records", str(ROWS[name].records), "--servers", *pids)
    found = run("transports.client", *arguments, transport=transport)
    say(f"{name} over {transport}", **found)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help=f"of {', '.join(ROWS)}; all, where none is named")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    figures: Figures = {}
    for name in rows_of(parser, given.rows, ROWS):
        with (
            tempfile.TemporaryDirectory(prefix=f"ottla-bench-{name}-") as folder,
            RunningStack(Path(folder) / "stack", brokers=ROWS[name].replicas, group_coordinators=1) as stack,
        ):
            figures |= measure(stack, name, given.pairs)
    return conclude(figures, GOALS, given.pairs)


if __name__ == "__main__":
    sys.exit(main())
