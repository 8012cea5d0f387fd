"""When a member commits which offsets: at intervals, before a rebalance, at the end, and when the user calls."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from ottla.client.offsets import OffsetAndMetadata, Offsets, OffsetsLike, checked_offsets, offset_and_epoch
from ottla.consumer.context import ConsumerContext
from ottla.consumer.group.commits import Commits
from ottla.consumer.group.options import GroupOptions
from ottla.errors import OttlaError, WakeupError
from ottla.machines.membership import NEVER, NO_GENERATION, Membership, MemberState
from ottla_core.model import TopicId, TopicPartition

logger = logging.getLogger("ottla.group")


class OffsetCommitter:
    """Commits for the reader's thread. `next_at` is when the next auto commit is due."""

    def __init__(self, options: GroupOptions, member: Membership, commits: Commits, context: ConsumerContext) -> None:
        self._options: Final = options
        self._member: Final = member
        self._commits: Final = commits
        self._context: Final = context
        self._clock: Final = context.cluster.clock
        self._leaving = False
        self.next_at = NEVER
        if options.commit == "at_least_once":
            self.next_at = self._clock.monotonic() + options.auto_commit_interval_s

    def handed_out(self, partitions: Iterable[TopicPartition] | None = None) -> Offsets:
        """Return, for each partition or each of `partitions`, the offset after the records that were returned."""
        subscription = self._context.subscription
        with self._context.fetcher.lock:
            positions = subscription.positions
            of = positions if partitions is None else [p for p in partitions if p in positions]
            return {
                partition: offset_and_epoch(position.offset, position.offset_epoch, position.topic_id or b"")
                for partition in of
                if (position := positions[partition]).offset is not None and position not in subscription.unlocated
            }

    def to_commit(self, offsets: OffsetsLike | None) -> Offsets:
        """Return the offsets to commit; None: those after all returned records. Raises ConfigError for invalid ones.

        An offset equal to the current position belongs to the position's topic, any other to the topic read last.
        """
        if offsets is None:
            return self.handed_out()
        requested = checked_offsets(offsets)
        at = self.handed_out(requested)
        return {
            partition: offset._replace(topic_id=at[partition].topic_id)
            if offset.topic_id is None and partition in at and at[partition].offset == offset.offset
            else offset
            for partition, offset in requested.items()
        }

    def topic_ids(self) -> dict[TopicPartition, TopicId]:
        """Return, for each partition, the id of the topic that its last returned record came from."""
        with self._context.fetcher.lock:
            positions = self._context.subscription.positions.items()
            return {partition: topic_id for partition, at in positions if (topic_id := at.read_topic_id)}

    def uncommitted(self, offsets: Offsets) -> Offsets:
        """Return the offsets that are not committed yet, as far as known."""
        return {p: committed for p, committed in offsets.items() if not _is_same(self._commits.known.get(p), committed)}

    def commit(self, offsets: Offsets, timeout: float | None = None) -> None:
        """Commit, and wait for it. Raises CommitFailedError, or any other error that prevents the commit."""
        if offsets:
            limit_s = self._context.request_timeout_s if timeout is None else timeout
            self._commits.wait(self._commits.begin(offsets, retries=True), limit_s, self._check_open)

    def commit_due(self) -> None:
        """Do the auto commit if it is due: all records returned before count as processed."""
        now = self._clock.monotonic()
        if now < self.next_at:
            return
        self.next_at = now + self._options.auto_commit_interval_s
        offsets = self.uncommitted(self.handed_out()) if self._member.state is MemberState.STABLE else {}
        if offsets:
            self._commits.begin(offsets, callback=self._on_auto_commit)

    def commit_before_rebalance(self) -> None:
        """Commit the returned records, which are processed by now, so that the next owners continue after them."""
        if self._options.commit == "manual":
            return
        try:
            self.commit(self.uncommitted(self.handed_out()))
        except OttlaError as error:
            if isinstance(error, WakeupError) or self._context.fetcher.closed:
                raise
            logger.warning(
                "group %s: records will be read again, because their offsets were not committed: %s",
                self._options.group,
                error,
            )

    def commit_last(self, offsets: Offsets, timeout: float) -> None:
        """Commit `offsets` within `timeout` seconds, and nothing afterwards. A failure is logged.

        The user's own commits end first, and none of them is taken back.
        """
        self._leaving = True
        deadline_at = self._clock.monotonic() + timeout
        try:
            if not self._member.lost and self._member.generation != NO_GENERATION:
                self._commits.drain(timeout)
                left_s = max(0.0, deadline_at - self._clock.monotonic())
                self.commit(self._beyond_known(self.uncommitted(offsets)), left_s)
        except OttlaError as error:
            logger.warning(
                "group %s: records will be read again, because their offsets were not committed: %s",
                self._options.group,
                error,
            )

    def _beyond_known(self, offsets: Offsets) -> Offsets:
        """Leave out each offset before one that the group has: the user has committed the records in between.

        An offset that the group has counts unless the consumer went back before it, by `seek` for one.
        """
        at, known = self.handed_out(offsets), self._commits.known
        return {
            partition: offset
            for partition, offset in offsets.items()
            if (has := known.get(partition)) is None
            or (position := at.get(partition)) is None
            or not _is_same_topic(has, offset)
            or not offset.offset < has.offset <= position.offset
        }

    def _on_auto_commit(self, offsets: Offsets, error: OttlaError | None) -> None:
        if error is not None:
            logger.info("group %s: an automatic commit failed: %s", self._options.group, error)

    def _check_open(self) -> None:
        """Raise if the wait has to end, except when the consumer closes: nothing else would commit then."""
        if not self._leaving:
            self._context.fetcher.check_open()


def _is_same(known: OffsetAndMetadata | None, committed: OffsetAndMetadata) -> bool:
    """Return whether both are the same offset in the same topic; a recreated topic is another one."""
    return known is not None and known.offset == committed.offset and _is_same_topic(known, committed)


def _is_same_topic(known: OffsetAndMetadata, committed: OffsetAndMetadata) -> bool:
    """Return whether both may be in the same topic. If one has no topic id, they may be."""
    return not known.topic_id or not committed.topic_id or known.topic_id == committed.topic_id
