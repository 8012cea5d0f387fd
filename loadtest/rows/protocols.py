"""Compares the cost of a heartbeat in the consumer protocol (KIP-848) and in the classic one: the CPU time of all
services for each heartbeat of a Kafka client, without the time that idle services take.

One stack has members of both protocols, each with a connection of its own. In turn, the members of one protocol send a
heartbeat every 3 s. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

from loadtest.rows.group_calls import GroupCalls
from loadtest.rows.heartbeats import joined, kafka_clients
from loadtest.rows.hops import Request, ServicesCpu, measured_stack, paced
from ottla.client.kafka.apis import Api
from ottla.client.kafka.frames import request_frame, response_in
from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla_stack.running import RunningStack

A = TypeVar("A")

TOPIC: Final = "read"
_HEARTBEAT: Final = Api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, range(1, 2))
_AT_ONCE: Final = 50
_ROUND_S: Final = 1.2
"""A little more than the interval between two targets of a group."""

_QUIET_ROUNDS: Final = 2
_MOST_ROUNDS: Final = 30


class ConsumerMember:
    """A member of the consumer protocol over a connection of its own, which does as the coordinator says."""

    def __init__(self, group: str, member_id: str) -> None:
        self._group: Final = group
        self._member_id: Final = member_id
        self._epoch = 0
        self._owned: list[ConsumerGroupHeartbeatRequest.TopicPartitions] = []
        self._frame = b""

    async def connect(self, address: str, connections: AsyncExitStack) -> None:
        self._reader, self._writer = await asyncio.open_connection(*HostPort.parse(address))
        connections.callback(self._writer.close)

    async def join(self) -> None:
        request = self._request()
        request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = 300_000, [TOPIC], []
        self._follow(await self._ask(request))

    async def step(self) -> bool:
        """Report what the member owns, and do as the response says. Return whether anything has changed."""
        request = self._request()
        request.topic_partitions = self._owned
        return self._follow(await self._ask(request))

    async def beat(self) -> None:
        """Send a heartbeat that says nothing new."""
        self._writer.write(self._frame)
        response = await self._response()
        assert (response.error_code, response.member_epoch, response.assignment) == (0, self._epoch, None), response

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self._member_id, member_epoch=self._epoch)

    def _follow(self, response: ConsumerGroupHeartbeatResponse) -> bool:
        assert response.error_code == 0, response
        has_changed = response.member_epoch != self._epoch or response.assignment is not None
        self._epoch = response.member_epoch
        if response.assignment is not None:
            self._owned = [
                ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
                for topic in response.assignment.topic_partitions
            ]
        self._frame = self._frame_of(self._request())
        return has_changed

    async def _ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        self._writer.write(self._frame_of(request))
        return await self._response()

    async def _response(self) -> ConsumerGroupHeartbeatResponse:
        length = await self._reader.readexactly(4)
        frame = length + await self._reader.readexactly(int.from_bytes(length))
        response = response_in(_HEARTBEAT, 1, frame)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def _frame_of(self, request: ConsumerGroupHeartbeatRequest) -> bytes:
        return b"".join(request_frame(_HEARTBEAT, 1, 1, "", request))


async def settled(address: str, groups: int, each: int, connections: AsyncExitStack) -> list[ConsumerMember]:
    """Return members that all have their assignment."""
    members = [ConsumerMember(f"new-{n % groups}", f"member-{n}") for n in range(groups * each)]
    for member in members:
        await member.connect(address, connections)
    await _in_turns(members, ConsumerMember.join)
    quiet = 0
    for _ in range(_MOST_ROUNDS):
        await asyncio.sleep(_ROUND_S)
        quiet = 0 if any(await _in_turns(members, ConsumerMember.step)) else quiet + 1
        if quiet == _QUIET_ROUNDS:
            return members
    raise AssertionError(f"the groups have not settled after {_MOST_ROUNDS} rounds of heartbeats")


async def _in_turns(members: Sequence[ConsumerMember], act: Callable[[ConsumerMember], Awaitable[A]]) -> list[A]:
    results: list[A] = []
    for at in range(0, len(members), _AT_ONCE):
        results += await asyncio.gather(*map(act, members[at : at + _AT_ONCE]))
    return results


async def measure(stack: RunningStack, cpu: ServicesCpu, given: argparse.Namespace) -> dict[str, Any]:
    count = given.groups * given.each
    async with AsyncExitStack() as connections, GroupCalls(stack) as calls:
        classic = await joined(calls, given.groups, given.each)
        beat = await kafka_clients(stack, classic, connections)
        new = await settled(stack.bootstrap, given.groups, given.each, connections)
        kinds: list[tuple[str, Request]] = [
            ("classic", lambda n: beat(classic[n])),
            ("consumer", lambda n: new[n].beat()),
        ]
        pairs = []
        for _ in range(given.pairs):
            pairs.append({kind: await paced(cpu, count, request, given.seconds) for kind, request in kinds})
            kinds.reverse()
            print(json.dumps(pairs[-1]), flush=True)
    return summary(pairs) | {"members": count, "groups": given.groups}


def summary(pairs: Sequence[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Return the medians over all pairs, with the range of the ratios."""
    ratios = [pair["consumer"]["all"] / pair["classic"]["all"] for pair in pairs]
    kinds = {
        kind: {name: round(statistics.median(pair[kind][name] for pair in pairs), 1) for name in pairs[0][kind]}
        for kind in ("classic", "consumer")
    }
    return {
        "pairs": len(pairs),
        "us": kinds,
        "ratio": round(statistics.median(ratios), 3),
        "spread": [round(min(ratios), 3), round(max(ratios), 3)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--each", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=9.0)
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    with measured_stack(TOPIC, given.each) as (stack, cpu):
        print(json.dumps(asyncio.run(measure(stack, cpu, given))))


if __name__ == "__main__":
    main()
