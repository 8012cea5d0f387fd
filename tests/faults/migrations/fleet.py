"""The members: one process of an unchanged client each, whose reports go into the history as they come."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from peers.client import GroupProtocol
from peers.driver import Driver
from tests.faults.history import HistoryWriter
from tests.faults.network import Nodes

COMMIT_S: Final = 0.5
"""The pause between two commits of a member."""
BY_HAND: Final = "by-hand"
_LEAVE_S: Final = 40.0
_TOLD: Final = ("assigned", "revoked", "lost")


class Role(NamedTuple):
    """A position in a group. Its members come one after another, each in a process of its own."""

    group: str
    client: str
    """A name in the fleet's `clients`, or BY_HAND."""
    migrates: bool
    """Whether its next members change their protocol, or keep it."""
    protocol: GroupProtocol = "classic"
    number: int = 0


class MigratingMember:
    """One process, which commits on command. `partitions` are those that it reports to have."""

    def __init__(
        self, name: str, role: Role, command: list[str], environment: Mapping[str, str], history: Path
    ) -> None:
        self.name: Final = name
        self.role: Final = role
        self.partitions: set[int] = set()
        self._commits: Final = role.client != BY_HAND
        self._is_asked = False
        """Whether a commit is under way. The next one waits for its result."""
        self._notes: Final = HistoryWriter(history, name)
        self._ordered_to_end = False
        self._values: list[str] = []
        with (history.parent / f"{name}.log").open("ab") as complaints:
            self._process: Final = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                start_new_session=True,
            )
        self._reading: Final = threading.Thread(target=self._read, name=name, daemon=True)
        self._reading.start()

    def commit(self) -> None:
        """Tell the process to commit, unless a commit is under way. Its result goes into the history."""
        if self._commits and not self._is_asked and self._process.poll() is None:
            self._is_asked = True
            self._command("commit")

    def kill(self) -> None:
        """SIGKILL the process, and return once all of its output is read."""
        self._ordered_to_end = True
        self._process.send_signal(signal.SIGCONT)
        self._process.kill()
        self._note_end("killed")

    def close(self) -> None:
        """Have the member leave its group, or kill it if it does not."""
        self._ordered_to_end = True
        self._command("close")
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._note_end("closed")

    def pause(self, *, may_expire: bool) -> None:
        """SIGSTOP the process. `may_expire` says that its session may end meanwhile."""
        if may_expire:
            self._note("paused")
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def _command(self, words: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, BlockingIOError):
            self._process.stdin.write(words.encode() + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with suppress(json.JSONDecodeError):  # the last line of one that was killed
                    self._on_event(json.loads(line))
        if not self._ordered_to_end:
            self._note("ended", error=f"by itself with {self._process.wait()}")
        self.partitions.clear()

    def _on_event(self, event: dict[str, Any]) -> None:
        at = event["at_ns"]
        match event:
            case {"record": record}:
                value = base64.b64decode(record["value"]).decode()
                self._note("read", mono_ns=at, values=[value], partition=record["partition"], offset=record["offset"])
            case {"done": "commit", "nothing": True}:
                self._is_asked = False
            case {"done": "commit", "asked_ns": asked}:
                self._is_asked = False
                self._note("commit", "ok", mono_ns=at, asked_ns=asked)
            case {"failed": "commit", "asked_ns": asked, "error": error}:
                self._is_asked = False
                self._note("commit", "fail", mono_ns=at, asked_ns=asked, error=error)
            case {"old_commit": tried}:
                self._note("old_commit", "ok" if tried["error"] == "NONE" else "fail", mono_ns=at, **tried)
            case _:
                [what] = [f for f in _TOLD if f in event]
                numbers = event[what]
                self.partitions = self.partitions.union(numbers) if what == "assigned" else self.partitions - {*numbers}
                self._note(what, mono_ns=at, partitions=numbers)

    def _note_end(self, how: str) -> None:
        self._process.wait()
        ended_ns = time.monotonic_ns()
        self._reading.join()
        self._note(how, mono_ns=ended_ns)
        self._notes.close()

    def _note(self, f: str, type_: str = "info", **fields: object) -> None:
        self._notes.add(type_, f, group=self.role.group, member=self.name, **fields)
        self._notes.flush()


class Fleet:
    """The members of all roles. `clients` are by name, and the members run on `nodes` in turn."""

    def __init__(
        self,
        network: Nodes,
        nodes: Sequence[str],
        history: Path,
        clients: Mapping[str, Driver],
        options: Mapping[str, Any],
    ) -> None:
        self._network: Final = network
        self._nodes: Final = nodes
        self._history: Final = history
        self._clients: Final = clients
        self._options: Final = options
        self._started = 0
        self._members: Final[dict[Role, MigratingMember]] = {}
        self._protocols: Final[dict[Role, GroupProtocol]] = {}
        self._ending = threading.Event()
        self._committing: Final = threading.Thread(target=self._commit, name="commits")

    @property
    def members(self) -> Collection[MigratingMember]:
        return tuple(self._members.values())

    def begin(self, roles: Sequence[Role]) -> None:
        for role in roles:
            self.start(role)
        self._committing.start()

    def start(self, role: Role, protocol: GroupProtocol | None = None) -> MigratingMember:
        """Start a member of the role. Its protocol is that of the role's last member, unless one is given."""
        protocol = protocol or self._protocols.get(role, role.protocol)
        self._protocols[role] = protocol
        self._started += 1
        driver = self._clients["franz-go" if role.client == BY_HAND else role.client]
        options = {**self._options, "group": role.group}
        if role.client == BY_HAND:
            command = driver.member_by_hand(bootstrap=options["bootstrap"], topic=options["topic"], group=role.group)
        else:
            command = driver.member(**options, protocol=protocol, assignor="range", instance=None, reset="earliest")
        name = f"{role.client}-{self._started}"
        wrapped = self._network.command(self._nodes[self._started % len(self._nodes)], command)
        member = MigratingMember(name, role, wrapped, driver.environment, self._history)
        self._members[role] = member
        return member

    def member(self, role: Role) -> MigratingMember:
        return self._members[role]

    def protocol(self, role: Role) -> GroupProtocol:
        return self._protocols[role]

    def remove(self, role: Role) -> None:
        """Have the role's member leave."""
        self._members.pop(role).close()

    def migrate(self, role: Role) -> None:
        """The role's member leaves, and one with the other protocol takes its place."""
        self.remove(role)
        self.start(role, "classic" if self._protocols[role] == "consumer" else "consumer")

    def unsettled(self, group: str, partitions: int) -> str:
        """Return which partitions the members have, or "" if they share all of them, so the group is settled."""
        has = {m.name: sorted(m.partitions) for role, m in self._members.items() if role.group == group}
        shared = sorted(partition for numbers in has.values() for partition in numbers)
        return "" if shared == list(range(partitions)) and all(has.values()) else f"the members have {has}"

    def end(self, kill: Callable[[MigratingMember], bool] = lambda member: False) -> None:
        """Have all members leave, or kill them."""
        self._ending.set()
        if self._committing.is_alive():
            self._committing.join()
        for role in tuple(self._members):
            member = self._members.pop(role)
            if kill(member):
                member.kill()
            else:
                member.close()

    def _commit(self) -> None:
        while not self._ending.wait(COMMIT_S):
            for member in self.members:
                member.commit()
