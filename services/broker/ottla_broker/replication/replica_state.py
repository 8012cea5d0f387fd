"""What a replica is in either role: its log, its part in the partition, and one thread at a time on its log.

A request that names another leader epoch fails, with which side is behind (rule 5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla_broker.disk_threads import DiskThreads
from ottla_broker.machines.guards import VerificationGuards
from ottla_broker.machines.offsets import NOTHING_COMMITTED, HighWatermark, LastStableOffset
from ottla_broker.machines.partition import IsrProposal, Leader
from ottla_broker.machines.replica_role import ReplicaRole
from ottla_broker.replication.disk_log import DiskLog
from ottla_broker.replication.fetch_purgatory import ConfirmationPurgatory, FetchPurgatory, Sessions
from ottla_broker.replication.high_watermark_waiters import HighWatermarkWaiters
from ottla_broker.replication.pending import PendingActs, PendingBytes
from ottla_broker.storage.log import Log
from ottla_broker.topic_metrics import Traffic
from ottla_core.clock import Clock
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import NO_LEADER, PartitionId
from ottla_core.slices import Slice

_LEADER: Final = ReplicaRole.LEADER  # to look up a member of an enum costs more than all else of `leads`


@dataclass(frozen=True, slots=True)
class ReplicaContext:
    """What every replica of a broker shares. `live`: the brokers that may be in an ISR, with the epoch of their
    present incarnation."""

    broker_id: int
    clock: Clock
    threads: DiskThreads
    on_disk_failure: Callable[[OttlaError], None]
    on_proposal: Callable[[ReplicaState], None]
    """An ISR is to be proposed to the controller (`ReplicaState.proposal`)."""
    live: Mapping[int, int]
    consumers: FetchPurgatory
    followers: Sessions
    deletions: FetchPurgatory
    confirmations: ConfirmationPurgatory
    is_registered: Callable[[], bool] = lambda: True
    read_only: Set[int] = frozenset()
    """Brokers whose disks take no appends for the moment."""
    ticking: set[ReplicaState] = field(default_factory=set)
    """Leaders in which the passing of time may change something."""
    pending_bytes: PendingBytes = field(default_factory=PendingBytes)
    turn: Slice = field(default_factory=Slice)
    """Shared by all partitions, for batches that are appended later than they came."""
    traffic: Callable[[str], Traffic] = Traffic
    """Gives the counters for a topic's replicas."""
    on_role_change: Callable[[ReplicaState], None] = lambda replica: None
    """The replica's role, leader or leader epoch has changed, or what its leader has to hear beside its log's end."""


class Positions(NamedTuple):
    """The start of a log, and how far it may be read: log start <= last stable offset <= high watermark."""

    log_start_offset: int
    last_stable_offset: LastStableOffset
    high_watermark: HighWatermark


