"""A thousand partitions on three brokers: what they cost while nothing happens, and how soon all of them have a leader
again when a broker is killed. Prints one JSON object."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ottla
from loadtest.rows.footprint import cpu_seconds
from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb

TOPIC = "wide"
LIMIT_S = 60.0


def partitions(stack: RunningStack, asked: int) -> list[ottla.PartitionInfo]:
    """As broker `asked` knows them."""
    with ottla.Admin(stack.bootstrap.split(",")[asked]) as admin:
        return list(admin.topics.describe(TOPIC)[0].partitions)


def seconds_until(
    stack: RunningStack, asked: int, done: Callable[[ottla.PartitionInfo], object], *, began: float
) -> float:
    while not all(done(partition) for partition in partitions(stack, asked)):
        assert time.monotonic() < began + LIMIT_S, "the partitions did not get there in time"
        time.sleep(0.05)
    return time.monotonic() - began


def death(stack: RunningStack, victim: int) -> tuple[float, float]:
    """Kill a broker; seconds until nothing is led by it, and until it is in sync everywhere again."""
    life, asked = stack.pid(f"broker-{victim}"), (victim + 1) % 3
    began = time.monotonic()
    os.kill(life, signal.SIGKILL)
    led = seconds_until(stack, asked, lambda p: p.leader not in (victim, -1), began=began)
    whole = seconds_until(stack, asked, lambda p: len(p.isr) == len(p.replicas), began=began)
    return led, whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--deaths", type=int, default=5)
    parser.add_argument("--idle-seconds", type=float, default=20)
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="ottla-failover-"))
    try:
        with RunningStack(directory / "stack") as stack:
            began = time.monotonic()
            ottla.Admin(stack.bootstrap).topics.create(TOPIC, partitions=given.partitions, replicas=3, timeout=LIMIT_S)
            created_s = time.monotonic() - began
            pids = {service.name: stack.pid(service.name) for service in stack.plan.services()}
            time.sleep(2)
            before, began = {name: cpu_seconds(pid) for name, pid in pids.items()}, time.monotonic()
            time.sleep(given.idle_seconds)
            idle_s = time.monotonic() - began
            idle = {name: 100 * (cpu_seconds(pid) - before[name]) / idle_s for name, pid in pids.items()}
            mb = {name: round(resident_mb(pid)) for name, pid in pids.items()}
            deaths = [death(stack, n % 3) for n in range(given.deaths)]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(
        json.dumps(
            {
                "partitions": given.partitions,
                "created_s": round(created_s, 2),
                "idle_cpu_percent": {name: round(percent, 2) for name, percent in idle.items()},
                "idle_mb": mb,
                "led_again_s": [round(led, 2) for led, _ in deaths],
                "led_again_median_s": round(statistics.median(led for led, _ in deaths), 2),
                "led_again_worst_s": round(max(led for led, _ in deaths), 2),
                "in_sync_again_s": [round(whole, 2) for _, whole in deaths],
            }
        )
    )


if __name__ == "__main__":
    main()
