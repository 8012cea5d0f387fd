"""The partitions of a group member: it joins, gives up and takes over partitions, all in the thread that reads.

Calls that may take long run on threads of their own (`Call`). The reader's thread calls `ensure`, which picks up their
results, and meanwhile reads the partitions that it has. So this module never waits for other members, only for commits
before partitions are given up, and for the user's callbacks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import Final

from ottla.client.condition import Condition
from ottla.client.metadata_updater import MetadataUpdater
from ottla.client.offsets import GroupMetadata, Offsets
from ottla.consumer.assignment import resolve
from ottla.consumer.context import ConsumerContext
from ottla.consumer.fetcher import closed_error
from ottla.consumer.group.call import Call
from ottla.consumer.group.commits import Commits
from ottla.consumer.group.committer import OffsetCommitter
from ottla.consumer.group.coordinator import CoordinatorClient
from ottla.consumer.group.heartbeats import Heartbeats, leave
from ottla.consumer.group.joining import Claims, JoinFailure, Joining, JoinResult
from ottla.consumer.group.listener import Callbacks, Listener
from ottla.consumer.group.options import GroupOptions
from ottla.consumer.group.start_positions import PositionInitializer, StartPositionFinder
from ottla.errors import config_error
from ottla.machines.leading import changed_topics
from ottla.machines.membership import NEVER, Meaning, Membership, MemberState
from ottla.machines.metadata import ClusterView
from ottla.machines.position import Position
from ottla_core.model import TopicId, TopicPartition
from ottla_core.plural import counted

logger = logging.getLogger("ottla.group")

_LOG_EVERY_S: Final = 10.0
"""How often it is logged that the group can't be joined yet."""


