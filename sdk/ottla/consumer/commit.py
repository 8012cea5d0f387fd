"""Offsets of a consumer in a group: committing them, and looking up what is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.client.by_partition import ByPartition
from ottla.client.offsets import GroupMetadata, OffsetAndMetadata, OffsetsLike
from ottla.client.units import Duration, seconds
from ottla.consumer.assignment import Assignment
from ottla.consumer.concurrent_use import ConcurrentUseGuard, guarded
from ottla.consumer.group.assignment import GroupAssignment
from ottla.consumer.group.commit_round import OnCommitted
from ottla.errors import config_error
from ottla_core.model import TopicPartition


class Committing:
    """The part of a Consumer that needs a group."""

    def __init__(self, assignment: Assignment | GroupAssignment, settle: Callable[[], None]) -> None:
        self.use_guard = ConcurrentUseGuard(settle)
        self._group: Final = assignment if isinstance(assignment, GroupAssignment) else None

    @guarded
    def commit(self, offsets: OffsetsLike | None = None, *, timeout: Duration = 60.0) -> None:
        """Commit every record returned so far, or these {(topic, partition): offset}, and wait for the coordinator.

        In a loop over records, the commit includes the current record, as in every Kafka client, so call `commit` only
        after you have processed that record. (The automatic commits of `commit="at_least_once"` do not include it.)

        An offset is that of the next record to read; to add a note, pass `OffsetAndMetadata(offset, "a note")`. While
        the coordinator is unreachable, `commit` retries for up to `timeout` seconds.

        Raises CommitFailedError if the group has rebalanced without this consumer; RebalanceInProgressError if the
        consumer has to continue reading first; UnknownTopicError if a topic is missing, or was recreated since its
        records were returned (offsets of other partitions are committed); ottla.TimeoutError; WakeupError.
        """
        group = self._member()
        to_commit = group.committer.to_commit(offsets)
        group.commits.run_callbacks()
        group.committer.commit(to_commit, seconds(timeout, "timeout"))

    @guarded
    def commit_async(self, callback: OnCommitted | None = None, *, offsets: OffsetsLike | None = None) -> None:
        """Commit without waiting. The commit comes after all earlier commits, and is not retried.

        The consumer calls `callback(offsets, error)` when it next reads, commits or closes; `error` is None after
        success.
        """
        group = self._member()
        group.commits.begin(group.committer.to_commit(offsets), callback=callback)

    @guarded
    def committed(
        self, *partitions: tuple[str, int], timeout: Duration = 60.0
    ) -> ByPartition[OffsetAndMetadata | None]:
        """Return the group's committed offset in each of these partitions (default: this consumer's), or None."""
        group = self._member()
        of = [TopicPartition(*partition) for partition in partitions] or sorted(group.positions())
        found = group.commits.fetch(of, seconds(timeout, "timeout"))
        return ByPartition({partition: found.get(partition) for partition in of})

    @property
    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's identity in its group. Any thread may call it.

        After an eviction, until the consumer joins again, it is the old identity, so a commit with it is rejected.
        """
        member = self._member()
        return member.metadata(member.committer.topic_ids())

    def enforce_rebalance(self, reason: str = "") -> None:
        """Make the group reassign its partitions, beginning with the next poll (KIP-568).

        Call it if your own assignor would now assign the partitions differently. The coordinator records `reason`.
        """
        self._member().enforce_rebalance(reason or "the consumer enforces it")

    def _member(self) -> GroupAssignment:
        if self._group is None:
            raise config_error("this consumer has no group to commit to", hint="pass group=")
        return self._group
