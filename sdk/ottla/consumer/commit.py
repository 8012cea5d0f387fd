"""What a consumer of a group says about offsets: commits, and what was committed."""

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
        """Commit, and wait until the group has it: all that was handed out, or these {(topic, partition): offset}.

        In a loop over records that includes the one at hand, as in every client of Kafka: call it when that is
        processed. (What `commit="at_least_once"` commits by itself does not include it.)

        An offset is that of the next record to read; `OffsetAndMetadata(offset, "a note")` says more. Tried again for
        up to `timeout` seconds while the coordinator is away.

        Raises CommitFailedError where the group has gone on without this consumer, RebalanceInProgressError where it
        is to read on first, UnknownTopicError where a topic is away, or was made anew since the records were handed
        out (the other partitions are committed), ottla.TimeoutError, WakeupError.
        """
        group = self._member()
        to_commit = group.committer.to_commit(offsets)
        group.commits.run_callbacks()
        group.committer.commit(to_commit, seconds(timeout, "timeout"))

    @guarded
    def commit_async(self, callback: OnCommitted | None = None, *, offsets: OffsetsLike | None = None) -> None:
        """Commit without waiting: after all that was committed before, and never twice.

        `callback(offsets, error)` is called when this consumer reads, commits or closes next; error is None where all
        went well.
        """
        group = self._member()
        group.commits.begin(group.committer.to_commit(offsets), callback=callback)

    @guarded
    def committed(
        self, *partitions: tuple[str, int], timeout: Duration = 60.0
    ) -> ByPartition[OffsetAndMetadata | None]:
        """What the group has committed for these partitions, or for those of this consumer; None: nothing yet."""
        group = self._member()
        of = [TopicPartition(*partition) for partition in partitions] or sorted(group.positions())
        found = group.commits.fetch(of, seconds(timeout, "timeout"))
        return ByPartition({partition: found.get(partition) for partition in of})

    @property
    def group_metadata(self) -> GroupMetadata:
        """As whom this consumer is in its group; after it was evicted as whom it was, until it joins anew, so that what
        is committed by it is rejected. From any thread."""
        member = self._member()
        return member.metadata(member.committer.topic_ids())

    def enforce_rebalance(self, reason: str = "") -> None:
        """Have the group's partitions assigned anew, which begins with the next poll: for an assignor of your own that
        knows more now than it did (KIP-568). `reason` is what others read of it."""
        self._member().enforce_rebalance(reason or "the consumer enforces it")

    def _member(self) -> GroupAssignment:
        if self._group is None:
            raise config_error("this consumer has no group to commit to", hint="give group=")
        return self._group
