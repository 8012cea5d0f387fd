"""Compares what came out of the topic with what went in, row by row, and sums up the delays."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from examples.demo.flights import Flight, digest


def compare(records: Iterable[Flight], order: Iterable[tuple[str, int]], source: list[Flight]) -> dict[str, Any]:
    """Compare what was read with what was sent.

    `records` are matched by row number: a row that is missing, foreign or different is a mismatch. `order` is
    (reader and carrier, row number) as they were read: rows of one carrier must come in rising order.
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
    for whose, number in order:
        order_violations += number <= last[whose]
        last[whose] = number
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
