"""Measure what a large group, many groups, and a commit for each record cost one group-coordinator.

Prints one JSON object: `longest_turn_ms` of the coordinator's loop, in CPU time, up to the end of a rebalance of all
members; `rebalance_cpu_s` from the last join to the last sync; `mb_10000_groups` that came and went; `repeats` after a
consumer that has committed each record ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import ottla
from loadtest.rows.footprint import cpu_seconds
from loadtest.rows.group_calls import GroupCalls
from ottla_core.host_port import HostPort
from ottla_core.model import TopicPartition
from ottla_core.process import descriptors
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb

_COORDINATOR: Final = "group-coordinator-0"
_FIRST_GROUPS: Final = 200
_GROUPS_AT_ONCE: Final = 1_000
"""Each new group waits three seconds for more members (group.initial.rebalance.delay.ms)."""
_LOOK_S: Final = 0.25
_LONGEST_TURN: Final = "ottla_loop_turn_cpu_max_seconds"
_TOPIC: Final = "each-record-committed"
_SLICE: Final = 500
"""Records between two looks at the pace."""


async def rebalance(calls: GroupCalls, stack: RunningStack, members: int) -> dict[str, float]:
    """All members join a new group, and get their assignments."""
    pid = stack.pid(_COORDINATOR)
    joins = [asyncio.create_task(calls.join("large", "")) for _ in range(members)]
    await _until_idle(pid)  # it has all of them, and waits for more (group.initial.rebalance.delay.ms)
    began_s = cpu_seconds(pid)
    joined = await asyncio.gather(*joins)
    ids = [each.member_id for each in joined]
    assert len(set(ids)) == members
    assert {each.generation for each in joined} == {1}
    leader = next(each for each in joined if each.leader == each.member_id)
    syncs = [asyncio.create_task(calls.sync("large", each, 1, ids)) for each in joined if each is not leader]
    await _until_idle(pid)  # it has all of them, and waits for the leader
    await asyncio.gather(calls.sync("large", leader, 1, ids), *syncs)
    used_s = cpu_seconds(pid) - began_s
    return {"longest_turn_ms": 1000 * longest_turn_s(stack), "rebalance_cpu_s": used_s}


async def _until_idle(pid: int) -> None:
    before = cpu_seconds(pid)
    while True:
        await asyncio.sleep(_LOOK_S)
        now = cpu_seconds(pid)
        if now - before <= 0.1 * _LOOK_S:
            return
        before = now


def longest_turn_s(stack: RunningStack) -> float:
    """The longest turn of the coordinator's loop since it began, in CPU seconds."""
    process = stack.process(_COORDINATOR)
    assert process is not None
    admin = HostPort(stack.plan.host, process.admin_port)
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(_LONGEST_TURN + " "))


async def many_groups(calls: GroupCalls, stack: RunningStack, groups: int, lives: int) -> dict[str, float]:
    """Groups with a member that comes, commits, and goes, several times: what their coordinator keeps of them."""
    before_mb = resident_mb(stack.pid(_COORDINATOR))
    line = asyncio.Semaphore(_GROUPS_AT_ONCE)

    async def live(name: str) -> None:
        async with line:
            for life in range(lives):
                generation, (member_id,) = await calls.round(name, [""])
                await calls.commit(name, {(_TOPIC, 0): life}, pb.Member(member_id=member_id), generation)
                leave = pb.LeaveRequest(group=name, members=[pb.Leaver(member=pb.Member(member_id=member_id))])
                await calls.ask(name, Group.LEAVE, leave)

    await asyncio.gather(*(live(f"group-{n}") for n in range(groups)))
    return {"groups": groups, "mb_10000_groups": (resident_mb(stack.pid(_COORDINATOR)) - before_mb) * 10_000 / groups}


def repeats(bootstrap: str, records: int, rate: int) -> dict[str, float]:
    """A commit for each record at that rate: what comes again after the end of the block, and after `close()`."""
    with ottla.Producer(bootstrap, topic=_TOPIC) as producer:
        for n in range(records):
            producer.send(n)
    again, most_waiting = {}, 0
    for end in ("block", "close"):
        settings: dict[str, Any] = {"group": f"commits-{end}", "auto_offset_reset": "earliest", "commit": "manual"}
        consumer = ottla.Consumer[Any, Any](_TOPIC, bootstrap=bootstrap, **settings)
        if end == "block":
            with consumer:
                most_waiting = max(most_waiting, _commit_each(consumer, records, rate))
        else:
            most_waiting = max(most_waiting, _commit_each(consumer, records, rate))
            consumer.close()
        with ottla.Consumer[Any, Any](_TOPIC, bootstrap=bootstrap, stop="end", **settings) as next_one:
            again[end] = sum(1 for _ in next_one)
    return {"repeats": again["block"], "repeats_after_close": again["close"], "most_waiting": most_waiting}


def _commit_each(consumer: ottla.Consumer[Any, Any], records: int, rate: int) -> int:
    """Return the largest number of commits that waited at a time."""
    assert consumer._group is not None
    began, seen, most = time.monotonic(), 0, 0
    while seen < records:
        for record in consumer.poll(5.0, max_records=_SLICE):
            consumer.commit_async(offsets={TopicPartition(record.topic, record.partition): record.offset + 1})
            seen += 1
        most = max(most, len(consumer._group.commits._waiting))
        time.sleep(max(0.0, began + seen / rate - time.monotonic()))
    return most


async def measured(stack: RunningStack, given: argparse.Namespace) -> dict[str, Any]:
    async with GroupCalls(stack) as calls:
        await calls.until_served("large")
        return await rebalance(calls, stack, given.members)


async def remembered(stack: RunningStack, given: argparse.Namespace) -> dict[str, Any]:
    async with GroupCalls(stack) as calls:
        await asyncio.gather(*(calls.until_served(f"group-{n}") for n in range(_FIRST_GROUPS)))
        await many_groups(calls, stack, _FIRST_GROUPS, 1)  # what the first ones cost is no group's
        return await many_groups(calls, stack, given.groups, given.lives)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=5_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--lives", type=int, default=2, help="of each group's member")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rate", type=int, default=20_000, help="records a second")
    given = parser.parse_args()
    descriptors.raise_limit()
    directory = Path(tempfile.mkdtemp(prefix="ottla-large-groups-"))
    try:
        found: dict[str, Any] = {}
        for name, measure in (("turns", measured), ("memory", remembered)):
            with RunningStack(directory / name, brokers=1, group_coordinators=1) as stack:
                with ottla.Admin(stack.bootstrap) as admin:
                    admin.topics.create(_TOPIC, partitions=1)
                found |= asyncio.run(measure(stack, given))
                if measure is measured:
                    found |= repeats(stack.bootstrap, given.records, given.rate)
        print(json.dumps(found))
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
