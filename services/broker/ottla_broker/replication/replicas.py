"""This broker's replicas follow the image: what it assigns to the broker is opened, led or followed, and the rest goes.

Ten thousand partitions may change at once, as when a broker dies, and any of them may meet a slow disk or a damaged
file. Three ideas keep that manageable.

*Level, not edge.* One task brings the replicas to what the newest image says, however many changes came in the
meantime, and looks only at the partitions that one of the changes was about. Nothing is remembered from event to event,
so whatever failed is found again by the next look.

*One partition's trouble is its own.* A partition that fails, or has to wait for its disk, holds up no other. It is
tried again by itself, at longer and longer intervals, and never while the earlier try still runs: two threads must not
be in one log (I26).

*The loop decides, threads work.* Directory work runs in threads. A replica is installed, and takes its role, on the
loop only. So a handler that found a replica sees no half-made one.

A broker that may know more than the metadata, or less than it has acknowledged, must not lead or follow by it. That is
checked here, at the one place where a role begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from ottla_broker.machines.departure import relied_upon
from ottla_broker.machines.restored_metadata import is_older
from ottla_broker.replication.leading import Leading, ReplicaContext
from ottla_broker.replication.removals import Removals
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.replication.replication_config import ReplicationSettings, replication_settings
from ottla_broker.replication.ticks import Ticks
from ottla_broker.replication.topic_config import log_config
from ottla_broker.replication.topic_metrics import TopicTraffic
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import MAX_INT64, LogConfig
from ottla_broker.storage.log_creation import LogCreation
from ottla_broker.storage.log_dir import LogDir, Strays
from ottla_core.clock import Clock
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage, Partition, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.event_loop.tasks import end_task
from ottla_core.model import NO_LEADER, PartitionId
from ottla_core.rpc.retry import Backoff

_log = logging.getLogger(__name__)

_RETRY_S = 1.0
_RETRY_MOST_S: Final = 10.0
_PATIENCE_S: Final = 1.0
"""How long the others wait for a partition that takes its role. After that it continues alone."""
_STOP_S: Final = 3.0
"""How long a stop waits for threads that have a log in hand."""


class _Assignment(NamedTuple):
    topic: Topic
    id: PartitionId
    partition: Partition


class _Failure:
    """A partition that can't take its role, until it can."""

    def __init__(self) -> None:
        self.text: str | None = None
        """The text that was logged last, or None if nothing was logged. The text of an error may be empty."""
        self._backoff: Final = Backoff(_RETRY_S, _RETRY_MOST_S)

    def again(self, text: str) -> float:
        """Note that one more try has failed. Return in how many seconds the next one is due."""
        self.text = text
        return self._backoff.next()


class LogEnd(NamedTuple):
    """The end of a log: the epoch of its last record, the next offset, and the newest epoch that it has led in or
    followed."""

    last_epoch: int
    offset: int
    latest_epoch: int


