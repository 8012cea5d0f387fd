"""The faults of the self-test: what the demo's checks have to find."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
from examples.demo.flights import Flight


def plant_in_flights(flights: list[Flight]) -> list[Flight]:
    """Drop one record, and swap two of one carrier."""
    sent = list(flights)
    first = len(sent) // 2
    second = next(n for n in range(first + 1, len(sent)) if sent[n].carrier == sent[first].carrier)
    sent[first], sent[second] = sent[second], sent[first]
    del sent[len(sent) // 3]
    return sent


def plant_in_lake(lake: Path) -> None:
    """Drop a row of the lake so that Spark still reads the rest: its list of files has the size of each."""
    file = max(lake.glob("*/*.parquet"), key=lambda path: path.stat().st_size)
    pq.write_table(pq.ParquetFile(file).read().slice(1), file)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    for log in (lake / "_spark_metadata").glob("[0-9]*"):
        lines = [_resized(line, file) for line in log.read_text().split("\n")]
        log.write_text("\n".join(lines))
        log.with_name(f".{log.name}.crc").unlink(missing_ok=True)


def _resized(line: str, file: Path) -> str:
    if not line.startswith("{") or f"{file.parent.name}/{file.name}" not in line:
        return line
    return json.dumps({**json.loads(line), "size": file.stat().st_size}, separators=(",", ":"))
