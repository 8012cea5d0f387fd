"""Compares what the members of groups report. Pure: operations in, findings out, and nothing of the product.

    double_owners      two members had one partition at one time
    old_epoch_commits  a commit was accepted while another member had its partition, or in a former epoch
    lost               an acknowledged record that no member of a group has read
    unsettled          the members of a group did not have all its partitions within twice the session timeout
    ended              a member ended by itself

A member has a partition from `assigned` to `revoked` or `lost`. It reports `assigned` after it has been given the
partition, and the others before it gives the partition up, so times that overlap are a defect. Three events end what a
member has without its report: it is killed, it closes, or it is suspended for so long that its session may end. Until
it resumes, it does not know that its session has ended. So it is no defect that it believes to have its partitions, but
it is one if its commits are accepted. A member may also miss its session for other reasons. It learns that from its
first commit after another member has got its partitions. That excuses it only if none of its commits was accepted
within half a session before: a member whose commits are answered sends its heartbeats, too. Excused overlaps are
counted as `expelled`.

    {"f": "assigned" | "revoked" | "lost", "group": "g", "member": "m", "partitions": [0], "mono_ns": 7, …}
    {"f": "read", "group": "g", "member": "m", "values": ["a", "b"], …}
    {"f": "commit", "type": "ok" | "fail", "group": "g", "member": "m", "asked_ns": 5, "mono_ns": 7, …}
    {"f": "old_commit", "type": "ok" | "fail", "group": "g", "member": "m", "partition": 0, "epoch": 3, "error": …, …}
    {"f": "killed" | "paused" | "closed" | "ended" | "unsettled", "group": "g", "member": "m", …}
    {"f": "written", "type": "ok", "value": "a", …}
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import Final

from tests.faults.gaps import SECOND_NS
from tests.faults.history import Operation
from tests.faults.kinds_found import KindsFound

KINDS: Final = ("double_owners", "old_epoch_commits", "lost", "unsettled", "ended")
_TOLD: Final = {"unsettled": "unsettled", "ended": "ended"}
_NEVER: Final = float("inf")
_NO_MEMBER: Final = re.compile("UNKNOWN_MEMBER_ID|FENCED|_FATAL|CommitFailed")
"""The reports of clients that are no members: names of errors (librdkafka, franz-go) or of exceptions."""


@dataclass(slots=True)
class MigrationFindings(KindsFound):
    """The findings, and how much was done."""

    rebalances: int = 0
    """How often a member was given partitions."""
    commits: int = 0
    refused: int = 0
    """Commits that were refused, those in old epochs included."""
    old_commits: int = 0
    """Commits that were made in an old epoch on purpose."""
    expelled: int = 0
    """Partitions of members that had missed their session and did not know it."""
    reads: int = 0
    written: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))


@dataclass(slots=True)
class Tenure:
    """The time for which a member has a partition, in nanoseconds. Others may have it from `until` on, and the member
    learns that at `believes_until`."""

    member: str
    since: float
    until: float = _NEVER
    believes_until: float = _NEVER
    is_stale: bool = False
    """A response that the member got before it was paused may have given it the partition."""


class MigrationChecker:
    """Give it every operation in the order of time, and then call `findings` once. `groups` are those that read all
    records, and `session_s` is the session timeout of their members."""

    def __init__(self, groups: Collection[str], session_s: float) -> None:
        self._groups: Final = groups
        self._session_ns: Final = session_s * SECOND_NS
        self._findings = MigrationFindings()
        self._tenures: Final[dict[tuple[str, int], list[Tenure]]] = defaultdict(list)
        self._open: Final[dict[tuple[str, str], dict[int, Tenure]]] = defaultdict(dict)
        """By group and member: the partitions that it believes to have."""
        self._commits: Final[dict[tuple[str, str], list[float]]] = defaultdict(list)
        """By group and member: when its accepted commits were sent."""
        self._expelled: Final[dict[tuple[str, str], list[float]]] = defaultdict(list)
        """By group and member: when commits were sent that were refused because it was no member."""
        self._paused: Final[dict[tuple[str, str], float]] = {}
        """By group and member: when it was paused. It has neither committed nor lost its partitions since."""
        self._written: Final[dict[str, None]] = {}
        self._read: Final[dict[str, set[str]]] = defaultdict(set)

    def on_operation(self, operation: Operation) -> None:
        found = self._findings
        if operation["f"] in _TOLD:
            found.add(_TOLD[operation["f"]], _words(operation))
        match operation["f"], operation["type"]:
            case "assigned", _:
                found.rebalances += bool(operation["partitions"])
                self._begin(operation)
            case "revoked", _:
                self._end(operation, operation["partitions"])
            case "lost", _:
                self._end(operation, tuple(self._believed(operation)))
                self._paused.pop((operation["group"], operation["member"]), None)
            case (("killed" | "closed" | "ended"), _):
                self._end(operation, tuple(self._believed(operation)))
            case "paused", _:
                self._paused[operation["group"], operation["member"]] = operation["mono_ns"]
                for tenure in self._believed(operation).values():
                    tenure.until = min(tenure.until, operation["mono_ns"])
            case "read", _:
                found.reads += len(operation["values"])
                self._read[operation["group"]].update(operation["values"])
            case "written", _:
                self._written[operation["value"]] = None
            case "commit", "ok":
                found.commits += 1
                member = operation["group"], operation["member"]
                self._commits[member].append(operation["asked_ns"])
                if self._paused.get(member, _NEVER) < operation["asked_ns"]:
                    del self._paused[member]
                    for tenure in self._believed(operation).values():
                        if tenure.is_stale:
                            tenure.is_stale, tenure.since = False, operation["asked_ns"]
            case "old_commit", outcome:
                found.old_commits += 1
                if outcome == "ok":
                    what = f"partition {operation['partition']} in epoch {operation['epoch']}"
                    found.add("old_epoch_commits", f"{operation['group']}: {operation['member']} committed {what}")
                else:
                    found.refused += 1
            case "commit", _:
                found.refused += 1
                if _NO_MEMBER.search(operation["error"]):
                    self._expelled[operation["group"], operation["member"]].append(operation["asked_ns"])

    def findings(self) -> MigrationFindings:
        """Return what is wrong with all operations together."""
        found = self._findings
        found.written = len(self._written)
        for (group, partition), tenures in sorted(self._tenures.items()):
            self._check_owners(group, partition, sorted(tenures, key=attrgetter("since")))
        for group in sorted(self._groups):
            for value in (value for value in self._written if value not in self._read[group]):
                found.add("lost", f"no member of {group} has read {value}")
        return found

    def _begin(self, operation: Operation) -> None:
        self._end(operation, operation["partitions"])
        for partition in operation["partitions"]:
            is_stale = (operation["group"], operation["member"]) in self._paused
            tenure = Tenure(operation["member"], operation["mono_ns"], is_stale=is_stale)
            self._tenures[operation["group"], partition].append(tenure)
            self._believed(operation)[partition] = tenure

    def _end(self, operation: Operation, partitions: Iterable[int]) -> None:
        believed, at = self._believed(operation), operation["mono_ns"]
        for partition in partitions:
            if (tenure := believed.pop(partition, None)) is not None:
                tenure.until, tenure.believes_until = min(tenure.until, at), at

    def _believed(self, operation: Operation) -> dict[int, Tenure]:
        return self._open[operation["group"], operation["member"]]

    def _check_owners(self, group: str, partition: int, tenures: Sequence[Tenure]) -> None:
        for former, later in pairwise(tenure for tenure in tenures if not tenure.is_stale):
            if former.member == later.member:
                continue
            what = f"partition {partition} of {group}"
            if former.until > later.since:
                if self._was_expelled(group, former, later):
                    self._findings.expelled += 1
                else:
                    self._findings.add("double_owners", f"{former.member} and {later.member} had {what} at one time")
            for asked in self._commits[group, former.member]:
                if later.since < asked < former.believes_until:
                    late_s = (asked - later.since) / SECOND_NS
                    self._findings.add(
                        "old_epoch_commits",
                        f"{former.member} committed {what} {late_s:.3f} s after {later.member} had it",
                    )

    def _was_expelled(self, group: str, former: Tenure, later: Tenure) -> bool:
        """Whether the former owner was silent before the later one came, and its next commit found it no member."""
        expelled = [at for at in self._expelled[group, former.member] if later.since < at < former.believes_until]
        silent_from = later.since - self._session_ns / 2
        taken = [at for at in self._commits[group, former.member] if silent_from < at < former.believes_until]
        return bool(expelled) and not taken


def _words(operation: Operation) -> str:
    return f"{operation['group']}: {operation['member']} {operation.get('error', '')}".rstrip()


def check(operations: Iterable[Operation], groups: Collection[str], session_s: float) -> MigrationFindings:
    checker = MigrationChecker(groups, session_s)
    for operation in sorted(operations, key=itemgetter("mono_ns")):
        checker.on_operation(operation)
    return checker.findings()
