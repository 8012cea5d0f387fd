"""Holds what members of groups were told against each other. Pure: operations in, findings out, nothing of the product.

    stale_fetches           a fetched offset is older than one that was known to be committed before it was asked for
    unfounded_fetches       a fetched offset that nobody has committed, or whose commit was refused
    old_generation_commits  a commit took effect after a later generation had been given its partitions
    double_owners           two members were given one partition in one generation
    kicked                  a member that did nothing wrong was told that it is none any more
    surprises               an error that no client is to see
    unsettled               a rebalance had no end, or a group was left with members that are gone

Every commit writes a value that nobody else writes, so a fetch names the commit that it saw. A group's partition is a
register: commit W was over by the time `end(W)`, and had taken effect by `seen(W)`, which is its acknowledgement or the
end of the first fetch that found it. A fetch of W is stale where another commit had taken effect before the fetch was
asked for, and was asked for itself after `end(W)`. A commit whose answer was lost ends when a later generation has been
given its partitions, for no coordinator may take it then; without a generation it never ends, and proves little.

    {"f": "commit", "type": "invoke", "id": 7, "group": "g", "member": "m", "generation": 3, "offsets": {"0": 99}, …}
    {"f": "commit", "type": "ok" | "fail" | "info", "id": 7, …}            fail: refused; info: nobody knows
    {"f": "fetch",  "type": "ok", "group": "g", "offsets": {"0": 99, "1": -1}, "asked_ns": 5, …}
    {"f": "sync",   "type": "ok", "group": "g", "owner": "m", "generation": 3, "partitions": [0, 1], …}
    {"f": "kicked" | "surprise" | "unsettled", "type": "info", "group": "g", "error": "…", …}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from tests.faults.history import Operation
from tests.faults.kinds_found import KindsFound

KINDS: Final = (
    "stale_fetches",
    "unfounded_fetches",
    "old_generation_commits",
    "double_owners",
    "kicked",
    "surprises",
    "unsettled",
)
_TOLD: Final = {"kicked": "kicked", "surprise": "surprises", "unsettled": "unsettled"}
_NEVER: Final = float("inf")
_NOTHING: Final = -1

Register = tuple[str, str]
"""A group and the number of a partition."""


@dataclass(slots=True)
class GroupFindings(KindsFound):
    """And how much was done."""

    commits: int = 0
    refused: int = 0
    unknown: int = 0
    fetches: int = 0
    rebalances: int = 0
    """Generations that were given their partitions."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))


@dataclass(slots=True)
class _Commit:
    """One partition's part of a commit; times are nanoseconds."""

    value: int
    generation: int | None
    asked: float
    end: float = _NEVER
    seen: float = _NEVER
    refused: bool = False


@dataclass(slots=True)
class _Fetch:
    value: int
    asked: float
    done: float
    process: str


