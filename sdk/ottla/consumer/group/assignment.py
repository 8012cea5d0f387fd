"""What a member reads: it joins, gives up and takes over partitions, all of it in the thread that reads.

Calls that may take long are on threads of their own (`Call`); the reader's thread calls `ensure`, which takes their
results, and reads the partitions that it has meanwhile. So nothing here waits for the other members: only for
commits before partitions are given up, and for the user's own callbacks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
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

logger = logging.getLogger("ottla.group")

_LOG_EVERY_S: Final = 10.0
"""How often it is logged that the group can't be joined yet."""


class GroupAssignment:
    """The partitions of one member; the same face as ottla.consumer.assignment.Assignment."""

    def __init__(self, options: GroupOptions, context: ConsumerContext) -> None:
        cluster, fetcher = context.cluster, context.fetcher
        self.options: Final = options
        self.member: Final = Membership(options.member)
        self.lock: Final = Condition()
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
            self.member, coordinator, self.lock, cluster.clock, fetcher.call_attention, fetcher.fail
        )
        self._context: Final = context
        self._subscription: Final = context.subscription
        self._fetcher: Final = fetcher
        self._clock: Final = cluster.clock
        self._updater: MetadataUpdater | None = None
        self._started = False
        self._joining: Call[JoinResult | JoinFailure] | None = None
        self._assigned: Sequence[TopicPartition] | None = None  # what it is to take over
        self._unreported: Final[set[TopicPartition]] = set()  # what it has taken over, before `on_assigned` was called
        self._former: tuple[TopicPartition, ...] = ()
        self._led: Mapping[str, int] = {}  # the topics that this member gave out, with their partitions
        self._joined_topics: frozenset[str] = frozenset()
        self.busy = False  # in `ensure`: a callback may read
        self._callbacks: Final = Callbacks()
        self._logged_at = -NEVER

    # ---- the face ------------------------------------------------------------------------------------------------

    def ensure(self) -> None:
        """Do what is to be done for the group now. Raises what the user has to know, and what callbacks raise."""
        if self.busy:  # a callback reads
            return
        self.busy = True
        try:
            self._attend()
        finally:
            self.busy = False

    def positions(self) -> Mapping[TopicPartition, Position]:
        """Those of the partitions that it has at the moment."""
        with self._fetcher.lock:
            return dict(self._subscription.positions)

    def of(self, partitions: Sequence[tuple[str, int]]) -> list[Position]:
        """The positions of `partitions`, of all where none is named. Raises ConfigError for one that it has not."""
        positions = self.positions()
        for partition in partitions:
            if partition not in positions:
                raise config_error(
                    f"{TopicPartition(*partition)} is not this member's at the moment",
                    hint="assignment() says which partitions are; reading lets it join the group",
                )
        return [positions[TopicPartition(*partition)] for partition in partitions] or list(positions.values())

    def resolve(self) -> None:
        """Look up where those positions are that went to an end (`auto_offset_reset`) or a time."""
        resolve(self._context)

    def check_starts(self) -> None:
        """A group's partitions begin where it left off, or where `auto_offset_reset` says."""

    def locate(self) -> None:
        """The same, and wait until it is known where the group left off."""
        self._initializer.wait()
        self.resolve()

    def wake(self) -> None:
        """Let threads that wait in here check whether they are to continue."""
        if self._updater is not None:
            self._updater.nudge()
        self._initializer.wake()
        with self.lock:
            self.lock.notify_all()

    def close(self) -> None:
        """End every thread. A member that did not `leave` does so now; that may take a moment."""
        if self.member.state is not MemberState.LEFT:
            self._leave("the consumer was dropped")

    def metadata(self, topic_ids: Mapping[TopicPartition, TopicId]) -> GroupMetadata:
        """As whom it is in the group, or was while it has not joined anew, and what it has read."""
        who = self.member.commits_as
        return GroupMetadata(self.options.group, who.generation, who.member_id, who.instance_id, topic_ids)

    @property
    def in_group(self) -> bool:
        """Whether the coordinator is to be told when it ends."""
        return bool(self.member.member_id)

    # ---- what the reader says ------------------------------------------------------------------------------------

    def on_poll(self) -> None:
        """The user's thread polls: whatever it got before is processed."""
        with self.lock:
            self.member.on_poll(self._clock.monotonic())

    def enforce_rebalance(self, reason: str) -> None:
        """Join again when the user's thread comes by."""
        with self.lock:
            self.member.rejoin(reason)

    def _topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TopicId]:
        with self._fetcher.lock:
            positions = self._subscription.positions
            found = ((name, positions.get(name)) for name in partitions)
            return {name: topic_id for name, at in found if at and (topic_id := at.read_topic_id or at.topic_id)}

    # ---- coming by -----------------------------------------------------------------------------------------------

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
        """One step of a rebalance; False where another member, or the coordinator, has to act first."""
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
        """Commit and give up what must be, before the others are joined again."""
        held = sorted(self.positions())
        if held and not self.member.lost:
            self.committer.commit_before_rebalance()
        if held and self.member.lost:  # which the commit may have found out
            logger.warning("group %s: %d partitions are lost: %s", self.options.group, len(held), self.member.lost)
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
        """Cleared only at the end: after an interrupt in here the next call does it again."""
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
            "group %s: %s has %d partitions in generation %d",
            self.options.group,
            self.member.member_id,
            len(result.partitions),
            self.member.generation,
        )
        self._assigned = result.partitions
        self.rebalances += 1
        self._joining = None

    def _followed(self, result: JoinResult) -> set[str]:
        """The topics whose metadata is wanted from now on. By a pattern all are seen: those that are away need not be
        asked for."""
        topics = {*self.options.topics, *(partition.topic for partition in (*result.partitions, *self.positions()))}
        by_pattern = self.options.pattern is not None
        return topics.union(name for name, count in result.partitions_of.items() if count or not by_pattern)

    def _on_join_failed(self, failure: JoinFailure) -> None:
        """A retriable failure is logged now and then, and raised where the group was never reached at all."""
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
                logger.warning("group %s is not joined yet: %s", self.options.group, error)

    def _adopt(self, assigned: Sequence[TopicPartition]) -> None:
        """After an interruption in here the caller does it again."""
        held = set(self.positions())
        added = sorted(set(assigned) - held)
        self._former = tuple(assigned)
        gone = sorted(held - set(assigned))
        if gone:
            self.committer.commit_before_rebalance()
            with self.lock:
                self.member.rejoin(f"it gave up {len(gone)} partitions")
            listener = self.options.listener
            self._give_up(gone, listener.on_lost if self.member.lost else listener.on_revoked)
        for partition in (*gone, *added):
            self.commits.known.pop(partition, None)  # others may have committed since
        self._unreported.update(added)
        with self._fetcher.lock:
            for partition in self._unreported:
                self._subscription.assign(partition, None)  # where the group left off, which is looked up
        self._callbacks.call(self.options.listener.on_assigned, sorted(self._unreported))
        self._unreported.clear()

    def _give_up(self, partitions: Sequence[TopicPartition], call: Listener) -> None:
        """Call the user's listener, then stop reading them."""
        self._callbacks.call(call, partitions)
        with self._fetcher.lock:
            for partition in partitions:
                self._subscription.unassign(partition)
                self._unreported.discard(partition)

    # ---- topics --------------------------------------------------------------------------------------------------

    def _started_updater(self) -> MetadataUpdater:
        assert self._updater is not None
        return self._updater

    def _topics(self, view: ClusterView) -> frozenset[str]:
        """The topics to subscribe to: those that are named, or match."""
        if self.options.pattern is None:
            return frozenset(self.options.topics)
        return frozenset(topic.name for topic in view.topics.values() if self.options.wants(topic))

    def _on_metadata(self, view: ClusterView) -> None:
        self._look_for_changes(view)
        self._fetcher.on_metadata(view)

    def _look_for_changes(self, view: ClusterView) -> None:
        """Join again where there is something else to be given out, or to be subscribed to."""
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
        """Commit `offsets`, give all up and leave, within `timeout` seconds; raises what callbacks raise."""
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
