"""What clients did, as JSON lines: one file a process, written in the order in which things happened to it.

    {"process": "w0", "type": "invoke", "f": "send", "partition": 2, "first": 100, "count": 3, "mono_ns": 7}
    {"process": "w0", "type": "ok",     "f": "send", "partition": 2, "first": 100, "count": 3, "offset": 512, …}
    {"process": "w0", "type": "info",   "f": "send", "partition": 2, "first": 103, "count": 1, "error": "…", …}
    {"process": "r0", "type": "ok",     "f": "poll", "partition": 2, "offset": 512, "values": [["w0", 100, 3]], …}
    {"process": "r0", "type": "ok",     "f": "poll", "partition": 2, "offset": 515, "key": "…", "value": "…", …}
    {"process": "r0", "type": "info",   "f": "poll", "error": "…", …}

A value is named by its writer, its partition and a number that the writer counts up per partition, so a run of
consecutive numbers at consecutive offsets takes one line: `first`, `count`, `offset`, or `[writer, first, count]`.
A record's key is that name and its value what follows from the key; a reader writes down runs of what is right, and
key and value in full of what is not.

Types are Jepsen's. `fail` is for what definitely did not happen. Whatever may have happened is `info`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

Operation = dict[str, Any]

SUFFIX: Final = ".jsonl"
FINAL: Final = "final-"
"""Processes whose names begin so read everything, from the first offset to the end, after all faults are over."""


class Name(NamedTuple):
    """The name of one value: its writer, its partition and its number."""

    writer: str
    partition: int
    number: int


def key_of(name: Name) -> bytes:
    return f"{name.writer}.{name.partition}.{name.number}".encode()


def value_of(key: bytes) -> bytes:
    """What the record with this key must hold: a record that was torn, mixed up or moved shows by itself."""
    return key + b"=" + hashlib.blake2b(key, digest_size=12).hexdigest().encode()


def parse_key(key: bytes) -> Name | None:
    """None for what no writer of ours has written."""
    writer, *numbers = key.decode(errors="replace").split(".")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return None
    return Name(writer, int(numbers[0]), int(numbers[1]))


def client_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """What `FaultRun.client` says to each module that is a client; the module adds what is its own."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.faults.{module}", description=description)
    parser.add_argument("--process", required=True, help="the name in the history")
    parser.add_argument("--history", type=Path, required=True, help="the directory of the history")
    return parser


class HistoryWriter:
    """Appends one process's operations; each call is on disk's side of the process before it returns."""

    def __init__(self, directory: Path, process: str) -> None:
        self.process: Final = process
        self._file = (directory / f"{process}{SUFFIX}").open("a", encoding="utf-8")

    def add(self, type_: str, f: str, **fields: object) -> None:
        """One operation, now unless `mono_ns` is given."""
        operation = {"process": self.process, "type": type_, "f": f, "mono_ns": time.monotonic_ns(), **fields}
        self._file.write(json.dumps(operation, separators=(",", ":")) + "\n")

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_history(directory: Path) -> Iterator[Operation]:
    """Every operation of every process; those of one process in their order."""
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        yield from read_lines(directory, path.stem)


def read_lines(directory: Path, process: str) -> Iterator[Operation]:
    """The operations of one process so far; a last line that is not whole is left out."""
    path = directory / f"{process}{SUFFIX}"
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n"):
                return  # or its other half, written meanwhile, would come as the next line
            yield json.loads(line)


class RecordRead(NamedTuple):
    """One record as a reader got it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def polled(records: Iterable[RecordRead]) -> Iterator[dict[str, object]]:
    """The fields of `poll` operations for these records, runs of what is right put together."""
    line: dict[str, Any] | None = None
    next_offset = -1
    for record in records:
        name = None if record.key is None else parse_key(record.key)
        if name is None or name.partition != record.partition or record.value != value_of(record.key or b""):
            if line is not None:
                yield line
                line = None
            yield {"partition": record.partition, "offset": record.offset, **_in_full(record)}
            continue
        if line is None or record.partition != line["partition"] or record.offset != next_offset:
            if line is not None:
                yield line
            line = {"partition": record.partition, "offset": record.offset, "values": []}
        next_offset = record.offset + 1
        runs = line["values"]
        if runs and runs[-1][0] == name.writer and runs[-1][1] + runs[-1][2] == name.number:
            runs[-1][2] += 1
        else:
            runs.append([name.writer, name.number, 1])
    if line is not None:
        yield line


def _in_full(record: RecordRead) -> dict[str, str]:
    return {
        "key": (record.key or b"").decode(errors="replace"),
        "value": (record.value or b"").decode(errors="replace"),
    }