class GroupChecker:
    """Feed it every operation, those of one process in their order; then ask once for the findings."""

    def __init__(self) -> None:
        self._findings = GroupFindings()
        self._commits: dict[Register, dict[int, _Commit]] = {}
        self._open: dict[tuple[str, int], list[_Commit]] = {}  # (process, id)
        self._fetches: dict[Register, list[_Fetch]] = {}
        self._given: dict[str, dict[int, float]] = {}  # group: generation: when the first member had its partitions
        self._owners: dict[tuple[str, int], dict[int, str]] = {}

    def on_operation(self, operation: Operation) -> None:
        match operation["f"], operation["type"]:
            case "commit", "invoke":
                self._on_asked(operation)
            case "commit", outcome:
                self._on_outcome(operation, outcome)
            case "fetch", "ok":
                self._on_fetched(operation)
            case "sync", "ok":
                self._on_given(operation)
            case f, _ if f in _TOLD:
                self._findings.add(
                    _TOLD[f], f"{operation['process']}, group {operation['group']}: {operation['error']}"
                )

    def findings(self) -> GroupFindings:
        """What is wrong with all of it together."""
        found = self._findings
        found.unknown = sum(1 for parts in self._open.values() if parts)
        found.rebalances = sum(len(generations) for generations in self._given.values())
        for register, fetches in sorted(self._fetches.items()):
            self._match(register, fetches)
        for (group, partition), commits in sorted(self._commits.items()):
            self._check_generations(group, partition, commits.values())
        for register, fetches in sorted(self._fetches.items()):
            self._check_fresh(register, fetches)
        return found

    # ---- what was done ----------------------------------------------------------------------------------------------

    def _on_asked(self, operation: Operation) -> None:
        commits = []
        for partition, value in operation["offsets"].items():
            commit = _Commit(value, operation["generation"], operation["mono_ns"])
            self._commits.setdefault((operation["group"], partition), {})[value] = commit
            commits.append(commit)
        self._open[operation["process"], operation["id"]] = commits

    def _on_outcome(self, operation: Operation, outcome: str) -> None:
        if outcome == "info":
            return
        commits = self._open.pop((operation["process"], operation["id"]))
        self._findings.commits += outcome == "ok"
        self._findings.refused += outcome == "fail"
        for commit in commits:
            commit.end = operation["mono_ns"]
            if outcome == "ok":
                commit.seen = commit.end
            else:
                commit.refused = True

    def _on_fetched(self, operation: Operation) -> None:
        self._findings.fetches += 1
        for partition, value in operation["offsets"].items():
            fetch = _Fetch(value, operation["asked_ns"], operation["mono_ns"], operation["process"])
            self._fetches.setdefault((operation["group"], partition), []).append(fetch)

    def _on_given(self, operation: Operation) -> None:
        group, generation, owner = operation["group"], operation["generation"], operation["owner"]
        given = self._given.setdefault(group, {})
        given[generation] = min(given.get(generation, _NEVER), operation["mono_ns"])
        owners = self._owners.setdefault((group, generation), {})
        for partition in operation["partitions"]:
            if owners.setdefault(partition, owner) != owner:
                self._findings.add(
                    "double_owners",
                    f"partition {partition} of {group} in generation {generation}: {owners[partition]} and {owner}",
                )

    # ---- what is wrong with it --------------------------------------------------------------------------------------

    def _match(self, register: Register, fetches: Iterable[_Fetch]) -> None:
        """Which commit each fetch saw: that one has taken effect by the end of the fetch."""
        commits = self._commits.get(register, {})
        for fetch in fetches:
            commit = commits.get(fetch.value)
            if commit is not None and not commit.refused:
                commit.seen = min(commit.seen, fetch.done)
            if fetch.value != _NOTHING and (commit is None or commit.refused or commit.asked > fetch.done):
                why = "nobody has committed" if commit is None else "whose commit was refused, or came later"
                self._findings.add("unfounded_fetches", f"{fetch.process} was told {fetch.value} of {register}, {why}")

    def _check_generations(self, group: str, partition: str, commits: Iterable[_Commit]) -> None:
        given = self._given.get(group, {})
        for commit in commits:
            if commit.generation is None:
                continue
            later = min((at for generation, at in given.items() if generation > commit.generation), default=_NEVER)
            if commit.seen < _NEVER and commit.asked > later:
                self._findings.add(
                    "old_generation_commits",
                    f"{commit.value} of {group}, partition {partition}, in generation {commit.generation}, "
                    f"{(commit.asked - later) / 1e9:.3f} s after a later one had its partitions",
                )
            commit.end = min(commit.end, max(later, commit.asked))

    def _check_fresh(self, register: Register, fetches: Iterable[_Fetch]) -> None:
        commits = self._commits.get(register, {})
        effective = sorted((c for c in commits.values() if c.seen < _NEVER), key=attrgetter("seen"))
        at, newest = 0, _Commit(_NOTHING, None, -_NEVER)
        for fetch in sorted(fetches, key=attrgetter("asked")):
            while at < len(effective) and effective[at].seen < fetch.asked:
                newest = max(newest, effective[at], key=attrgetter("asked"))
                at += 1
            if self._end(commits, fetch.value) < newest.asked:
                group, partition = register
                self._findings.add(
                    "stale_fetches",
                    f"{fetch.process} was told {fetch.value} of {group}, partition {partition}, "
                    f"{(fetch.asked - newest.seen) / 1e9:.3f} s after {newest.value} was there",
                )

    @staticmethod
    def _end(commits: Mapping[int, _Commit], value: int) -> float:
        if value == _NOTHING:
            return -1.0
        commit = commits.get(value)
        return _NEVER if commit is None else commit.end


def check(operations: Iterable[Operation]) -> GroupFindings:
    checker = GroupChecker()
    for operation in operations:
        checker.on_operation(operation)
    return checker.findings()
