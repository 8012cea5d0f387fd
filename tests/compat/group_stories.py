"""What groups of one client do, told from join to leave: a story for each capability that has to do with groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from peers.client import Client, GroupRec, Member
from tests.compat.topics import Topics
from waiting import wait_until

import ottla

PARTITIONS: Final = 4


class Stage:
    """One group on a topic of its own; its members are closed at the end, whatever happens."""

    def __init__(self, bootstrap: str, topics: Topics, *, partitions: int = PARTITIONS) -> None:
        self.bootstrap: Final = bootstrap
        self.topic: Final = topics.create(partitions=partitions)
        self.group: Final = f"group-of-{self.topic}"
        self._partitions: Final = partitions
        self._members: Final = ExitStack()
        self.written = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._members.close()

    def join(self, client: Client, group: str | None = None, topic: str = "", **settings: Any) -> Member:
        member = client.join(self.bootstrap, topic or self.topic, group or self.group, **settings)
        self._members.callback(member.close)
        return member

    def write(self, count: int, topic: str = "") -> set[bytes]:
        """Values that are like no others, spread over all partitions of the topic, or of another one."""
        values = [b"%d" % n for n in range(self.written, self.written + count)]
        with ottla.Producer(self.bootstrap) as producer:
            for n, value in enumerate(values):
                producer.send(value, topic=topic or self.topic, partition=n % self._partitions)
        self.written += count
        return set(values)

    def wait_shared(self, *members: Member) -> None:
        """Until each has its part of the partitions, of all, and none is anybody else's."""
        every = list(range(self._partitions))

        def shares() -> list[list[int]]:
            return [m.assignment() for m in members]

        wait(lambda: all(shares()) and sorted(p for share in shares() for p in share) == every, shares)


def wait(condition: Callable[[], object], show: Callable[[], object] = str) -> None:
    """`show` tells what is there instead."""
    try:
        wait_until(condition)
    except AssertionError as error:
        raise AssertionError(f"{error}: {show()}") from error


def values(records: Iterable[GroupRec]) -> list[bytes]:
    return sorted(record.value for record in records)


def wait_read(wanted: Iterable[bytes], *members: Member) -> None:
    """Until these are what they have read, all in all, each of them once."""
    listed = sorted(wanted)
    wait(lambda: sum(len(m.records()) for m in members) >= len(listed))
    assert values(r for m in members for r in m.records()) == listed


def share(stage: Stage, client: Client) -> None:
    """Two share the partitions; when one leaves, the other goes on where both have committed."""
    members = [stage.join(client) for _ in range(2)]
    stage.wait_shared(*members)
    wanted = stage.write(40)
    wait_read(wanted, *members)
    for member in members:
        member.commit()
    members[0].close()
    stage.wait_shared(members[1])
    wanted |= stage.write(20)
    wait_read(wanted, *members)


def commit(stage: Stage, client: Client) -> None:
    """Whoever comes next goes on where the group has committed."""
    wanted = stage.write(40)
    first = stage.join(client)
    wait_read(wanted, first)
    first.commit()
    first.close()
    more = stage.write(12)
    wait_read(more, stage.join(client))


def reset(stage: Stage, client: Client) -> None:
    """Without a committed offset: from the first record, or with those that are written after it has come."""
    old = stage.write(20)
    eldest = stage.join(client, f"{stage.group}-earliest")
    latest = stage.join(client, f"{stage.group}-latest", reset="latest")
    wait_read(old, eldest)
    new: set[bytes] = set()

    def reads_them() -> bool:
        new.update(stage.write(PARTITIONS))  # nobody says when it has looked for the end
        return {r.partition for r in latest.records()} == set(range(PARTITIONS))

    wait(reads_them)
    assert set(values(latest.records())) <= new


def seek(stage: Stage, client: Client) -> None:
    """It reads again what it goes back to, of that partition alone."""
    wanted = stage.write(40)
    member = stage.join(client)
    wait_read(wanted, member)
    member.seek(2, 7)
    wait(lambda: len(member.records()) >= 43)
    assert [(r.partition, r.offset) for r in member.records()[40:]] == [(2, 7), (2, 8), (2, 9)]


def cooperative(stage: Stage, client: Client) -> None:
    """A member that comes is given partitions, and those that don't move stay with their reader."""
    first = stage.join(client, assignor="cooperative-sticky")
    stage.wait_shared(first)
    second = stage.join(client, assignor="cooperative-sticky")
    stage.wait_shared(first, second)
    assert sorted(first.revoked) == sorted(second.assignment()), "only what moves is taken away"
    wait_read(stage.write(40), first, second)


def static(stage: Stage, client: Client) -> None:
    """A member with an instance id that comes back in time has its partitions again, and nobody else notices."""
    goes = stage.join(client, instance="goes")
    stage.wait_shared(goes)  # then it joins again, and tells what it had: a new process can't
    stays = stage.join(client, instance="stays")
    stage.wait_shared(stays, goes)
    before, revoked = [stays.assignment(), goes.assignment()], list(stays.revoked)
    goes.close()
    again = stage.join(client, instance="goes")
    wait(lambda: again.assignment() == before[1])
    wait_read(stage.write(40), stays, again)
    assert (stays.assignment(), stays.revoked) == (before[0], revoked)


STORIES: Final = MappingProxyType(
    {
        "share": share,
        "commit": commit,
        "reset": reset,
        "seek": seek,
        "cooperative": cooperative,
        "static": static,
    }
)
"""By the capability that it shows."""


def mixed(stage: Stage, clients: Mapping[str, Client]) -> dict[str, list[int]]:
    """Members of all clients in one group. One leaves, and the others go on. What each has had at first."""
    members = {name: stage.join(client) for name, client in clients.items()}
    stage.wait_shared(*members.values())
    had = {name: member.assignment() for name, member in members.items()}
    wanted = stage.write(20 * len(had))
    wait_read(wanted, *members.values())
    for member in members.values():
        member.commit()
    leaver, *others = members.values()
    leaver.close()
    stage.wait_shared(*others)
    wanted |= stage.write(20 * len(had))
    wait_read(wanted, *members.values())
    return had
