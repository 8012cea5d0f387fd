"""The main job, end to end, as a user would do it: `ottla up`, produce, restart every broker, read as a group of which
one dies, compare, clean up.

`--selftest` plants two faults on purpose (a record that is never sent, two that are swapped) in a smaller run and
fails unless both are found. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import ottla
from ottla_core.errors import OttlaError
from ottla_stack.demo.audit import flights_on_disk
from ottla_stack.demo.flights import FLIGHTS, TOPIC, Flight, digest, read_flights
from ottla_stack.demo.group import MEMBERS, read_as_group
from ottla_stack.running import RunningStack

PARTITIONS: Final = 6
BROKERS: Final = 3
SELFTEST_FLIGHTS: Final = 20_000
_LIMIT_S: Final = 90.0

_console = Console(stderr=True)


def produce(bootstrap: str, flights: list[Flight]) -> None:
    ottla.Admin(bootstrap).topics.create(TOPIC, partitions=PARTITIONS, config={"retention.ms": "-1"})
    columns = (TextColumn("producing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=_console) as progress,
        ottla.Producer(bootstrap, topic=TOPIC, key="str", value="bytes", compression="zstd") as producer,
    ):
        task = progress.add_task("", total=len(flights))
        deliveries = []
        for n, flight in enumerate(flights, 1):
            headers = [("row", b"%d" % flight.number)]
            deliveries.append(
                producer.send(flight.value, key=flight.carrier, timestamp=flight.timestamp_ms, headers=headers)
            )
            if n % 2_000 == 0 or n == len(flights):
                progress.update(task, completed=n)
        producer.flush()
        for delivery in deliveries:
            delivery.result(timeout=_LIMIT_S)


def plant(flights: list[Flight]) -> list[Flight]:
    """The faults of the self-test: one record is dropped, and two of one carrier change places."""
    sent = list(flights)
    first = len(sent) // 2
    second = next(n for n in range(first + 1, len(sent)) if sent[n].carrier == sent[first].carrier)
    sent[first], sent[second] = sent[second], sent[first]
    del sent[len(sent) // 3]
    return sent


def run(directory: Path, source: list[Flight], sent: list[Flight]) -> dict[str, Any]:
    began_at = time.monotonic()
    with RunningStack(directory, brokers=BROKERS, group_coordinators=2) as stack:
        _console.print(f"{BROKERS} brokers run after {time.monotonic() - began_at:.1f} s: {stack.bootstrap}")
        produce(stack.bootstrap, sent)
        _console.print("restarting every broker")
        pids = stack.restart(*(f"broker-{n}" for n in range(BROKERS)))
        _console.print(f"a group of {MEMBERS} processes reads the topic; one of them is killed half-way")
        report = read_as_group(stack.bootstrap, directory, source, len(sent))
        topic_id = ottla.Admin(stack.bootstrap).topics.describe(TOPIC)[0].id
    _console.print("the segment files, decoded by kafka-python")
    logs = [directory / f"broker-{n}" for n in range(BROKERS)]
    on_disk = {f.number: f for f in flights_on_disk(logs, topic_id)}
    wrong_on_disk = sum(on_disk.get(f.number) != f for f in source)
    show(report.pop("delays"))
    return {
        "demo": TOPIC,
        "records_in": len(source),
        "records_out": report["records_out"],
        "records_on_disk": len(on_disk),
        "sha256_in": digest(source),
        "sha256_out": report["sha256_out"],
        "mismatches": report["mismatches"] + wrong_on_disk,
        "order_violations": report["order_violations"],
        "brokers": BROKERS,
        **{name: report[name] for name in ("members", "killed", "repeated")},
        "pids": pids,
        "seconds": round(time.monotonic() - began_at, 1),
    }


def show(delays: dict[str, list[float]]) -> None:
    table = Table("carrier", "flights", "cancelled", "mean departure delay", title="New York, 2013")
    for carrier, (flights, departed, minutes) in sorted(delays.items(), key=lambda item: -item[1][0]):
        mean = f"{minutes / departed:.1f} min" if departed else ""
        table.add_row(carrier, f"{flights:,.0f}", f"{flights - departed:,.0f}", mean)
    _console.print(table)


def verdict(result: dict[str, Any]) -> bool:
    counts = {result["records_in"], result["records_out"], result["records_on_disk"]}
    same = len(counts) == 1 and result["sha256_in"] == result["sha256_out"]
    return same and not result["mismatches"] and not result["order_violations"]


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla_stack.demo", description=__doc__)
    parser.add_argument("--selftest", action="store_true", help="plant two faults, and fail unless both are found")
    selftest = parser.parse_args(None if arguments is None else list(arguments)).selftest
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the clean-up below runs
    directory = Path(tempfile.mkdtemp(prefix="ottla-demo-"))
    try:
        source = read_flights(SELFTEST_FLIGHTS if selftest else FLIGHTS)
        result = run(directory, source, plant(source) if selftest else source)
    except OttlaError as error:
        _console.print(f"demo: {error}")
        return 1
    except KeyboardInterrupt:
        _console.print("stopped; everything is cleaned up")
        return 130
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if not selftest:
        print(json.dumps(result))
        return 0 if verdict(result) else 1
    found = {"dropped": result["records_out"] == len(source) - 1, "swapped": result["order_violations"] > 0}
    passed = all(found.values()) and not verdict(result)
    print(json.dumps({**result, "demo": "flights-selftest", "planted": 2, "found": sum(found.values()), "ok": passed}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
