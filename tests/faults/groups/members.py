"""`python -m tests.faults.groups.members`: members of groups, and readers of their offsets, until SIGTERM.

Beside the members of each group somebody asks for its offsets, where a client would ask and at every coordinator in
turn: whoever owns the group no more has to say so, or to know better. SIGUSR1: behave from now on.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import time
from typing import Any, Final

from tests.faults.groups.client import MOVING, GroupClient
from tests.faults.groups.member import Habits, Member
from tests.faults.groups.notes import GroupNotes
from tests.faults.history import HistoryWriter, client_parser

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.status import raise_error
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group

_ASK_ALL_EVERY: Final = 4
_NOTHING: Final = -1
_PATIENT_S: Final = 15.0
_LOOK_S: Final = 1.0


class OffsetReader:
    """Asks for all offsets of a group: where a client would ask, and every fourth time at each coordinator.

    That one is waited for: a coordinator that hangs may answer much later, when it owns the group no more.
    """

    def __init__(self, client: GroupClient, notes: GroupNotes, group: str, topic: str, partitions: int) -> None:
        self._client: Final = client
        self._notes: Final = notes
        self._group: Final = group
        self._topic: Final = topic
        self._partitions: Final = partitions
        self._patient: Final[set[asyncio.Task[None]]] = set()

    async def run(self, every_s: float) -> None:
        """Until it is cancelled."""
        turn = random.randrange(_ASK_ALL_EVERY)
        while True:
            turn += 1
            if turn % _ASK_ALL_EVERY == 0:
                for address in self._client.coordinators:
                    task = asyncio.create_task(self._read(address))
                    self._patient.add(task)
                    task.add_done_callback(self._patient.discard)
            else:
                await self._read()
            await asyncio.sleep(every_s * random.uniform(0.5, 1.5))

    async def _read(self, address: str = "") -> None:
        asked, asked_ns = pb.FetchOffsetsRequest(group=self._group, all=True), time.monotonic_ns()
        try:
            if address:
                response = await self._client.ask_at(address, Group.FETCH_OFFSETS, asked, timeout=_PATIENT_S)
            else:
                response = await self._client.ask(self._group, Group.FETCH_OFFSETS, asked)
            raise_error(response.error)
        except OttlaError as error:
            if error.code not in MOVING:
                self._notes.told("surprise", self._group, error)
            return
        told = dict.fromkeys(range(self._partitions), _NOTHING)  # what is not told of has no offset
        told |= {each.partition: each.offset for each in response.offsets if each.topic == self._topic}
        self._notes.fetched(self._group, told, asked_ns)


async def look_around(client: GroupClient, notes: GroupNotes) -> None:
    """Until it is cancelled: list and describe at every coordinator, also while it loads."""
    allowed = {*MOVING, ErrorCode.GROUP_ID_NOT_FOUND}
    while True:
        for address in client.coordinators:
            try:
                listed = await client.ask_at(address, Group.LIST_GROUPS, pb.ListGroupsRequest())
                if listed.error.code not in (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, *MOVING):
                    notes.told("surprise", "", listed.error.message)
                asked = pb.DescribeGroupsRequest(groups=[each.group for each in listed.groups][:3])
                described = await client.ask_at(address, Group.DESCRIBE_GROUPS, asked)
                for each in described.groups:
                    if each.error.code and each.error.code not in allowed:
                        notes.told("surprise", each.group, each.error.message)
            except OttlaError as error:
                if error.code not in MOVING:
                    notes.told("surprise", "", error)
        await asyncio.sleep(_LOOK_S)


async def run(given: argparse.Namespace, history: HistoryWriter) -> None:
    client = GroupClient(given.coordinators.split(","))
    notes = GroupNotes(history, given.number)
    habits = Habits(tick_s=given.tick, heartbeat_s=given.heartbeat, churn_s=given.churn)
    members = [
        Member(client, notes, group, given.topic, given.partitions, habits, random.Random(f"{given.seed}-{group}-{n}"))
        for group in given.groups.split(",")
        for n in range(given.members)
    ]
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_signal_handler(signal.SIGUSR1, lambda: [setattr(member, "calm", True) for member in members])
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(member.run()) for member in members]
    readers = [
        OffsetReader(client, notes, group, given.topic, given.partitions)
        for group in (*given.groups.split(","), *filter(None, given.also.split(",")))
    ]
    tasks += [asyncio.create_task(reader.run(given.tick)) for reader in readers]
    tasks.append(asyncio.create_task(look_around(client, notes)))
    ending = asyncio.create_task(ended.wait())
    done, _ = await asyncio.wait([*tasks, ending], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    for task in done - {ending}:
        task.result()  # none of them ends by itself, but by a mistake
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    await client.close()


def main(arguments: list[str]) -> int:
    parser = client_parser("groups.members", __doc__)
    parser.add_argument("--number", type=int, required=True, help="another for every process that commits, below 64")
    parser.add_argument("--coordinators", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--groups", required=True, help="separated by commas")
    parser.add_argument("--also", default="", help="more groups, whose offsets are only read")
    parser.add_argument("--members", type=int, required=True, help="of each group")
    parser.add_argument("--tick", type=float, default=0.25, help="seconds between two commits")
    parser.add_argument("--heartbeat", type=float, default=0.5)
    parser.add_argument("--churn", type=float, default=0.0, help="seconds that a member stays; 0: for ever")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    history = HistoryWriter(given.history, given.process)
    asyncio.run(run(given, history))
    history.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
