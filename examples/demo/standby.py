"""A site is lost, and its readers continue at another one. Flights are written to cluster A in transactions, some of
which are aborted; a mirror copies them to cluster B. A is killed when a group has read half of them. After
`ottla mirror failover`, the group continues in B, at the very next flight of each partition.

The last line is one JSON object; its offsets are those in B, for each partition in which something is left to read.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from examples.demo.flights import TOPIC, Flight, read_flights
from examples.demo.folder import in_folder
from rich.console import Console

import ottla
from ottla_core.errors import ErrorCode, OttlaError
from ottla_stack.running import RunningStack, wait_for

FLIGHTS: Final = 40_000
PARTITIONS: Final = 3
COPY: Final = f"a.{TOPIC}"
GROUP: Final = "departures"
_IN_TRANSACTION: Final = 500
_ABORTED_EVERY: Final = 7
_FILE: Final = """
[clusters]
a = "{a}"
b = "{b}"

[[flows]]
source = "a"
target = "b"
delivery = "exactly_once"
"""

_console = Console(stderr=True)
_Position = tuple[int, int]
"""A partition and an offset."""


def run(directory: Path, flights: list[Flight]) -> dict[str, Any]:
    """Run everything in the directory; return the fields of the last line."""
    began_at = time.monotonic()
    file = directory / "mirror.toml"
    a = RunningStack(directory / "a", brokers=1, group_coordinators=1, txn_coordinators=1)
    b = RunningStack(directory / "b", brokers=1, group_coordinators=1, txn_coordinators=1, mirror=file)
    file.write_text(_FILE.format(a=a.bootstrap, b=b.bootstrap))
    with a, b:
        _console.print(f"clusters A and B, and a mirror, run after {time.monotonic() - began_at:.1f} s")
        _write(a.bootstrap, flights)
        had = {number for number, _ in _read(a.bootstrap, TOPIC, len(flights) // 2)}
        _console.print(f"{len(flights)} flights are in A; the group has read {len(had)} of them")
        copies = wait_for(lambda: _all_copied(b.bootstrap, len(flights)), "all flights to be in B")
        left = {number: position for number, position in copies.items() if number not in had}
        expected = _firsts(left.values())
        wait_for(lambda: _starts(b.bootstrap, copies) == expected, "the group's offsets to be in B")
        a.kill()
        _console.print("[bold]A is killed[/bold]: ottla mirror failover 'a->b'")
        _fail_over(b)
        read = dict(_read(b.bootstrap, COPY, len(left)))
    return {
        "written": len(flights),
        "after_failover_first_offset_expected": dict(sorted(expected.items())),
        "after_failover_first_offset_got": dict(sorted(_firsts(read.values()).items())),
        "lost": len(flights) - len(had | read.keys()),
        "reread": len(had & read.keys()),
        "seconds": round(time.monotonic() - began_at, 1),
    }


def _write(bootstrap: str, flights: list[Flight]) -> None:
    with ottla.Admin(bootstrap) as admin:
        admin.topics.create(TOPIC, partitions=PARTITIONS, config={"retention.ms": "-1"})
        admin.groups.commit(GROUP, {ottla.TopicPartition(TOPIC, number): 0 for number in range(PARTITIONS)})
    with ottla.Producer[Any, Any](
        bootstrap, topic=TOPIC, key="str", value="bytes", compression="zstd", transactional_id="airport"
    ) as producer:
        producer.init_transactions()
        for number, start in enumerate(range(0, len(flights), _IN_TRANSACTION)):
            if number % _ABORTED_EVERY == 0:
                _send(producer, flights[start : start + _IN_TRANSACTION])
                producer.abort_transaction()
            _send(producer, flights[start : start + _IN_TRANSACTION])
            producer.commit_transaction()


def _send(producer: ottla.Producer[Any, Any], flights: list[Flight]) -> None:
    producer.begin_transaction()
    for flight in flights:
        header = {"number": b"%d" % flight.number}
        producer.send(flight.value, key=flight.carrier, timestamp=flight.timestamp_ms, headers=header)


def _read(bootstrap: str, topic: str, count: int) -> list[tuple[int, _Position]]:
    """Read `count` flights, with their positions, as a member of the group; they are committed when this returns."""
    found: list[tuple[int, _Position]] = []
    with ottla.Consumer[Any, Any](
        topic, bootstrap=bootstrap, group=GROUP, max_partition_fetch_bytes="64KiB"
    ) as consumer:
        while len(found) < count:
            found += map(_located, consumer.poll(10.0, max_records=min(500, count - len(found))))
    return found


def _located(record: ottla.Record[Any, Any]) -> tuple[int, _Position]:
    return int(record.header("number") or -1), (record.partition, record.offset)


def _all_copied(bootstrap: str, count: int) -> dict[int, _Position] | None:
    """Return where each flight is in the copy; None until all are there."""
    with ottla.Admin(bootstrap) as admin:
        if not admin.topics.exists(COPY):
            return None
    with ottla.Consumer[Any, Any](COPY, bootstrap=bootstrap, start="earliest", stop="end", value="bytes") as consumer:
        found = dict(map(_located, consumer))
    return found if len(found) >= count else None


def _firsts(positions: Iterable[_Position]) -> dict[int, int]:
    """The lowest offset of each partition."""
    firsts: dict[int, int] = {}
    for partition, offset in positions:
        firsts[partition] = min(offset, firsts.get(partition, offset))
    return firsts


def _starts(bootstrap: str, copies: dict[int, _Position]) -> dict[int, int]:
    """Return the first flight of each partition that the group would read in B, from its committed offsets there."""
    with ottla.Admin(bootstrap) as admin:
        committed = admin.groups.committed(GROUP, if_missing="ok")
    begin = {p.partition: offset for p, offset in committed.items() if p.topic == COPY}
    return _firsts((p, offset) for p, offset in copies.values() if p in begin and offset >= begin[p])


def _fail_over(b: RunningStack) -> None:
    mirror = next(service for service in b.plan.services() if service.name == "mirror-0")
    command = ["ottla", "mirror", "failover", "a->b", "--group", GROUP, "--mirror", f"127.0.0.1:{mirror.port}", "--yes"]
    ran = subprocess.run([sys.executable, "-m", *command], check=False, stdout=sys.stderr)
    if ran.returncode:
        raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, f"the failover exited with code {ran.returncode}")


def main() -> int:
    """Exit codes: 0 if every flight was read once, 1 if not, 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo.standby", description=__doc__)
    parser.add_argument("--flights", type=int, default=FLIGHTS)
    flights = parser.parse_args().flights
    result = in_folder(lambda directory: run(directory, read_flights(flights)), _console)
    print(json.dumps(result))
    at_once = result["after_failover_first_offset_expected"] == result["after_failover_first_offset_got"]
    return 0 if at_once and result["lost"] == result["reread"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
