"""A flow copies on a thread of its own, as a member of the flow's group in the target.

Several mirrors have to share the partitions of a flow, take over from one that dies, and never copy one partition twice
at the same time. A consumer group does exactly that, so a flow is one, with a twist. Its members share the *copies*:
the member that is assigned `east.orders-3` copies `orders-3` of east into it. The offset that the group commits for a
copy is an offset of the *source*, where reading resumes. So a mirror that dies is replaced within the group's session
timeout, and all state of a flow is in the target's topics. A mirror has no disk.

The group is in the target, because its commits belong to what was written there: in one transaction, or right after it.

The member that is assigned the only partition of the flow's checkpoints topic leads the flow: it creates topics and
keeps configs in step. So there is one leader without an election of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from threading import Event, Thread
from typing import Final

import ottla
from ottla.connect import BatchReader
from ottla_core.clock import Clock
from ottla_core.errors import ErrorCode
from ottla_core.model import TopicPartition
from ottla_mirror.chore import Chore
from ottla_mirror.clusters.access import Access
from ottla_mirror.clusters.admin import open_admin
from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.clusters.member import GroupEvents, Member
from ottla_mirror.clusters.writer import Writer
from ottla_mirror.copying.copier import Copier
from ottla_mirror.copying.copy_watch import CopyWatch
from ottla_mirror.copying.exactly_once import ExactlyOnceCopier
from ottla_mirror.copying.same_offsets import SameOffsetsCopier
from ottla_mirror.copying.start_finder import StartFinder
from ottla_mirror.groups.checkpoints import Checkpoints
from ottla_mirror.groups.group_offsets import GroupOffsets
from ottla_mirror.groups.group_sync import GroupSync, Heartbeats
from ottla_mirror.groups.redis_map import RedisMap
from ottla_mirror.machines.flows import FlowSettings, MirrorSettings
from ottla_mirror.machines.load_plan import RateMeter
from ottla_mirror.machines.loop_marks import LoopMarks
from ottla_mirror.machines.progress import CopiedPartition, Reading
from ottla_mirror.machines.starts import Start
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.syncing.acl_sync import AclSync
from ottla_mirror.syncing.flow_state import FlowState
from ottla_mirror.syncing.offset_syncs import OffsetSyncs
from ottla_mirror.syncing.sync_retention import SyncRetention
from ottla_mirror.syncing.topic_follower import TopicFollower
from ottla_mirror.syncing.topic_sync import TopicSync

logger = logging.getLogger("ottla.mirror")

_STEP_S: Final = 0.1
_BACKOFF_S: Final = 1.0
_END_S: Final = 10.0
_LOOKS: Final = 10
"""The load is measured this many times between two comparisons."""


class Flow:
    """A flow copies until it is stopped. `error` says why all of it has stopped, or is "". Any thread
    may read the attributes."""

    def __init__(
        self,
        flow: FlowSettings,
        settings: MirrorSettings,
        instance: int,
        clock: Clock,
        session_timeout_s: float = 15.0,
        balance_s: float = 300.0,
    ) -> None:
        """Prepare a flow, which `start` starts.

        Other mirrors take over from a dead one after `session_timeout_s`. The mirrors' loads are compared every
        `balance_s`.
        """
        self.settings: Final = flow
        self.names: Final = TopicNames(flow, settings)
        self.source: Final = Cluster(Access.of(settings.cluster(flow.source)))
        self.target: Final = Cluster(Access.of(settings.cluster(flow.target)))
        self.state: Final = FlowState(flow.name, self.target, self.names.state)
        self.topics: Final = TopicSync(flow, self.source, self.target, self.names, self.state)
        # No offset of a marked flow can be translated, because other records lie between the copied ones.
        in_redis = bool(settings.redis) and flow.policy != "marked"
        self.syncs: Final = OffsetSyncs(flow.name, self.target, self.names.offset_syncs, notes_changes=in_redis)
        self.groups: Final = GroupSync(flow, self.group_offsets, self.syncs, self.state)
        retention = SyncRetention(flow.name, self.source, self.target, self.names, self.syncs, self.state)
        self._watch: Final = CopyWatch(flow.name, self.target, lambda: self.partitions.values())
        self._chores: Final[list[Chore]] = [self.state, self.topics, self.syncs, self.groups, self._watch, retention]
        if flow.sync_acls:
            self._chores.append(AclSync(flow, self.source, self.target, self.names, self.state))
        if flow.heartbeats:
            self._chores.append(Heartbeats(flow, self.source, self.state, clock))
        if in_redis:
            checkpoints = Checkpoints(flow.name, self.target, self.names.checkpoints)
            redis = RedisMap(settings.redis.reveal(), flow, self.names, self.syncs, checkpoints, self.state)
            self._chores.extend((checkpoints, redis))
        self._marks: Final = LoopMarks(flow, settings) if flow.policy == "marked" else None
        self.error = "it is not connected yet"
        self.copier: Copier | None = None
        self._reader: BatchReader | None = None
        self._finder: StartFinder | None = None
        self._member: Member | None = None
        """The last member, which may be closed. By it a flow that stops lets the group know that it won't come back."""
        self._id: Final = f"{flow.group}-{instance}"
        self._session_s: Final = session_timeout_s
        self._meter: Final = RateMeter()
        self._meter_s: Final = balance_s / _LOOKS
        self._looks = 0
        self._look_at = 0.0
        self._clock: Final = clock
        self._stopping: Final = Event()
        self._thread: Final = Thread(target=self._run, name=f"ottla-mirror-{flow.name}", daemon=True)

    def start(self) -> None:
        """Start copying. Whatever fails is tried again."""
        self._thread.start()
        for chore in self._chores:
            chore.start()

    def stop(self) -> None:
        """Finish what is under way, leave the group, and return when all is over, or after some seconds."""
        self._stopping.set()
        for chore in self._chores:
            chore.stopping.set()
        # All threads are notified before the first is waited for, so that they end together within one limit.
        end_at = self._clock.monotonic() + _END_S
        for thread in (self._thread, *(chore.thread for chore in self._chores)):
            thread.join(max(0.0, end_at - self._clock.monotonic()))
        for chore in self._chores:
            if isinstance(chore, TopicFollower):
                chore.close()

    @property
    def trouble(self) -> str:
        """This says why the flow as a whole is not healthy, or is ""."""
        copier = self.copier
        copying = "" if copier is None else copier.trouble
        return next(filter(None, (self.error, copying, *(chore.trouble for chore in self._chores))), "")

    @property
    def partitions(self) -> Mapping[TopicPartition, CopiedPartition]:
        """These partitions are being copied at the moment, by the source's partitions."""
        return {} if self.copier is None else self.copier.partitions

    def positions(self) -> Mapping[TopicPartition, Reading]:
        """Return the read positions by the source's partitions."""
        reader = self._reader
        return {} if reader is None else reader.positions()

    def group_offsets(self) -> GroupOffsets:
        """Open group offsets with connections of their own, which the caller closes."""
        return GroupOffsets(self.settings, self.source, self.target, self.names, self.syncs, self.state)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._copy_until_stopped()
            except ottla.OttlaError as error:
                self.error = str(error)
                logger.warning("flow %s is interrupted, retrying: %s", self.settings.name, error)
            except Exception as bug:
                self.error = f"{type(bug).__name__}: {bug}"
                logger.exception("flow %s is interrupted, retrying", self.settings.name)
            self.copier = self._reader = None
            self.state.leads = False  # it has no partitions now
            self._stopping.wait(_BACKOFF_S)
            while not self._stopping.is_set() and self._is_replaced():
                self._stopping.wait(_BACKOFF_S)
        if self._member is not None:
            # This comes only at the end: in an ottla cluster the static member keeps its partitions while it restarts
            # after an error.
            self._member.leave()

    def _is_replaced(self) -> bool:
        """Tell whether another mirror has this one's name. Joining again would fence the other mirror, which would then
        do likewise, and each time some records would be copied twice."""
        try:
            if self._member is None or not self._member.is_replaced():
                return False
        except ottla.OttlaError:
            return False  # joining reports the reason
        self.error = f"another mirror has the id {self._id}, so this one stands by; give each mirror its own node id"
        return True

    def _copy_until_stopped(self) -> None:
        exactly_once = self.settings.delivery == "exactly_once"
        if self.settings.delivery == "same_offsets":
            self._check_target_imports()
        events = GroupEvents(self._on_given, self._on_gone, lambda: self._meter.rates)
        with ExitStack() as ended:
            member = self._member = ended.enter_context(
                self.target.open_member(self._id, self.settings.group, self.names.pattern, self._session_s, events)
            )
            writer = ended.enter_context(
                self.target.open_writer(self._id, transactional_id=self._id if exactly_once else None)
            )
            if exactly_once:
                # This comes at once, and not with the first record: a transaction that a killed mirror left open blocks
                # readers of the copies until it is aborted.
                writer.init_transactions()
            reader = self._reader = ended.enter_context(closing(self.source.open_reader(self._id)))
            target = ended.enter_context(self.target.open_admin(self._id))
            compares = self.settings.delivery == "same_offsets" or self.settings.policy == "marked"
            self._finder = StartFinder(member, target, self.state, self.syncs, compares=compares)
            copier = self.copier = self._new_copier(reader, writer, member, ended)
            try:
                self._copy(member, copier)
                copier.give_up(list(copier.partitions))
            finally:
                # The member is closed after the writer, and the group then revokes partitions. The copier must not be
                # called by that, because its clients are closed.
                self.copier = None

    def _check_target_imports(self) -> None:
        """Raise UNSUPPORTED_VERSION if the target does not import records at given offsets."""
        with open_admin(self.target.access, self._id) as target:
            if not target.partitions.can_import():
                raise ottla.OttlaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"{self.settings.target} is not an ottla cluster, and can't have records at the source's offsets",
                    hint='use delivery = "exactly_once": offsets are translated',
                )

    def _new_copier(self, reader: BatchReader, writer: Writer, member: Member, ended: ExitStack) -> Copier:
        common = (reader, writer, member, self.names.offset_syncs, self._clock, self._start)
        match self.settings.delivery:
            case "exactly_once":
                return ExactlyOnceCopier(*common, self._marks)
            case "same_offsets":
                target = ended.enter_context(open_admin(self.target.access, self._id))
                return ended.enter_context(closing(SameOffsetsCopier(*common, target)))
            case "at_least_once":
                return Copier(*common, self._marks)

    def _copy(self, member: Member, copier: Copier) -> None:
        while not self._stopping.is_set():
            # It waits in one place only: for the group while there is nothing to copy, and otherwise for the source in
            # `step`.
            member.poll(0.0 if copier.partitions else _STEP_S)
            self.error = "" if self.state.known else "what was ordered for it is not known yet"
            # Until all earlier orders are read, an order to pause may be among them.
            copier.hold(paused=self.state.paused or not self.state.known)
            copier.look_at(self._watch.ids)
            copier.step(_STEP_S if copier.partitions else 0.0)
            self._meter_loads(member, copier)

    def _meter_loads(self, member: Member, copier: Copier) -> None:
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + self._meter_s
        self._meter.observe(now, {p.copy: p.bytes for p in copier.partitions.values()})
        self._looks += 1
        # The leader alone asks for a rebalance. If every member did, they would interrupt each other's copying.
        if self._looks % _LOOKS == 0 and self.state.leads:
            member.rebalance()

    # ---- the group ---------------------------------------------------------------------------------------------------

    def _on_given(self, member: Member, copies: Sequence[TopicPartition]) -> None:
        assert self.copier is not None
        # A cooperative group gives partitions bit by bit, and what was given before stays.
        self.state.leads = self.state.leads or any(copy.topic == self.names.checkpoints for copy in copies)
        now_ms = self._clock.wall_ms()
        partitions = [
            CopiedPartition(TopicPartition(name, copy.partition), copy, writer=now_ms)
            for copy in copies
            if (name := self._source_of(copy))
        ]
        # All are looked up at once, because each lookup of a start is a round trip, and a mirror may be given thousands
        # of partitions.
        obstacles = self._start(partitions)
        for partition in partitions:
            self.copier.take(partition, obstacles.get(partition))

    def _start(self, partitions: Sequence[CopiedPartition]) -> Mapping[CopiedPartition, ottla.OttlaError]:
        """Set where each partition starts. Return the partitions that can't start, and why."""
        assert self._finder is not None
        starts = self._finder.find({p.copy: p.source for p in partitions}) if partitions else {}
        obstacles = {}
        for partition in partitions:
            start = starts[partition.copy]
            if isinstance(start, Start):
                partition.start_at(start.position, *start.begun)
            else:
                obstacles[partition] = start
        return obstacles

    def _source_of(self, copy: TopicPartition) -> str | None:
        return None if copy.topic == self.names.checkpoints else self.names.source_of(copy.topic)

    def _on_gone(self, copies: Sequence[TopicPartition], lost: bool) -> None:
        if any(copy.topic == self.names.checkpoints for copy in copies):
            self.state.leads = False
        sources = [(self.names.source_of(copy.topic), copy.partition) for copy in copies]
        if self.copier is not None:
            self.copier.give_up([TopicPartition(name, number) for name, number in sources if name], lost=lost)
