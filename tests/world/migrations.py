"""Groups whose members change from one protocol to the other and back, and the judge of their owners.

Each role of a group has one member after the other, each in a process and on a host of its own. A member that is told
to leave is followed by one of the other protocol, so a group with members is upgraded and downgraded again and again.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.world.classic_member import ClassicMember
from tests.world.client import RawClient
from tests.world.cluster import Cluster, create_topic
from tests.world.consumer_member import ConsumerMember
from tests.world.findings import Findings
from tests.world.group_member import HEARTBEAT_S, SESSION_S, GroupMember, Role
from tests.world.happenings import Happenings
from tests.world.owners import Owners
from tests.world.process import Process

from ottla_core.errors import ErrorCode

TOPIC: Final = "read-by-groups"
PARTITIONS: Final = 4
CONFIGS: Final = {
    "group.consumer.min.session.timeout.ms": str(int(SESSION_S * 1000)),
    "group.consumer.session.timeout.ms": str(int(SESSION_S * 1000)),
    "group.consumer.min.heartbeat.interval.ms": str(int(HEARTBEAT_S * 1000)),
    "group.consumer.heartbeat.interval.ms": str(int(HEARTBEAT_S * 1000)),
    "group.consumer.migration.policy": "bidirectional",
    # The records of a downgrade are one batch, and a batch has to fit into a segment.
    "offsets.topic.segment.bytes": "4000",
}
GROUPS: Final = ("changing", "blended")
"""Their shards differ."""
SETTLED_S: Final = 2 * SESSION_S
_FOLLOWED_S: Final = (0.05, 1.5)
"""The next member of a role begins after this time."""


@dataclass(slots=True)
class Seat:
    """A role on its host, and its present or last member."""

    host: str
    role: Role
    is_classic: bool
    member: GroupMember | None = None
    is_vacant: bool = False


class Migrations:
    """The topic, the groups, and what the weather does to their members."""

    takes_deletions = is_compacted = goes_by_dates = False

    def __init__(self, cluster: Cluster, findings: Findings, random: Random) -> None:
        self.is_created = False
        self._cluster: Final = cluster
        self.findings: Final = findings
        self._random: Final = random
        self.happenings: Final = Happenings(cluster.world, findings)
        self._owners: Final = Owners(cluster.world, findings)
        self._numbers: Final = itertools.count()
        self.seats: Final = [
            Seat(
                f"member-{number}",
                Role(group, TOPIC, PARTITIONS, "static" if number % 3 == 2 else None),
                is_classic=group == GROUPS[0] or number % 2 == 0,
            )
            for number, group in enumerate(each for group in GROUPS for each in (group,) * 3)
        ]

    # ---- members ---------------------------------------------------------------------------------------------------

    def start_clients(self) -> None:
        async def create(_: Process) -> None:
            await create_topic(self._cluster, self._random, TOPIC, {}, PARTITIONS)
            self.is_created = True
            for seat in self.seats:
                self._cluster.world.after(0.0, lambda seat=seat: self._begin(seat))

        self._cluster.start_client(create)

    def _begin(self, seat: Seat) -> None:
        """Start the next member of the role, unless one is there."""
        if self._cluster.is_up(seat.host):
            return
        kind = ClassicMember if seat.is_classic else ConsumerMember
        name = f"{seat.host}.{next(self._numbers)}"
        member = seat.member = kind(name, seat.role, self._cluster, self._owners, self._random)

        async def work(process: Process) -> None:
            await member.run()
            self._cluster.world.after(self._random.uniform(*_FOLLOWED_S), lambda: self._begin(seat))

        self._cluster.world.note(f"{name} begins with the {'classic' if seat.is_classic else 'consumer'} protocol")
        self._cluster.start_client(work, seat.host)

    # ---- the weather -----------------------------------------------------------------------------------------------

    def migrate(self, seat: Seat) -> None:
        """Have the member leave, and be followed by one of the other protocol."""
        seat.is_classic = not seat.is_classic
        self.findings.counts["members migrated"] += 1
        if seat.is_vacant:
            seat.is_vacant = False
            self._begin(seat)
        elif seat.member is not None:
            seat.member.leaves = True

    def kill(self, seat: Seat, seconds: float) -> None:
        """Kill the member, which is followed by another one."""
        if self._end(seat):
            self._cluster.world.after(seconds, lambda: self._begin(seat))

    def vacate(self, seat: Seat) -> None:
        """Kill the member, which is followed by another one when that is to change its protocol."""
        seat.is_vacant = self._end(seat)

    def _end(self, seat: Seat) -> bool:
        """Kill the member. Return whether there was one."""
        if seat.member is None or not self._cluster.is_up(seat.host):
            return False
        self._cluster.kill(seat.host)
        seat.member.on_killed()
        return True

    def pause(self, seat: Seat, seconds: float) -> None:
        """Suspend the member's process. It then goes on where it was."""
        if seat.member is not None:
            self._cluster.world.note(f"{seat.member.name} is suspended for {seconds:.3f} s")
            seat.member.paused_until = self._cluster.world.now + seconds

    def calm(self) -> None:
        for seat in self.seats:
            if seat.member is not None:
                seat.member.paused_until = 0.0

    # ---- the judge -------------------------------------------------------------------------------------------------

    def seats_of(self, group: str) -> list[Seat]:
        return [seat for seat in self.seats if seat.role.group == group]

    def unsettled(self, group: str) -> str:
        """Return why a group is not settled, or an empty text: its members share all partitions."""
        members = [seat.member for seat in self.seats_of(group) if self._cluster.is_up(seat.host)]
        owned = {member.name: sorted(member.owned) for member in members if member is not None}
        shared = sorted(number for numbers in owned.values() for number in numbers)
        return "" if not owned or shared == list(range(PARTITIONS)) else f"its members own {owned}"

    async def look(self, raw: RawClient) -> str:
        """Judge the groups. Return why that is not possible yet, or an empty text once they were judged."""
        if not self._cluster.network.is_whole:
            return "a host is cut off"
        for group in GROUPS:
            if await self._committed(raw, group, 0) is None:
                return f"group {group} has no coordinator"
        await asyncio.sleep(SETTLED_S)
        for group in GROUPS:
            if why := self.unsettled(group):
                self.findings.violate(f"{group} is not settled {SETTLED_S:.0f} s after the storm: {why}")
            self.findings.counts["groups judged"] += 1
        for seat in self.seats:
            self._end(seat)
        for group in GROUPS:
            for number in range(PARTITIONS):
                offset = await self._committed(raw, group, number)
                if offset is None:
                    return f"the offsets of group {group} can't be read"
                self._owners.judge_committed(group, number, offset)
        self._owners.judge()
        return ""

    async def _committed(self, raw: RawClient, group: str, number: int) -> int | None:
        try:
            answer = await raw.committed(self._random.choice(self._cluster.brokers), group, TOPIC, number)
        except OSError:
            return None
        return answer.offset if answer.code == ErrorCode.NONE else None
