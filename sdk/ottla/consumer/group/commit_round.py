"""Commits that wait go to the coordinator together, with the newest offset of each partition.

So a loop that commits each record does not wait for one round trip per record. A failure of one partition fails only
that partition's commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ottla.client.offsets import Offsets, in_topics
from ottla.errors import OttlaError
from ottla.machines.membership import MemberIdentity
from ottla_core.errors import UNANSWERED
from ottla_core.model import TopicId, TopicPartition

OnCommitted = Callable[[Offsets, OttlaError | None], object]
"""A callback, which gets the offsets, and the error that prevented the commit, or None."""


class Commit:
    """One commit. It is `done` once there is an outcome; `error` is set if it failed. It `retries` while the caller
    waits."""

    def __init__(
        self,
        who: MemberIdentity,
        offsets: Offsets,
        topic_ids: Mapping[TopicPartition, TopicId],
        retries: bool,
        callback: OnCommitted | None,
    ) -> None:
        self.who: Final = who
        self.offsets: Final = offsets
        self.in_topics: Final = in_topics(offsets, topic_ids)
        self.retries = retries
        self.callback: Final = callback
        self.done = False
        self.error: OttlaError | None = None
        self.last_failure: OttlaError | None = None
        """The error of the last attempt, after which the commit is tried again."""
        self.last_answer: OttlaError | None = None
        """The coordinator's last answer, which may say more than a later attempt that got none."""

    def absorb(self, later: Commit) -> bool:
        """Take over the offsets of a later commit, if no caller waits for either. That bounds the waiting commits."""
        has_caller = self.retries or later.retries or self.callback or later.callback
        if has_caller or self.who != later.who:
            return False
        self.offsets.update(later.offsets)
        self.in_topics.update(later.in_topics)
        return True


class CommitRound:
    """Pending commits of the member `who` that are sent together; `left` are the offsets still to be committed."""

    def __init__(self, commits: Sequence[Commit]) -> None:
        self.who: Final = commits[0].who
        self.pending = list(commits)
        self.left: Offsets = {}
        for commit in commits:
            self.left |= commit.in_topics

    def settle(
        self, failures: Mapping[TopicPartition, OttlaError], give_up: Callable[[Commit, OttlaError], bool]
    ) -> Iterable[tuple[Commit, OttlaError | None]]:
        """Note that every offset left was sent, with these failures; yield the commits with an outcome, in order."""
        pending, self.pending = self.pending, []
        for commit in pending:
            error = next((failures[p] for p in commit.in_topics if p in failures), None)
            if error is None or give_up(commit, error):
                yield commit, error
            else:
                commit.last_failure = error
                if error.code not in UNANSWERED:
                    commit.last_answer = error
                self.pending.append(commit)
        # If a later commit has moved a partition on, its older offset is never sent again.
        pending_partitions = {partition for commit in self.pending for partition in commit.in_topics}
        self.left = {p: self.left[p] for p in failures if p in pending_partitions}
