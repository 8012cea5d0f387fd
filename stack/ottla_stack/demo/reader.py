"""The other process: reads topic `flights` through the SDK and compares it with the source, row by row.

Prints one JSON object: what it counted, what differs, and the delays per carrier.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import ottla
from ottla_stack.demo.flights import FLIGHTS, Flight, digest, read_flights

TOPIC = "flights"


def compare(records: Iterable[Flight], order: Iterable[tuple[str, int]], source: list[Flight]) -> dict[str, Any]:
    """What was read against what was sent.

    `records` is sorted out by row number: a row that is missing, foreign or different is a mismatch. `order` is
    (carrier, row number) as the partitions gave them: rows of one carrier must come in rising order.
    """
    by_number: dict[int, Flight] = {}
    mismatches = 0
    for flight in records:
        expected = source[flight.number] if 0 <= flight.number < len(source) else None
        mismatches += flight != expected
        by_number.setdefault(flight.number, flight)
    missing = len(source) - len(by_number)
    last: dict[str, int] = defaultdict(lambda: -1)
    order_violations = 0
    for carrier, number in order:
        order_violations += number <= last[carrier]
        last[carrier] = number
    return {
        "records_out": len(by_number),
        "sha256_out": digest(by_number[n] for n in sorted(by_number)),
        "mismatches": mismatches + missing,
        "order_violations": order_violations,
    }


def delays(flights: Iterable[Flight]) -> dict[str, list[float]]:
    """Per carrier: flights, flights that left, minutes of departure delay in all."""
    table: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for flight in flights:
        row, delay = table[flight.carrier], json.loads(flight.value)["dep_delay"]
        row[0] += 1
        if delay is not None:
            row[1] += 1
            row[2] += delay
    return dict(table)


def read(bootstrap: str) -> list[Flight]:
    consumer = ottla.Consumer(TOPIC, bootstrap=bootstrap, start="earliest", stop="end", key="str", value="bytes")
    with consumer:
        return [
            Flight(int(headers["row"] or b"-1"), record.key or "", record.timestamp, record.value or b"")
            for record in consumer
            if (headers := dict(record.headers)) is not None
        ]


def main(bootstrap: str, limit: int) -> None:
    flights = read(bootstrap)
    found = compare(flights, ((f.carrier, f.number) for f in flights), read_flights(limit))
    print(json.dumps({**found, "records_read": len(flights), "delays": delays(flights)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else FLIGHTS)
