"""The owners of partitions: what members of groups report to have taken, given up and committed, and the judge.

A member owns a partition from the moment at which it takes it until it gives it up, or learns that it is no longer a
member. The judge checks four rules.

1. No partition has two owners at one time. The former owner is excused only if it got no response for so long that its
   session could have ended, and then learned that it was no longer a member, or never got a response again. Then it
   counts as an owner until its session could have ended. A member that gets a response as a member again, however late,
   is not excused. The checker of tests/faults/migrations compares the times.
2. No partition has two owners whose epochs overlap. An owner's epochs reach from the one in which it takes the
   partition to the last one in which it got a response while it had it. No owner is excused.
3. No commit is accepted that its member sent after another owner took the partition, and none of a lower epoch after a
   commit of another owner in a higher epoch was accepted. No owner is excused: a member that does not know that its
   session has ended may commit, but its commit has to be refused. So has a commit in a former epoch of a partition that
   its member has given up.
4. No member learns that it is unknown before its session could have ended.

Rule 1, and the times in rule 3, leave out one kind of owner. As in Kafka, a request may be carried out long after its
member has stopped waiting for it. If it reports that the member owns nothing, it frees what the member has taken since.
So what a member takes soon after it has stopped waiting counts only once it gets a response at a time when that request
can no longer be carried out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tests.faults.gaps import SECOND_NS
from tests.faults.history import Operation
from tests.faults.migrations.checker import check
from tests.world.fibers import World
from tests.world.findings import Findings


class Place(NamedTuple):
    """A partition, as one group reads it."""

    group: str
    partition: int


@dataclass(slots=True)
class _Epochs:
    """The epochs in which an owner has had a partition, including the last one."""

    owner: str
    first: int
    last: int


@dataclass(slots=True)
class Commit:
    """A commit of one partition. `epoch` is the member's epoch or its generation."""

    owner: str
    epoch: int
    offset: int
    asked_at: float
    answered_at: float = float("inf")
    is_accepted: bool = False
    is_refused: bool = False


class Owners:
    """Keeps what members report. `owner` names a member, or all that have one instance id after each other."""

    def __init__(self, world: World, findings: Findings) -> None:
        self._world: Final = world
        self._findings: Final = findings
        self._operations: Final[list[Operation]] = []
        self._epochs: Final[defaultdict[Place, list[_Epochs]]] = defaultdict(list)
        self._commits: Final[defaultdict[Place, list[Commit]]] = defaultdict(list)

    def tell(
        self, f: str, group: str, member: str, at: float | None = None, type_: str = "info", **fields: Any
    ) -> None:
        """Keep an operation of the checker's history. It has happened now, unless `at` says when."""
        at = self._world.now if at is None else at
        self._operations.append(
            {"f": f, "type": type_, "group": group, "member": member, "mono_ns": int(at * SECOND_NS), **fields}
        )

    def take(self, group: str, owner: str, partitions: Iterable[int], epoch: int) -> None:
        """Note that a member owns partitions in an epoch, in which it has taken them or was answered."""
        for number in partitions:
            held = self._epochs[Place(group, number)]
            if not held or held[-1].owner != owner or epoch < held[-1].last:
                held.append(_Epochs(owner, epoch, epoch))
            held[-1].last = epoch
            for other in held[:-1]:
                if other.owner != owner and other.first <= held[-1].last and held[-1].first <= other.last:
                    self._findings.violate(
                        f"partition {number} of {group} has two owners in epoch {epoch}: {other.owner} and {owner}"
                    )

    def begin_commit(self, group: str, owner: str, epoch: int, offsets: dict[int, int]) -> list[Commit]:
        commits = []
        for number, offset in offsets.items():
            commits.append(Commit(owner, epoch, offset, self._world.now))
            self._commits[Place(group, number)].append(commits[-1])
        return commits

    def end_commit(self, group: str, member: str, commits: Sequence[Commit], *, is_accepted: bool) -> None:
        for commit in commits:
            commit.answered_at, commit.is_accepted, commit.is_refused = self._world.now, is_accepted, not is_accepted
        if is_accepted:
            asked_ns = int(min(commit.asked_at for commit in commits) * SECOND_NS)
            self.tell("commit", group, member, type_="ok", asked_ns=asked_ns)

    def violate(self, text: str) -> None:
        self._findings.violate(text)

    # ---- the judge -------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Judge all reports, after every member has ended."""
        # The members report until when they count as owners, so the checker excuses none.
        for example in (found := check(self._operations, (), session_s=0.0)).examples:
            self._findings.violate(example)
        self._findings.counts.update({"tenures": found.rebalances, "old commits": found.old_commits})
        for place, commits in sorted(self._commits.items()):
            self._judge_order(place, [each for each in commits if each.is_accepted])

    def _judge_order(self, place: Place, accepted: list[Commit]) -> None:
        highest: Commit | None = None
        answered = sorted(accepted, key=lambda each: each.answered_at)
        for commit in sorted(accepted, key=lambda each: each.asked_at):
            while answered and answered[0].answered_at < commit.asked_at:
                highest = max(highest or answered[0], answered.pop(0), key=lambda each: each.epoch)
            if highest is not None and highest.epoch > commit.epoch and highest.owner != commit.owner:
                self._findings.violate(
                    f"{commit.owner} has committed partition {place.partition} of {place.group} in epoch "
                    f"{commit.epoch}, after {highest.owner} had committed it in epoch {highest.epoch}"
                )

    def judge_committed(self, group: str, partition: int, offset: int) -> None:
        """Check that the committed offset is that of the last accepted commit, or of one whose outcome is unknown."""
        commits = self._commits[Place(group, partition)]
        found = [each for each in commits if each.offset == offset]
        if not commits and offset < 0:
            return
        superseded = [
            later
            for each in found
            for later in commits
            if later.is_accepted and each.is_accepted and later.asked_at > each.answered_at
        ]
        is_missing = not found and any(each.is_accepted for each in commits)
        if is_missing or superseded or (found and found[0].is_refused):
            self._findings.violate(
                f"{group} has committed offset {offset} of partition {partition}, which is not that of its last commit"
            )
