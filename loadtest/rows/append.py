"""What one append of a 64 KB batch costs the broker: CPU in all, and how much of it is write(2).

Prints a line per round; the last line is one JSON object. `--gigabytes` grows one log and compares every gigabyte with
a plain file's: a log beyond 4 GB must take appends as fast as a new one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_core.records.twins import new_builder

BATCH_BYTES = 64 * 1024
SLICE_BYTES = 64 << 20


def sealed_batch(size_bytes: int = BATCH_BYTES) -> bytes:
    """One batch of 100-byte values, uncompressed, just under `size_bytes`."""
    builder = new_builder(size_bytes)
    while builder.append(1_700_000_000_000, None, b"v" * 100):
        pass
    return builder.seal()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def measure_append(directory: Path, rounds: int, appends: int) -> dict[str, Any]:
    """Rounds of `appends` appends, in turn with the same bytes through write(2) alone."""
    batch = sealed_batch()
    log = Log.open(directory / "log", Disk(directory), LogConfig(), now_ms=now_ms())
    plain = os.open(directory / "plain", os.O_WRONLY | os.O_CREAT)
    whole, writes = [], []
    for _ in range(rounds):
        began = time.thread_time()
        for _ in range(appends):
            log.append(batch, 0, now_ms())
        whole.append((time.thread_time() - began) / appends * 1e6)
        began = time.thread_time()
        for _ in range(appends):
            os.writev(plain, [batch[:16], memoryview(batch)[16:]])
        writes.append((time.thread_time() - began) / appends * 1e6)
        print(f"append {whole[-1]:6.1f} µs, write(2) {writes[-1]:6.1f} µs", flush=True)
    os.close(plain)
    besides = [a - w for a, w in zip(whole, writes, strict=True)]
    return {
        "append_us": round(statistics.median(whole), 1),
        "write_us": round(statistics.median(writes), 1),
        "besides_write_us": round(statistics.median(besides), 1),
        "spread_us": [round(min(besides), 1), round(max(besides), 1)],
        "rounds": rounds,
        "appends": appends,
    }


def measure_growth(directory: Path, gigabytes: int) -> dict[str, Any]:
    """One log grows, and in turn with it, slice by slice, a plain file: the same bytes, write(2) and fdatasync alone.

    Each gigabyte is compared with the plain one of the same moment. The rate of both falls together where the machine
    runs out of page-cache memory that it has used before: a virtual machine's host backs every new page at its first
    touch, which costs several times the write. So the rate alone says nothing of a log; the ratio does.
    """
    batch = sealed_batch()
    log = Log.open(directory / "log", Disk(directory), LogConfig(), now_ms=now_ms())
    plain = os.open(directory / "plain", os.O_WRONLY | os.O_CREAT)
    per_slice = SLICE_BYTES // len(batch)
    rates, ratios = [], []
    for n in range(gigabytes):
        log_s = plain_s = 0.0
        for _ in range((1 << 30) // SLICE_BYTES):
            log_s += _timed(lambda: _grow_log(log, batch, per_slice))
            plain_s += _timed(lambda: _grow_file(plain, batch, per_slice))
        rates.append(round((1 << 30) / 1e6 / log_s))
        ratios.append(round(plain_s / log_s, 2))
        print(f"gigabyte {n + 1}: {rates[-1]:5d} MB/s, {ratios[-1]:.2f} of a plain file's", flush=True)
    os.close(plain)
    first, last = statistics.median(ratios[:3]), statistics.median(ratios[-3:])
    return {"gigabytes": gigabytes, "mb_s": rates, "to_plain_file": ratios, "last_to_first": round(last / first, 2)}


def _grow_log(log: Log, batch: bytes, appends: int) -> None:
    for _ in range(appends):
        log.append(batch, 0, now_ms())
    log.flush(now_ms())


def _grow_file(file: int, batch: bytes, appends: int) -> None:
    for _ in range(appends):
        os.writev(file, [batch[:16], memoryview(batch)[16:]])
    os.fdatasync(file)


def _timed(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--appends", type=int, default=2_000)
    parser.add_argument("--gigabytes", type=int, default=0, help="grow one log instead")
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="ottla-append-"))
    (directory / "log").mkdir()
    try:
        if given.gigabytes:
            print(json.dumps(measure_growth(directory, given.gigabytes)))
        else:
            print(json.dumps(measure_append(directory, given.rounds, given.appends)))
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
