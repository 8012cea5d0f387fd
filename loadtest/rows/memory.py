"""Memory through a long run: a fast producer, a slow consumer, gigabytes written to one broker.

Each is a process of its own whose resident memory is sampled from outside; the last line is one JSON object with the
peaks.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ottla
from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb

VALUE_BYTES = 1_000
SAMPLE_EVERY_S = 0.2
BUFFER_MB = 32 * 1.048576

SLOW_CONSUMER = """
import sys, time, ottla
consumer = ottla.Consumer("bench", bootstrap=sys.argv[1], start="earliest", value="bytes")
for batch in consumer.batches(max_records=100):
    time.sleep(0.01)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10)
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="ottla-memory-"))
    began = time.monotonic()
    peaks = {"broker": 0.0, "producer": 0.0, "slow_consumer": 0.0}
    samples = 0
    try:
        with RunningStack(directory, brokers=1) as stack:
            ottla.Admin(stack.bootstrap).topics.create("bench", partitions=6)
            records = int(given.gigabytes * 1e9 / VALUE_BYTES)
            produce = [sys.executable, "-m", "loadtest.rows.produce", stack.bootstrap]
            producer = subprocess.Popen([*produce, "--size", str(VALUE_BYTES), "--records", str(records)])
            consumer = subprocess.Popen([sys.executable, "-c", SLOW_CONSUMER, stack.bootstrap])
            pids = {"broker": stack.pid("broker-0"), "producer": producer.pid, "slow_consumer": consumer.pid}
            while producer.poll() is None:
                for name, pid in pids.items():
                    peaks[name] = max(peaks[name], resident_mb(pid))
                samples += 1
                time.sleep(SAMPLE_EVERY_S)
            consumer.terminate()
            consumer.wait(timeout=30)
            if producer.returncode:
                raise SystemExit("the producer failed")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(
        json.dumps(
            {
                "gigabytes": given.gigabytes,
                "seconds": round(time.monotonic() - began),
                **{f"{name}_peak_mb": round(peak) for name, peak in peaks.items()},
                "producer_limit_mb": round(BUFFER_MB + 60),
                "samples": samples,
            }
        )
    )


if __name__ == "__main__":
    main()