class ReplicaState(DiskLog):
    def __init__(
        self,
        partition_id: PartitionId,
        topic: str,
        log: Log,
        context: ReplicaContext,
        *,
        high_watermark: HighWatermark = NOTHING_COMMITTED,
    ) -> None:
        super().__init__(partition_id, topic, log, context.threads, context.clock, context.on_disk_failure)
        self._context: Final = context
        self._high_watermark_waiters: Final = HighWatermarkWaiters()
        self._leader: Leader | None = None
        self.role = ReplicaRole.LEADERLESS
        self._partition = Partition(replicas=(), leader_epoch=-1, partition_epoch=-1)
        self._announced = (NO_LEADER, -1)
        """The leader and its epoch that all who have to know have heard of."""
        self._high_watermark = high_watermark
        self._forget_ended_transactions()
        self._lag_max_s = 30.0
        self._leadership = 0
        self.has_readers = False
        self._working: asyncio.Future[object] | None = None
        self.newest_confirmation = 0
        self.traffic: Final = context.traffic(topic)
        self._first_unstable: int | None = None
        """As of the last step of the high watermark."""
        self.pending: Final = PendingActs()
        """Appends that come before anything that their producers send from now on."""
        self.guards: Final = VerificationGuards()

    @property
    def leader_epoch(self) -> int:
        return self._partition.leader_epoch

    @property
    def leadership(self) -> int:
        """Changes whenever this broker ceases to lead: what it appended before may have been cut off since."""
        return self._leadership

    @property
    def leads(self) -> bool:
        return self.role is _LEADER

    @property
    def leader_id(self) -> int | None:
        """The broker to copy from; None where this one leads, and where none does."""
        leader = self._partition.leader
        return None if leader in (NO_LEADER, self._context.broker_id) else leader

    @property
    def high_watermark(self) -> HighWatermark:
        """Up to where every in-sync replica has the log, as far as is known here."""
        return self._high_watermark if self._leader is None else self._leader.high_watermark

    @property
    def positions(self) -> Positions:
        """The offsets that an answer about this replica names, as of one moment."""
        start = self.log.log_start_offset
        high_watermark = HighWatermark(max(start, self.high_watermark))  # a thread may be emptying the log
        return Positions(start, self.log.producers.last_stable_offset(start, high_watermark), high_watermark)

    @property
    def last_stable_offset(self) -> LastStableOffset:
        """Up to where readers of committed records may read: no transaction is open before it (rule 37)."""
        return self.positions.last_stable_offset

    @property
    def is_under_replicated(self) -> bool:
        return self._leader is not None and len(self._leader.isr) < len(self._leader.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        return self._leader is not None and not self._leader.has_min_isr

    @property
    def has_late_transaction(self) -> bool:
        """Whether this broker leads, and the oldest open transaction should long have been ended (rule 43, KIP-664).
        From any thread."""
        seen_at_ms = self.log.producers.oldest_transaction_seen_at_ms() if self.leads else None
        return seen_at_ms is not None and self._clock.wall_ms() - seen_at_ms > self.log.config.late_transaction_ms

    @property
    def proposal(self) -> IsrProposal | None:
        return None if self._leader is None else self._leader.proposal

    def on_rejected(self, proposal: IsrProposal) -> None:
        if self._leader is not None:
            self._leader.on_rejected(proposal)
            self._context.ticking.add(self)

    def check_epoch(self, known_epoch: int | None) -> None:
        """Raise unless the caller knows the present leader epoch, or none (KIP-320, rule 5)."""
        if known_epoch is None or known_epoch == self.leader_epoch:
            return
        if known_epoch > self.leader_epoch:
            raise OttlaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self} is at leader epoch {self.leader_epoch} on this broker, but the client knows leader epoch "
                f"{known_epoch}",
                hint="this broker's metadata is behind; try again",
            )
        raise OttlaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{self} is at leader epoch {self.leader_epoch}, but the client knows only leader epoch {known_epoch}",
            hint="refresh the metadata",
        )

    def check_leader(self, known_epoch: int | None) -> Leader:
        """The leader's part. Raises unless this broker leads in the epoch that the client knows."""
        self.check_epoch(known_epoch)
        if self._leader is None:
            raise self._not_leader()
        return self._leader

    def _not_leader(self) -> OttlaError:
        return OttlaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self}", hint="refresh the metadata"
        )

    def on_reader(self) -> None:
        """A consumer reads here though another broker leads: from now on each newer high watermark is sent at once."""
        if not self.has_readers:
            self.has_readers = True
            self._context.on_role_change(self)

    @property
    def is_registered(self) -> bool:
        """Whether this broker holds its registration, as far as it knows."""
        return self._context.is_registered()

    def _after(self, moved: bool) -> None:
        """Act on an event of the leader: complete high watermark waiters, and send a proposal."""
        assert self._leader is not None
        if moved:
            self._on_high_watermark(self._leader.high_watermark)
            self._context.followers.on_high_watermark(self.id)  # a follower's readers wait for it too (rule 18)
        if self._leader.proposal is not None:
            self._context.on_proposal(self)
        self._context.ticking.add(self)

    def _on_high_watermark(self, high_watermark: HighWatermark) -> None:
        """Complete what waited for the leader's high watermark, and wake the consumers for whom there is more now.

        Records that become stable may lie before the bytes that the high watermark has passed. Consumers of committed
        records have not been told of those, so they are woken.
        """
        self._forget_ended_transactions()
        passed_bytes = self._high_watermark_waiters.on_high_watermark(high_watermark)
        before = self._first_unstable
        self._first_unstable = self.log.producers.transactions.first_unstable(high_watermark)
        if before is not None and self._first_unstable != before:
            self._context.consumers.wake(self.id)
        else:
            self._context.consumers.on_bytes(self.id, passed_bytes)

    def _forget_ended_transactions(self) -> None:
        """Forget the transactions whose ends every replica has. Called wherever this replica's high watermark changes,
        whatever its role, and where its producers were restored."""
        self.log.producers.transactions.forget_below(self.high_watermark)

    def _wake(self) -> None:
        self._context.followers.on_changed(self.id)
        for purgatory in (self._context.consumers, self._context.deletions, self._context.confirmations):
            purgatory.wake(self.id)

    def _now(self) -> float:
        return self._clock.monotonic()

    # ---- one thread at a time ------------------------------------------------------------------------------------

    async def until_whole(self) -> None:
        """Return once no thread has the log in hand. Its work continues where the caller has gone."""
        while self._working is not None:
            await asyncio.wait({self._working})

    @property
    def is_in_a_thread(self) -> bool:
        """Whether a thread has the log in hand, and nothing else writes to it."""
        return self._working is not None

    async def _in_thread(self, work: Callable[[int], object], argument: int, *, is_truncation: bool = False) -> None:
        """Do work that waits for the disk: never two at a time on one log, even if the caller no longer waits for the
        first."""
        assert self._working is None, f"{self}: another thread works on the log already"
        run = self._threads.truncate if is_truncation else self._threads.keep
        self._working = asyncio.ensure_future(run(work, argument))
        self._working.add_done_callback(self._on_worked)
        with self._watching_the_disk():
            await asyncio.shield(self._working)

    def _on_worked(self, done: asyncio.Future[object]) -> None:
        """Here and not after the wait, which may have been given up: the log may end earlier now."""
        self._working = None
        if not done.cancelled():
            done.exception()  # raised to the caller, if one waits still
        end = min(self._high_watermark, self.log.log_end_offset)
        self._high_watermark = HighWatermark(max(self.log.log_start_offset, end))
        self._forget_ended_transactions()
        self._context.consumers.wake(self.id)