class Replicas:
    """A component: `start` opens what the image assigns to this broker; later images are followed until `stop`.

    `table` has the replicas of the moment.
    """

    ticks_of: Callable[[ReplicaTable], Ticks] = Ticks

    def __init__(
        self,
        metadata: MetadataFollower,
        log_dir: Callable[[], LogDir],
        clock: Clock,
        threads: DiskThreads,
        on_disk_failure: Callable[[OttlaError], None],
        is_registered: Callable[[], bool] = lambda: True,
    ) -> None:
        self.table: Final = ReplicaTable(metadata)
        self.settings = ReplicationSettings()
        self._metadata: Final = metadata
        self._log_dir = log_dir
        self._clock = clock
        self._threads = threads
        self._on_disk_failure = on_disk_failure
        self._is_registered = is_registered
        self._on_proposal: Callable[[Leading], None] = lambda leading: None
        self._on_removed: Callable[[PartitionId], None] = lambda partition_id: None
        self._on_older_metadata: Callable[[int], None] = lambda revision: None
        self._on_role_change: Callable[[Replica], None] = lambda replica: None
        self._live: dict[int, int] = {}
        self._read_only: set[int] = set()
        self._applied = ClusterImage(metadata.image.cluster_id)
        self._failures: dict[PartitionId, _Failure] = {}
        self._applying: dict[PartitionId, asyncio.Task[None]] = {}
        self._due: dict[PartitionId, None] | None = None
        """The partitions to be looked at, or None for all of them."""
        # These partitions take their role by themselves, while the look at the others has ended. The image may have
        # changed since.
        self._look_again: dict[PartitionId, None] = {}
        self._creation: Final = LogCreation(log_dir, clock, threads)
        self._removals: Final = Removals(log_dir, threads)
        self._traffic: Final = TopicTraffic()
        self._ticks: Final = self.ticks_of(self.table)
        self._stopping = False
        self._configs: dict[str, tuple[Topic, LogConfig]] = {}
        self._changed = asyncio.Event()
        self._on_applied = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    def on_proposal(self, listener: Callable[[Leading], None], forget: Callable[[PartitionId], None]) -> None:
        """Set the listener for leaders' proposals to the controller, and the function that forgets a partition that is
        gone."""
        self._on_proposal, self._on_removed = listener, forget

    def on_older_metadata(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with the metadata's revision each time that a log knows a later leader epoch than the
        metadata has.

        The store was then restored from a backup, and must not be followed.
        """
        self._on_older_metadata = listener

    def on_role_change(self, listener: Callable[[Replica], None]) -> None:
        """Call `listener` at each change of a replica's role, its leader or its leader epoch."""
        self._on_role_change = listener

    async def start(self) -> None:
        image = self._metadata.image
        # This comes before any log is opened. Directories that the cluster does not know are set aside and never served
        # (rule 24), and partitions whose directory is gone are noted as lost (rule 21).
        await self._threads.keep(self._compare, image)
        # It is reported before a replica takes its role. Later, this broker might already lead by the backup's
        # metadata.
        if self._has_followed_further_than(image):
            self._on_older_metadata(image.revision)
        self._context = ReplicaContext(
            self._broker_id,
            self._clock,
            self._threads,
            self._on_disk_failure,
            lambda leading: self._on_proposal(leading),
            self._live,
            self.table.consumers,
            self.table.followers,
            self.table.deletions,
            self.table.confirmations,
            self._is_registered,
            self._read_only,
            ticking=self._ticks.ticking,
            traffic=self._traffic.of,
        )
        self._metadata.on_change(self._on_image)
        await self._removals.start()
        try:
            # A start waits for every log, without a limit: the ports open next, and clients would take a partition that
            # is still being recovered for one that is not there.
            await self._reconcile(image, whole=True)
        except BaseException:
            await self.stop()
            raise
        # Changes that came while the directory was compared met no listener, so everything is looked at once more.
        if self._metadata.image is not image:
            self._look_at(None)
        self._tasks = [
            asyncio.create_task(self._follow(), name="replicas"),
            asyncio.create_task(self._ticks.run(), name="replicas-tick"),
        ]

    async def stop(self) -> None:
        """Return once no thread has a log in hand, or after some seconds. The data directory is closed next.

        A thread that wrote on after that would leave a log that differs from what its marker of an orderly stop says.
        """
        self._stopping = True
        for task in self._tasks:
            await end_task(task)
        await self._removals.stop()
        busy = [
            asyncio.ensure_future(replica.disk.until_whole())
            for replica in self.table.all()
            if replica.disk.is_in_a_thread
        ]
        if works := [*self._applying.values(), *busy]:
            _, late = await asyncio.wait(works, timeout=_STOP_S)
            if late:
                _log.warning("logs still waiting for the disk: %d", len(late))

    @property
    def failing(self) -> int:
        """This is the number of partitions that can't take their role, and are tried again."""
        return len(self._failures)

    @property
    def deleting(self) -> int:
        return self._removals.count

    @property
    def is_read_only(self) -> bool:
        """It tells whether the disk takes no appends for the moment."""
        return bool(self._tasks and self._log_dir().disk.full)

    @property
    def incomplete(self) -> int:
        """This is the number of logs that may lack acknowledged records."""
        return self._log_dir().incomplete

    @property
    def strays(self) -> Strays:
        return self._log_dir().strays if self._tasks else Strays(0, 0)

    async def log_end(self, partition_id: PartitionId) -> LogEnd | None:
        """Return where the log ends, for a controller that has to elect by what logs hold.

        Return None if the log is not on this broker, is being led, or is about to be: its end would move after it was
        reported.
        """
        replica = self.table.get(partition_id)
        if replica is None:
            return None
        await replica.disk.until_whole()
        if replica.leads or partition_id in self._applying:
            return None
        log = replica.log
        return LogEnd(log.last_epoch, log.log_end_offset, log.epochs.latest)

    async def until(self, condition: Callable[[ClusterImage], bool], *, timeout: float) -> None:
        """Return once an image for which `condition` holds is applied to this broker's replicas. Raises
        REQUEST_TIMED_OUT."""
        try:
            async with asyncio.timeout(timeout), self._on_applied:
                await self._on_applied.wait_for(lambda: condition(self._applied))
        except TimeoutError:
            raise _not_applied(timeout, self._applied.revision) from None

    def look_at_all(self) -> None:
        """Have each partition take its role again, because what this broker may do has changed."""
        self._look_at(None)

    # ---- reconciling -------------------------------------------------------------------------------------------------

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        # A config, a restoration or a doubt concerns every partition. `is not` is exact, because images share what did
        # not change.
        all_differ = new.changed_partitions is None or (
            new.configs is not old.configs or new.restored is not old.restored or new.is_behind != old.is_behind
        )
        self._look_at(None if all_differ else new.changed_partitions)

    def _look_at(self, partitions: Iterable[PartitionId] | None) -> None:
        if partitions is None:
            self._due = None
        # None stands for all already, so nothing can be added to it.
        elif self._due is not None:
            self._due.update(dict.fromkeys(partitions))
        self._changed.set()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            # The event is cleared before the image is taken. So a later change wakes the next turn, and none is missed.
            self._changed.clear()
            image = self._metadata.image
            try:
                await self._reconcile(image)
            except Exception as error:
                known = isinstance(error, OttlaError)
                _log.error("can't apply the metadata of revision %d: %s", image.revision, error, exc_info=not known)
                asyncio.get_running_loop().call_later(_RETRY_S, self._look_at, None)

    async def _reconcile(self, image: ClusterImage, *, whole: bool = False) -> None:
        """Bring the replicas to what `image` says: first those that are gone, then leadership, logs and configs.

        With `whole`, it waits for all of them. Otherwise those whose disk is slow take their role later.
        """
        # They are taken and emptied in one step. What a listener adds from now on belongs to the next turn.
        due, self._due = self._due, {}
        # This comes before the roles: a new leader decides by the live brokers which of them may join its ISR.
        self._note_brokers(image)
        if due is None:
            self._configs.clear()
            self.settings = replication_settings(image, self._broker_id)
        assigned = _assigned(image, self._broker_id, image.partitions if due is None else due)
        existing = (replica.id for replica in self.table.all())
        # Partitions that failed before they had a replica must be forgotten too, or they would be tried for ever.
        candidates = dict.fromkeys([*existing, *self._failures, *self._look_again]) if due is None else due
        stay = {a.id for a in assigned}
        self._remove_gone([id_ for id_ in candidates if id_ not in stay])
        await self._apply_all(image, assigned, None if whole else _PATIENCE_S)
        self._note_in_sync(image, assigned)
        self._note_followed(image)
        async with self._on_applied:
            self._applied = image
            self._on_applied.notify_all()

    def _has_followed_further_than(self, image: ClusterImage) -> bool:
        """Return whether the metadata are older than what this broker has followed: their store was restored."""
        return image.is_older_than(self._log_dir().followed)

    def _note_in_sync(self, image: ClusterImage, assigned: Iterable[_Assignment]) -> None:
        """Note which logs have caught up that may have lacked records: they are in sync again.

        Before this broker has left all ISRs, one that names it says nothing of the log that it has now.
        """
        log_dir, me = self._log_dir(), self._broker_id
        if log_dir.incomplete and log_dir.may_lead:
            sure = (a for a in assigned if not image.is_in_doubt(a.partition))
            log_dir.on_in_sync([a.id for a in sure if me in a.partition.isr])

    def _note_followed(self, image: ClusterImage) -> None:
        """Note how far this broker has followed the metadata, once it has reported what its start found out.

        Noted earlier, a broker that finds the store older than its data and is killed before it says so would forget
        it.
        """
        if self._is_registered():
            self._log_dir().followed = image.history

    def _note_brokers(self, image: ClusterImage) -> None:
        """Note which brokers may be in an ISR. When that changes, every leader may have something to propose.

        A broker that shuts down is left out: it must not be proposed into an ISR that it is about to leave (rule 11).
        """
        live = {n: b.epoch for n, b in image.live_brokers().items() if not b.shutting_down}
        read_only = {n for n, b in image.brokers.items() if b.read_only}
        if (live, read_only) != (self._live, self._read_only):
            leaders = (replica.leading for replica in self.table.all() if replica.leading is not None)
            self._ticks.ticking.update(dict.fromkeys(leaders))
        # The mappings are changed and not replaced, because every `Leader` of this broker shares them.
        self._live.clear()
        self._live.update(live)
        self._read_only.clear()
        self._read_only.update(read_only)

    def _remove_gone(self, gone: Iterable[PartitionId]) -> None:
        """Remove replicas that are no longer this broker's. They serve no client from now on; the disk follows in the
        background."""
        for partition_id in gone:
            self._failures.pop(partition_id, None)
            if partition_id not in self._applying:
                self._look_again.pop(partition_id, None)
            replica = self.table.get(partition_id)
            if replica is not None:
                _log.info("deleting %s", replica)
                self.table.remove(replica)
                # The replica leaves the table first and is closed then, so no request finds one that is closing.
                replica.close()
                self._on_removed(partition_id)
                self._configs.pop(replica.topic, None)
                self._removals.add(replica)

    def _config_of(self, image: ClusterImage, topic: Topic) -> LogConfig:
        """Resolve a topic's config once for all of its partitions."""
        known = self._configs.get(topic.name)
        if known is None or known[0] is not topic:
            known = self._configs[topic.name] = (topic, log_config(image, topic, self._broker_id))
        return known[1]

    async def _apply_all(
        self, image: ClusterImage, assignments: Iterable[_Assignment], patience_s: float | None
    ) -> None:
        """Have the partitions take their roles, side by side where the disk has to be waited for.

        A broker's death makes others lead thousands of partitions, most of which need no disk. Those are done on the
        loop, in slices, within milliseconds.
        """
        slice_ = Slice()
        for assignment in assignments:
            await slice_.rest()
            self._look_again.pop(assignment.id, None)
            # Its earlier try still runs and has the log in hand. It looks again at its end.
            if assignment.id in self._applying:
                self._look_again[assignment.id] = None
                continue
            try:
                if self._apply_at_once(image, assignment):
                    self._failures.pop(assignment.id, None)
                else:
                    self._applying[assignment.id] = asyncio.create_task(
                        self._apply(image, assignment), name=f"apply-{assignment.id}"
                    )
            except Exception as error:
                self._on_failure(assignment, error)
        if self._applying:
            _, late = await asyncio.wait(self._applying.values(), timeout=patience_s)
            if late:
                # The image that these were given may be old when they are done.
                self._look_again.update(dict.fromkeys(self._applying))

    def _apply_at_once(self, image: ClusterImage, assignment: _Assignment) -> bool:
        """Give the partition its role without waiting. Return False if the disk has to be waited for."""
        replica = self.table.get(assignment.id)
        if replica is None:
            log = self._log_dir().logs.get(assignment.id)
            # A former replica of this partition is still being deleted. A new log would get its directory.
            if log is None or self._removals.has(assignment.id):
                return False
            replica = self._install(assignment, log)
        if replica.disk.is_in_a_thread and self._is_to_lead(replica, assignment.partition):
            # The truncation that runs was ordered by a former leader. Until it is over, the log's end is not known, and
            # a leader's epoch has to begin there (rule 4). So the replica takes nothing from clients or leaders until
            # then.
            replica.step_back()
            return False
        self._take_part(image, assignment, replica)
        return True

    async def _apply(self, image: ClusterImage, assignment: _Assignment) -> None:
        try:
            replica = self.table.get(assignment.id)
            if replica is None:
                replica = self._install(assignment, await self._create_log(image, assignment))
            await replica.disk.until_whole()
            # The partition may have been deleted while its log was waited for, or the broker may be stopping.
            if not self._stopping and self.table.get(assignment.id) is replica:
                self._take_part(image, assignment, replica)
            self._failures.pop(assignment.id, None)
        except Exception as error:  # this partition alone has failed: the others are served, and it is tried again
            self._on_failure(assignment, error)
        finally:
            # The entry is removed before the next look is ordered. Otherwise that look would find this try running and
            # pass over the partition.
            del self._applying[assignment.id]
            if assignment.id in self._look_again:
                self._look_at([assignment.id])

    def _on_failure(self, assignment: _Assignment, error: Exception) -> None:
        """Note a failure and try again later. It is logged once for each cause: a disk that is full for an hour is one
        line for each partition."""
        failure = self._failures.setdefault(assignment.id, _Failure())
        if str(error) != failure.text:
            known = isinstance(error, OttlaError)
            name = f"{assignment.topic.name}-{assignment.id.partition}"
            _log.error("%s can't lead or follow, retrying: %s", name, error, exc_info=None if known else error)
        wait_s = failure.again(str(error))
        asyncio.get_running_loop().call_later(wait_s, self._look_at, [assignment.id])

    def _take_part(self, image: ClusterImage, assignment: _Assignment, replica: Replica) -> None:
        config = self._config_of(image, assignment.topic)
        # The config comes before the role: min.insync.replicas counts from the first offset of an epoch.
        replica.configure(config, self.settings.lag_max_s)
        for replicas, is_one in (
            (self.table.flushed_by_time, config.flush_ms < MAX_INT64),
            (self.table.compacted, config.compacts),
        ):
            if is_one:
                replicas[replica] = None
            else:
                replicas.pop(replica, None)
        # While the partition is in doubt, the restoration is known already.
        if not image.is_in_doubt(assignment.partition) and is_older(assignment.partition, replica.log.epochs.latest):
            self._on_older_metadata(image.revision)
        if self._is_to_lead(replica, assignment.partition):
            replica.become_leader(assignment.partition)
        else:
            replica.on_partition(self._as_far_as_known(assignment.partition))

    def _as_far_as_known(self, partition: Partition) -> Partition:
        """Return a partition in doubt without its leader, from the moment that any broker reports the doubt.

        Following the leader of the backup might truncate a log that is longer.
        """
        return replace(partition, leader=NO_LEADER) if self._metadata.image.is_in_doubt(partition) else partition

    def _is_to_lead(self, replica: Replica, partition: Partition) -> bool:
        """Return whether this broker is to lead the partition now.

        A log that may be short leads nothing before the controller has decided again (rule 21: it may have lost
        acknowledged records). It would give offsets again that followers have from it in the same epoch, and the two
        could not be distinguished. It would also have followers truncate the records that it has lost.
        """
        if not self._log_dir().may_lead or self._metadata.image.is_in_doubt(partition):
            return False
        return replica.must_become_leader(partition)

    async def _create_log(self, image: ClusterImage, assignment: _Assignment) -> Log:
        await self._removals.until_gone(assignment.id)
        config = self._config_of(image, assignment.topic)
        return await self._creation.create(assignment.id, assignment.topic.name, config)

    def _install(self, assignment: _Assignment, log: Log) -> Replica:
        high_watermark = self._log_dir().high_watermark(assignment.id)
        replica = Replica(
            assignment.id,
            assignment.topic.name,
            log,
            self._context,
            high_watermark=high_watermark,
            on_role_change=lambda changed: self._on_role_change(changed),
        )
        self.table.add(replica)
        return replica

    def _compare(self, image: ClusterImage) -> None:
        """Find logs that the metadata does not have, which are set aside (rule 24), and partitions that the directory
        lacks.

        A partition that this broker should have and has not is one whose records it has lost (rule 21: such a replica
        must not stay in an ISR silently).
        """
        log_dir, me = self._log_dir(), self._broker_id
        assigned = {id_ for id_, partition in image.partitions.items() if me in partition.replicas}
        log_dir.expect(assigned, set(relied_upon(image, me)))
        known = {p for topic in image.topics.values() for p, _ in image.partitions_of(topic)}
        log_dir.set_strays_aside(known, now_ms=self._clock.wall_ms())
        if (strays := log_dir.measure_strays()).partitions:
            text = "%d partitions are set aside, %d bytes, neither served nor deleted: see docs/operate/cluster.md"
            _log.warning(text, strays.partitions, strays.size_bytes)

    @property
    def _broker_id(self) -> int:
        return self._log_dir().identity.node_id


def _assigned(image: ClusterImage, broker_id: int, among: Iterable[PartitionId]) -> list[_Assignment]:
    """Return which of these partitions the broker is to have.

    A topic's key is written last and deleted first, so partition keys without a topic are none yet, or none any more
    (I8).
    """
    assigned = []
    for partition_id in among:
        partition, topic = image.partitions.get(partition_id), image.topic_by_id(partition_id.topic_id)
        # The count is the topic's own: a partition that is being added has its key before the topic counts it.
        if partition is None or topic is None or partition_id.partition >= topic.partition_count:
            continue
        if broker_id in partition.replicas:
            assigned.append(_Assignment(topic, partition_id, partition))
    return assigned


def _not_applied(timeout: float, revision: int) -> OttlaError:
    return OttlaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"this broker's metadata did not reach the awaited state within {timeout:g} s; the broker has applied revision "
        f"{revision}",
        hint="check that a controller is elected and that etcd responds",
    )
