"""Memory through a long run: a fast producer, a slow consumer, gigabytes written to one broker.

Samples resident memory of broker and producer (this process); the last line is one JSON object with the peaks.
"""

from __future__ import annotations

import argparse
import json
import os
import random
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
SAMPLE_EVERY = 100_000
BUFFER_MB = 33.6

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
    value = random.Random(7).randbytes(VALUE_BYTES)
    broker, client, consumed = [], [], []
    began = time.monotonic()
    idle_mb = resident_mb(os.getpid())
    try:
        with RunningStack(directory, brokers=1) as stack:
            ottla.Admin(stack.bootstrap).topics.create("bench", partitions=6)
            consumer = subprocess.Popen([sys.executable, "-c", SLOW_CONSUMER, stack.bootstrap])
            pid = stack.pid("broker-0")
            with ottla.Producer(stack.bootstrap, topic="bench", acks=1, value="bytes") as producer:
                for n in range(int(given.gigabytes * 1e9 / VALUE_BYTES)):
                    producer.send(value)
                    if n % SAMPLE_EVERY == 0:
                        broker.append(resident_mb(pid))
                        client.append(resident_mb(os.getpid()))
                        consumed.append(resident_mb(consumer.pid))
            consumer.terminate()
            consumer.wait(timeout=30)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(
        json.dumps(
            {
                "gigabytes": given.gigabytes,
                "seconds": round(time.monotonic() - began),
                "broker_peak_mb": round(max(broker)),
                "producer_peak_mb": round(max(client)),
                "producer_idle_mb": round(idle_mb),
                "producer_limit_mb": round(BUFFER_MB + 60),
                "slow_consumer_peak_mb": round(max(consumed)),
                "samples": len(broker),
            }
        )
    )


if __name__ == "__main__":
    main()
