"""What consumer groups cost, and how quick they are, over the Group contract: three brokers, two coordinators.

Commits come at a given rate whether or not the former ones are answered, so a queue shows in the latency. Prints one
JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import ottla
from loadtest.rows.group_calls import GroupCalls
from loadtest.rows.heartbeats import heartbeats, named
from ottla_core.host_port import HostPort
from ottla_core.process import descriptors
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_stack.running import RunningStack

KNEE_MS: Final = 50.0
_GROUPS: Final = 200
_COMMITTED: Final = "committed"
_PARTITIONS: Final = 400
"""Partitions of that topic. One offset in each is what one commit of the heavy shard's groups adds up to."""


def p99(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def make_topic(bootstrap: str) -> None:
    """The one whose offsets are committed."""
    with ottla.Admin(bootstrap) as admin:
        admin.topics.create(_COMMITTED, partitions=_PARTITIONS, if_exists="ok")


async def commits_at(calls: GroupCalls, rate: int, seconds: float) -> dict[str, float]:
    """`rate` commits of one offset a second, in turn by many groups."""
    took_ms: list[float] = []

    async def one(n: int) -> None:
        began = time.monotonic()
        await calls.commit(f"commits-{n % _GROUPS}", {(_COMMITTED, n % 8): n})
        took_ms.append((time.monotonic() - began) * 1000)

    began, tasks = time.monotonic(), set()
    for n in range(int(rate * seconds)):
        due_in = began + n / rate - time.monotonic()
        if due_in > 0:
            await asyncio.sleep(due_in)
        tasks.add(asyncio.create_task(one(n)))
    await asyncio.gather(*tasks)
    done_s = time.monotonic() - began
    return {"rate": len(took_ms) / done_s, "p50_ms": statistics.median(took_ms), "p99_ms": p99(took_ms)}


async def commits(calls: GroupCalls, rates: Sequence[int], seconds: float) -> dict[str, Any]:
    """The knee is the highest rate whose p99 stays below the limit."""
    await commits_at(calls, rates[0], 2.0)
    found = {rate: await commits_at(calls, rate, seconds) for rate in rates}
    within = [rate for rate in rates if found[rate]["p99_ms"] <= KNEE_MS]
    return {"commits": found, "knee": max(within, default=0)}


async def idle_fetches(calls: GroupCalls, count: int) -> dict[str, float]:
    """One after another, with nobody else there: what CheckFence takes."""
    took_ms = []
    for n in range(count):
        group = f"commits-{n % _GROUPS}"
        began = time.monotonic()
        await calls.ask(group, Group.FETCH_OFFSETS, pb.FetchOffsetsRequest(group=group, all=True))
        took_ms.append((time.monotonic() - began) * 1000)
        await asyncio.sleep(0.02)
    return {"fetch_p50_ms": statistics.median(took_ms), "fetch_p99_ms": p99(took_ms)}


async def rebalance(calls: GroupCalls, members: int, times: int) -> dict[str, float]:
    """From the first join to the last assignment, in a group that is there already. What is assigned is 4 KB in all."""
    _, ids = await calls.round("wide", [""] * members)
    took_s = []
    for _ in range(times):
        began = time.monotonic()
        _, ids = await calls.round("wide", [ids[0], *ids[1:]])
        took_s.append(time.monotonic() - began)
    return {"rebalance_members": members, "rebalance_s": statistics.median(took_s), "rebalance_most_s": max(took_s)}


async def load(calls: GroupCalls, stack: RunningStack, keys: int) -> dict[str, float]:
    """A shard of so many keys, of many groups: its owner is killed, and another serves it."""
    group = "heavy"
    groups = list(itertools.islice(calls.in_shard_of(group), math.ceil(keys / _PARTITIONS)))
    for each in groups:
        await calls.commit(each, {(_COMMITTED, n): n for n in range(_PARTITIONS)})
    victim = next(
        n for n in named(stack, "group-coordinator") if port(stack, n) == HostPort.parse(calls.owner(group)).port
    )
    began = time.monotonic()
    os.kill(stack.pid(victim), signal.SIGKILL)
    await calls.until_served(group)
    heavy_s = time.monotonic() - began
    for each in groups:
        response = await calls.ask(each, Group.FETCH_OFFSETS, pb.FetchOffsetsRequest(group=each, all=True))
        assert len(response.offsets) == _PARTITIONS
    return {"load_keys": len(groups) * _PARTITIONS, "takeover_of_heavy_shard_s": heavy_s}


def port(stack: RunningStack, name: str) -> int:
    return next(service.port for service in stack.plan.services() if service.name == name)


async def measure(stack: RunningStack, given: argparse.Namespace) -> dict[str, Any]:
    async with GroupCalls(stack) as calls:
        await asyncio.gather(*(calls.until_served(f"commits-{n}") for n in range(_GROUPS)))
        found: dict[str, Any] = await commits(calls, given.rates, given.seconds)
        found |= await idle_fetches(calls, given.fetches)
        found |= await rebalance(calls, 50, 7)
        found |= await heartbeats(calls, stack, given.groups, 5, given.seconds)
        found |= await load(calls, stack, given.keys)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[250, 500, 1000, 1500])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--fetches", type=int, default=300)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--keys", type=int, default=100_000)
    given = parser.parse_args()
    descriptors.raise_limit()
    directory = Path(tempfile.mkdtemp(prefix="ottla-groups-"))
    try:
        with RunningStack(directory / "stack") as stack:
            make_topic(stack.bootstrap)
            print(json.dumps(asyncio.run(measure(stack, given))))
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
