"""Rows with traffic: each pair runs one program against one side, then against the other."""

from __future__ import annotations

import os
from typing import Any

from loadtest.kafka.comparison import Pair, in_turn
from loadtest.kafka.rows import Row
from loadtest.kafka.sides import Side
from loadtest.programs import Program, run


def measure(row: Row, sides: tuple[Side, Side], pairs: int, records: int) -> list[Pair]:
    count = row.records(records)
    try:
        if row.filled:
            _fill(row, sides, count)
        return in_turn(sides, pairs, lambda side, number: _once(row, side, number, count))
    finally:
        for side in sides:
            side.delete_topics()


def _once(row: Row, side: Side, number: int, count: int) -> dict[str, Any]:
    if not row.filled:
        side.create_topic(_topic(row, number), row.partitions, row.replicas, config=row.config)
    os.sync()  # so that nobody runs while the disk still writes what the other has left
    return observed(side, row.program, side.bootstrap, *side.options, *_of(row, number, count), *row.arguments)


def observed(side: Side, program: Program, *arguments: str) -> dict[str, Any]:
    """The program's last line, and what the server has used for it."""
    cpu_s = side.cpu_s()
    found = run(program, *arguments)
    return {**found, "cpu_s": side.cpu_s() - cpu_s, "resident_mb": side.resident_mb()}


def _fill(row: Row, sides: tuple[Side, Side], count: int) -> None:
    for side in sides:
        side.create_topic(_topic(row, 0), row.partitions, row.replicas, config=row.config)
        run("kafka.produce", side.bootstrap, *side.options, *_of(row, 0, count))


def _of(row: Row, number: int, count: int) -> tuple[str, ...]:
    return ("--topic", _topic(row, number), "--records", str(count), "--size", str(row.size))


def _topic(row: Row, number: int) -> str:
    return row.key if row.filled else f"{row.key}-{number}"
