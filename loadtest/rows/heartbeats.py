"""What members that only live cost the coordinators, by the way on which their heartbeats come.

`kafka`: clients of Kafka, each with a connection of its own to one of the brokers, which pass the heartbeats on.
`own connections`: ottla's SDK in a process each. `one connection`: all members in one process, which nobody has.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final, NamedTuple

from loadtest.rows.connections import text
from loadtest.rows.footprint import cpu_seconds
from loadtest.rows.group_calls import LIMIT_S, GroupCalls
from ottla_core.rpc.aio import AioPeer
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb

INTERVAL_S: Final = 3.0
"""Kafka's heartbeat.interval.ms."""

_JOIN_AT_ONCE: Final = 100
_HEARTBEAT: Final = 12


class Member(NamedTuple):
    group: str
    member_id: str
    generation: int


Beat = Callable[[Member], Awaitable[None]]
"""One heartbeat, answered well."""


async def joined(calls: GroupCalls, groups: int, each: int) -> list[Member]:
    """So many groups of so many members, all with their assignment."""
    names = [f"alive-{n}" for n in range(groups)]
    rounds: list[tuple[int, list[str]]] = []
    for at in range(0, groups, _JOIN_AT_ONCE):
        rounds += await asyncio.gather(*(calls.round(name, [""] * each) for name in names[at : at + _JOIN_AT_ONCE]))
    return [Member(name, m, generation) for name, (generation, ids) in zip(names, rounds, strict=True) for m in ids]


async def alive(members: Sequence[Member], beat: Beat, stack: RunningStack, seconds: float) -> dict[str, float]:
    """What the services take while each member says every 3 s that it lives; `us_each` is the coordinators' time.

    The percentages are of members that keep this pace, also where the client here falls behind (`beats_per_s`).
    """
    pids = {kind: [stack.pid(name) for name in named(stack, kind)] for kind in ("group-coordinator", "broker")}
    beats = 0

    async def live(place: int, member: Member) -> None:
        nonlocal beats
        await asyncio.sleep(INTERVAL_S * place / len(members))
        while time.monotonic() < over_at:
            await beat(member)
            beats += 1
            await asyncio.sleep(INTERVAL_S)

    over_at = time.monotonic() + seconds + 2 * INTERVAL_S
    living = [asyncio.create_task(live(place, member)) for place, member in enumerate(members)]
    await asyncio.sleep(2 * INTERVAL_S)  # every connection is there, and every shard is proved
    began, had = time.monotonic(), beats
    before = {kind: sum(map(cpu_seconds, each)) for kind, each in pids.items()}
    await asyncio.sleep(seconds)
    used_s = {kind: sum(map(cpu_seconds, each)) - before[kind] for kind, each in pids.items()}
    took_s, done = time.monotonic() - began, beats - had
    await asyncio.gather(*living)
    wanted_per_s = len(members) / INTERVAL_S
    return {
        "cpu_percent": 100 * wanted_per_s * used_s["group-coordinator"] / done,
        "us_each": 1e6 * used_s["group-coordinator"] / done,
        "brokers_cpu_percent": 100 * wanted_per_s * used_s["broker"] / done,
        "beats_per_s": done / took_s,
    }


async def heartbeats(
    calls: GroupCalls, stack: RunningStack, groups: int, each: int, seconds: float
) -> dict[str, float | dict[str, float]]:
    """Measure both coordinators together, by every way, and the memory that a member takes without its connection."""
    pids = [stack.pid(name) for name in named(stack, "group-coordinator")]
    before_mb = sum(map(resident_mb, pids))
    members = await joined(calls, groups, each)
    members_mb = sum(map(resident_mb, pids)) - before_mb

    async def one_connection(member: Member) -> None:
        await calls.heartbeat(*member)

    found: dict[str, float | dict[str, float]] = {
        "members": len(members),
        "kb_per_member": members_mb * 1024 / len(members),
        "one_connection": await alive(members, one_connection, stack, seconds),
    }
    async with AsyncExitStack() as connections:
        found["kafka"] = await alive(members, await kafka_clients(stack, members, connections), stack, seconds)
    async with AsyncExitStack() as connections:
        found["own_connections"] = await alive(members, await sdk_clients(calls, members, connections), stack, seconds)
    return found


async def kafka_clients(stack: RunningStack, members: Sequence[Member], connections: AsyncExitStack) -> Beat:
    """Spread over the brokers."""
    services = {service.name: service for service in stack.plan.services()}
    ports = [services[name].kafka_port for name in named(stack, "broker")]
    streams = {}
    for n, member in enumerate(members):
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[n % len(ports)])
        connections.callback(writer.close)
        streams[member] = reader, writer

    async def beat(member: Member) -> None:
        reader, writer = streams[member]
        body = text(member.group) + struct.pack(">i", member.generation) + text(member.member_id)
        head = struct.pack(">hhih", _HEARTBEAT, 0, 1, -1)
        writer.write(struct.pack(">i", len(head) + len(body)) + head + body)
        _, _, error = struct.unpack(">iih", await reader.readexactly(10))
        assert error == 0, f"a heartbeat was refused with {error}"

    return beat


async def sdk_clients(calls: GroupCalls, members: Sequence[Member], connections: AsyncExitStack) -> Beat:
    """They come one after another: thousands of connections at once would take longer than gRPC waits for one."""
    peers = {member: AioPeer(calls.owner(member.group)) for member in members}
    for peer in peers.values():
        connections.push_async_callback(peer.close)

    async def beat(member: Member) -> None:
        who = pb.Member(member_id=member.member_id)
        asked = pb.HeartbeatRequest(group=member.group, member=who, generation=member.generation)
        await peers[member].call(Group.HEARTBEAT, asked, timeout=LIMIT_S)

    for member in members:
        await beat(member)
    return beat


def named(stack: RunningStack, kind: str) -> list[str]:
    """The services of a kind."""
    return [service.name for service in stack.plan.services() if service.name.startswith(kind)]