class GroupAssignment:
    """The partitions of one member, with the interface of ottla.consumer.assignment.Assignment."""

    def __init__(self, options: GroupOptions, context: ConsumerContext) -> None:
        cluster, fetcher = context.cluster, context.fetcher
        self.options: Final = options
        self.member: Final = Membership(options.member)
        self.lock: Final = Condition()
        # Held while the user's thread waits for records. It is a lock and not a flag, because an interrupt may end the
        # wait at any line: a lock is released by its block, and a flag could stay set.
        self.waiting: Final = RLock()
        self.rebalances = 0
        coordinator = CoordinatorClient(cluster, options.group, context.request_timeout_s)
        self.commits: Final = Commits(
            self.member, coordinator, cluster, self.lock, fetcher.call_attention, self._topic_ids
        )
        self.committer: Final = OffsetCommitter(options, self.member, self.commits, context)
        self._coordinator: Final = coordinator
        finder = StartPositionFinder(
            self.commits, cluster, options, context.request_timeout_s, read_committed=fetcher.read_committed
        )
        self._initializer: Final = PositionInitializer(finder, self.commits, context)
        self._heartbeats: Final = Heartbeats(
            self.member, coordinator, self.lock, self.waiting, cluster.clock, fetcher.call_attention, fetcher.fail
        )
        self._context: Final = context
        self._subscription: Final = context.subscription
        self._fetcher: Final = fetcher
        self._clock: Final = cluster.clock
        self._updater: MetadataUpdater | None = None
        self._started = False
        self._joining: Call[JoinResult | JoinFailure] | None = None
        self._assigned: Sequence[TopicPartition] | None = None  # the new assignment, not taken over yet
        self._unreported: Final[dict[TopicPartition, None]] = {}  # taken over, but `on_assigned` was not called yet
        self._former: tuple[TopicPartition, ...] = ()
        self._led: Mapping[str, int] = {}  # the topics that it assigned as leader, and their partition counts
        self._joined_topics: frozenset[str] = frozenset()
        self.busy = False  # whether `ensure` runs: a callback may read
        self._callbacks: Final = Callbacks()
        self._logged_at = -NEVER

    # ---- the interface of an assignment --------------------------------------------------------------------------

    def ensure(self) -> None:
        """Take the steps that the group needs now. Raises errors that the user has to know, and those of callbacks.

        It is part of a poll, which may take many such steps. A callback that takes too long is overdue like a program
        that does not poll.
        """
        self.on_poll()
        if self.busy:  # a callback reads
            return
        self.busy = True
        try:
            self._attend()
        finally:
            self.busy = False

    def positions(self) -> Mapping[TopicPartition, Position]:
        """Return the positions of the partitions that are assigned at the moment."""
        with self._fetcher.lock:
            return dict(self._subscription.positions)

    def of(self, partitions: Sequence[tuple[str, int]]) -> list[Position]:
        """Return the positions of `partitions`, or of all for none. Raises ConfigError for one that is not assigned."""
        positions = self.positions()
        for partition in partitions:
            if partition not in positions:
                raise config_error(
                    f"{TopicPartition(*partition)} is not assigned to this member at the moment",
                    hint="assignment() returns its partitions; the consumer joins the group when it first reads",
                )
        return [positions[TopicPartition(*partition)] for partition in partitions] or list(positions.values())

    def resolve(self) -> None:
        """Look up the offsets of positions that are known only as an end (`auto_offset_reset`) or a time."""
        resolve(self._context)

    def check_starts(self) -> None:
        """Do nothing: a group's partitions begin at the committed offset, or by `auto_offset_reset`."""

    def locate(self) -> None:
        """Like `resolve`, but first wait until the committed offsets are known."""
        self._initializer.wait()
        resolve(self._context, wait=True)

    def wake(self) -> None:
        """Wake threads that wait in this object, so that they check whether to go on."""
        if self._updater is not None:
            self._updater.nudge()
        self._initializer.wake()
        with self.lock:
            self.lock.notify_all()

    def close(self) -> None:
        """End every thread. A member that has not left leaves now, which may take a moment."""
        if self.member.state is not MemberState.LEFT:
            self._leave("the consumer was dropped")

    def metadata(self, topic_ids: Mapping[TopicPartition, TopicId]) -> GroupMetadata:
        """Return the member's identity, or the last one while it has not joined again, and the topics it has read."""
        who = self.member.commits_as
        return GroupMetadata(self.options.group, who.generation, who.member_id, who.instance_id, topic_ids)

    @property
    def in_group(self) -> bool:
        """Whether the coordinator has to be told when the member ends."""
        return bool(self.member.member_id)

    # ---- calls of the reader -------------------------------------------------------------------------------------

    def on_poll(self) -> None:
        """Note that the user's thread polls at this moment."""
        with self.lock:
            self.member.on_poll(self._clock.monotonic())

    def enforce_rebalance(self, reason: str) -> None:
        """Join again when the user's thread next reads."""
        with self.lock:
            self.member.rejoin(reason)

    def _topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TopicId]:
        with self._fetcher.lock:
            positions = self._subscription.positions
            found = ((name, positions.get(name)) for name in partitions)
            return {name: topic_id for name, at in found if at and (topic_id := at.read_topic_id or at.topic_id)}

    # ---- the steps of a rebalance --------------------------------------------------------------------------------

    def _attend(self) -> None:
        with self._fetcher.lock:
            self._fetcher.attention_at = NEVER
        self._start()
        self._heartbeats.start(self._context.client_id)
        self.commits.run_callbacks()
        if self._heartbeats.error is not None:
            raise self._heartbeats.error
        self.committer.commit_due()
        while self._step():
            pass
        self._initializer.update()
        with self._fetcher.lock:
            self._fetcher.attention_at = min(self._fetcher.attention_at, self._next_at())

    def _next_at(self) -> float:
        waits = self._joining is None and self.member.join_reason
        at = self.member.retry_at if waits else NEVER
        return min(at, self.committer.next_at, self._initializer.next_at())

    def _step(self) -> bool:
        """Take one step of a rebalance; return False if another member, or the coordinator, has to act first."""
        if self._joining is not None:
            if not self._joining.start().done:
                return False
            self._on_join_result(self._joining)
        if self._assigned is not None:
            self._adopt(self._assigned)
            self._assigned = None
            self._callbacks.raise_error()
            self._look_for_changes(self._started_updater().view)
            return True
        with self.lock:
            may_join = self.member.may_join(self._clock.monotonic())
        if may_join:
            self._prepare()
            self._callbacks.raise_error()
            self._join()
        return may_join

    def _start(self) -> None:
        if self._fetcher.closed:
            raise closed_error()
        if self._started:
            return
        if self._updater is None:
            all_topics = self.options.pattern is not None
            self._updater = self._context.start_updater(self._on_metadata, all_topics=all_topics)
        timeout_s = self._context.request_timeout_s
        self._updater.until_known(self.options.topics, timeout_s, check=self._fetcher.check_open)
        self._fetcher.start(self._updater)
        self._started = True

    # ---- joining -------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Before joining again, commit, and give up the partitions that have to be given up."""
        held = sorted(self.positions())
        if held and not self.member.lost:
            self.committer.commit_before_rebalance()
        if held and self.member.lost:  # the commit may have found that out
            lost = counted(len(held), "partition")
            logger.warning("group %s: this consumer has lost %s: %s", self.options.group, lost, self.member.lost)
            self._give_up(held, self.options.listener.on_lost)
        elif held and not self.options.cooperative:
            self._give_up(held, self.options.listener.on_revoked)

    def _join(self) -> None:
        topics = self._topics(self._started_updater().view)
        held = tuple(self.positions())
        with self.lock:
            if held and self.member.lost:
                return  # the next step gives them up
            claims = Claims(topics, held, self._former, self.member.generation, self.member.join_reason)
            work = Joining(self._coordinator, self._context.cluster, self.options, self.member, self.lock, claims)
            joining = Call(f"ottla-join-{self._context.client_id}", work.run, self._fetcher.call_attention)
            self._joined_topics, self._joining = topics, joining
            self.member.begin_join()
        joining.start()

    def _on_join_result(self, joining: Call[JoinResult | JoinFailure]) -> None:
        """Act on the result. `_joining` is cleared only at the end: after an interrupt the next call repeats it."""
        if joining.error is not None:
            self._joining = None
            raise joining.error
        result = joining.result()
        if isinstance(result, JoinFailure):
            self._on_join_failed(result)
            self._joining = None
            return
        self._led = result.partitions_of
        self._started_updater().follow_only(self._followed(result))
        logger.info(
            "group %s: %s has %s in generation %d",
            self.options.group,
            self.member.member_id,
            counted(len(result.partitions), "partition"),
            self.member.generation,
        )
        self._assigned = result.partitions
        self.rebalances += 1
        self._joining = None

    def _followed(self, result: JoinResult) -> dict[str, None]:
        """Return the topics whose metadata to follow from now on. With a pattern, every topic is fetched anyway, so
        missing ones need not be named."""
        own = (partition.topic for partition in (*result.partitions, *self.positions()))
        by_pattern = self.options.pattern is not None
        found = (name for name, count in result.partitions_of.items() if count or not by_pattern)
        return dict.fromkeys([*self.options.topics, *own, *found])

    def _on_join_failed(self, failure: JoinFailure) -> None:
        """Log a retriable failure from time to time; raise it if the group was never reached at all."""
        error, now = failure.error, self._clock.monotonic()
        if failure.meaning is Meaning.FATAL:
            self._joining = None
            raise error
        if failure.meaning in (Meaning.FIND, Meaning.AGAIN):
            if not self.rebalances and now - self.member.failing_since >= self._context.request_timeout_s:
                self.member.failing_since = NEVER
                self._joining = None
                raise error
            if now - self._logged_at >= _LOG_EVERY_S:
                self._logged_at = now
                logger.warning("group %s: this consumer has not joined yet: %s", self.options.group, error)

    def _adopt(self, assigned: Sequence[TopicPartition]) -> None:
        """Take over the assigned partitions. After an interrupt the caller repeats it."""
        held = set(self.positions())
        added = sorted(set(assigned) - held)
        self._former = tuple(assigned)
        gone = sorted(held - set(assigned))
        if gone:
            self.committer.commit_before_rebalance()
            with self.lock:
                self.member.rejoin(f"it gave up {counted(len(gone), 'partition')}")
            listener = self.options.listener
            self._give_up(gone, listener.on_lost if self.member.lost else listener.on_revoked)
        for partition in (*gone, *added):
            self.commits.known.pop(partition, None)  # others may have committed since
        self._unreported.update(dict.fromkeys(added))
        with self._fetcher.lock:
            for partition in self._unreported:
                self._subscription.assign(partition, None)  # at the committed offset, which is looked up
        self._callbacks.call(self.options.listener.on_assigned, sorted(self._unreported))
        self._unreported.clear()

    def _give_up(self, partitions: Sequence[TopicPartition], call: Listener) -> None:
        """Call the user's listener, then stop reading them."""
        self._callbacks.call(call, partitions)
        with self._fetcher.lock:
            for partition in partitions:
                self._subscription.unassign(partition)
                self._unreported.pop(partition, None)

    # ---- topics --------------------------------------------------------------------------------------------------

    def _started_updater(self) -> MetadataUpdater:
        assert self._updater is not None
        return self._updater

    def _topics(self, view: ClusterView) -> frozenset[str]:
        """Return the topics to subscribe to: those that are named, or that match the pattern."""
        if self.options.pattern is None:
            return frozenset(self.options.topics)
        return frozenset(topic.name for topic in view.topics.values() if self.options.wants(topic))

    def _on_metadata(self, view: ClusterView) -> None:
        self._look_for_changes(view)
        self._fetcher.on_metadata(view)

    def _look_for_changes(self, view: ClusterView) -> None:
        """Join again if there are other partitions to assign, or other topics to subscribe to."""
        counts = {name: len(t.partitions) for name in self._led if (t := view.topics.get(name)) and not t.error}
        reason = changed_topics(self._led, counts)
        if self.options.pattern is not None and self._topics(view) != self._joined_topics:
            reason = "other topics match its pattern now"
        if reason:
            with self.lock:
                if self.member.state is not MemberState.STABLE:
                    return  # looked at again when it is
                self.member.rejoin(reason)
            self._fetcher.call_attention()

    # ---- the end -------------------------------------------------------------------------------------------------

    def leave(self, offsets: Offsets, timeout: float) -> None:
        """Commit `offsets`, give up all partitions and leave, within `timeout` seconds; raises errors of callbacks."""
        self.busy = True
        held = sorted(self.positions())
        lost = bool(self.member.lost)
        self.committer.commit_last(offsets, timeout)
        self.commits.drain(timeout)
        self.commits.run_callbacks()
        listener = self.options.listener
        if held:
            self._give_up(held, listener.on_lost if lost else listener.on_revoked)
        self._leave("the consumer was closed")
        self._callbacks.raise_error()

    def _leave(self, reason: str) -> None:
        with self.lock:
            who = self.member.identity
            leaver = self.member.leave()
        self._heartbeats.stop()
        if leaver:
            leave(self._coordinator, who, reason)
