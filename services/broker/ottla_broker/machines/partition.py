"""A partition's leader decides which followers are in sync, and what is committed: what they all have.

Consumers may see a record only once no clean election can lose it (I14). Only members of the ISR are elected, so the
leader commits what every member has. That is the high watermark. Two numbers of a follower matter for it. Its *log end
offset*, which its next fetch carries, moves the high watermark. When it was last *caught up*, that is, when it had all
that the leader had, decides whether it stays in the ISR. It leaves by time and never by a count of messages (rule 14),
because a burst of messages would throw out healthy followers.

The controller owns the ISR. A leader proposes a change by compare and set, and learns the result from the metadata. In
between it does not know which ISR is in force. So it counts the *maximal ISR*: the committed one and the pending
additions, while a pending removal changes nothing yet (rule 6). So whatever the controller made of the proposal, no
record was called committed that a member lacks (KIP-497).

The module is pure. It gets times as arguments, which are seconds of a monotonic clock. It trusts its caller that a
fetch from an offset proves everything before it: `find_divergence` is asked first.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla_broker.machines.epochs import NO_EPOCH, NO_OFFSET, LeaderEpochs
from ottla_broker.machines.offsets import HighWatermark, LogEndOffset
from ottla_core.cluster.image import Partition
from ottla_core.records.leader_epochs import EpochStart

UNKNOWN: Final = -1


class IsrProposal(NamedTuple):
    """An ISR that is proposed to the controller. It is valid at one leader epoch and partition epoch only.

    `broker_epochs` are those of the incarnations that fetched, in the order of `isr`, so that the controller refuses
    one that has restarted since and may have lost its log's end (KIP-903). UNKNOWN stands for the leader itself, and
    for a member that has not fetched in this leader epoch.
    """

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    recovered: bool = False


@dataclass(slots=True)
class Follower:
    """Another replica, as its fetches in this leader epoch show it."""

    caught_up_at: float
    log_end_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    broker_epoch: int = UNKNOWN
    fetched_at: float = 0.0
    leader_end_at_fetch: int = UNKNOWN  # the leader's log end when it fetched last
    seen_confirmation: int = 0  # the newest check after which it is known to have fetched
    is_copy: bool = False
    """All that it has comes from this leader in this epoch, which still has every tombstone and marker behind it."""

    def on_fetch(self, offset: int, broker_epoch: int, leader_end: int, now: float, *, begins: bool) -> None:
        """Note a fetch from `offset`, which shows that the follower has everything before it.

        It is caught up if it has all that the leader has now, or had at the follower's last fetch. If it `begins`, it
        has nothing. If it goes back, tombstones that the leader has removed may lie behind it again.
        """
        self.is_copy = begins or (self.is_copy and offset >= self.log_end_offset)
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        # Under constant writes a follower never reaches the leader's present end. That it has reached the end of its
        # last fetch shows that it keeps up, as of that fetch.
        elif self.leader_end_at_fetch != UNKNOWN and offset >= self.leader_end_at_fetch:
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.log_end_offset, self.broker_epoch = offset, broker_epoch
        self.fetched_at, self.leader_end_at_fetch = now, leader_end

    def is_caught_up(self, leader_end: int, now: float, lag_max_s: float) -> bool:
        return self.log_end_offset == leader_end or now - self.caught_up_at <= lag_max_s


class Leader:
    """One leader epoch of one partition on its leader. `live` brokers and limits are set from outside, at any time.

    Every `on_` method says whether the high watermark moved. `proposal` is what the controller is to decide. There is
    one at a time (rule 12), or two results could not be distinguished. It goes when a newer partition epoch is seen, or
    when it is rejected for good.
    """

    def __init__(
        self,
        broker_id: int,
        partition: Partition,
        *,
        log_end_offset: LogEndOffset,
        high_watermark: HighWatermark,
        now: float,
        live: Mapping[int, int],
        read_only: Set[int] = frozenset(),
        min_isr: int = 1,
        lag_max_s: float = 30.0,
    ) -> None:
        self.epoch: Final = partition.leader_epoch
        self.epoch_start_offset: Final = log_end_offset
        self.isr = partition.isr
        self.elr = partition.elr
        self.replicas = partition.replicas
        self.partition_epoch = partition.partition_epoch
        self.high_watermark = high_watermark
        self.min_isr = min_isr
        self.lag_max_s = lag_max_s
        self.live = live
        """Brokers that may be in an ISR, with the epoch of their present incarnation (rules 11 and 22)."""
        self.read_only = read_only
        """These brokers' disks take nothing for the moment. They join no ISR, and leave it with the next append.
        Otherwise acks=all would wait for them until they have lagged for too long."""
        self.proposal: IsrProposal | None = None
        self._recovering = partition.recovering
        self._broker_id: Final = broker_id
        self._log_end_offset = log_end_offset
        self._followers: dict[int, Follower] = {}
        self._add_followers(now)
        self._advance_high_watermark(now)

    # ---- events --------------------------------------------------------------------------------------------------

    def on_appended(self, log_end_offset: LogEndOffset, now: float) -> bool:
        """Note the log's new end.

        A follower that had the whole log counts as caught up until now, even if it has not fetched for a while: an idle
        partition's followers must not leave the ISR at the first append.
        """
        for follower in self._followers.values():
            if follower.log_end_offset == self._log_end_offset:
                follower.caught_up_at = max(follower.caught_up_at, now)
        self._log_end_offset = log_end_offset
        return self._advance_high_watermark(now)

    def on_fetch(
        self,
        follower_id: int,
        broker_epoch: int,
        offset: int,
        now: float,
        *,
        log_start_offset: int = UNKNOWN,
        is_purging: bool = False,
    ) -> bool:
        """Note that a follower requests what comes after `offset`, so it has everything from its log's start up to
        there.

        If the leader `is_purging`, a follower that begins now may get records of which the tombstones go before it gets
        them.
        """
        follower = self._followers[follower_id]
        follower.log_start_offset = log_start_offset
        begins = offset == log_start_offset and not is_purging
        follower.on_fetch(offset, broker_epoch, self._log_end_offset, now, begins=begins)
        # The proposal comes before the high watermark: from now on the follower counts, so nothing is committed that it
        # lacks if the controller adds it.
        self._let_join(follower_id, follower)
        return self._advance_high_watermark(now)

    def on_purge(self, before: int) -> None:
        """Note that tombstones and markers before this offset go."""
        for follower in self._followers.values():
            if follower.log_end_offset < before:
                follower.is_copy = False

    def on_seen_confirmation(self, follower_id: int, number: int) -> None:
        """Note that a follower fetches in this leader epoch, and has sent its fetch after check `number`."""
        follower = self._followers[follower_id]
        follower.seen_confirmation = max(follower.seen_confirmation, number)

    def on_partition(self, partition: Partition, now: float) -> bool:
        """Apply the controller's newest state in this leader epoch. An older partition epoch is stale
        (rule C10), and changes nothing."""
        if partition.partition_epoch <= self.partition_epoch:
            return False
        self.isr, self.elr, self.replicas = partition.isr, partition.elr, partition.replicas
        self.partition_epoch = partition.partition_epoch
        self._recovering = partition.recovering
        # The newer state shows what became of the proposal, or that it can't be applied any more: its partition epoch
        # is over.
        self.proposal = None
        self._add_followers(now)
        return self._advance_high_watermark(now)

    def on_rejected(self, proposal: IsrProposal) -> None:
        """Drop a proposal that was refused for good: the committed ISR is all there is (rule 13: revert only on a
        definite refusal, because after any other failure the controller may have made it)."""
        if proposal == self.proposal:
            self.proposal = None

    def on_tick(self, now: float) -> bool:
        """Propose to remove replicas that have not been caught up for too long, and to end a recovery that is over.

        Time alone may move the high watermark: it waits for a replica about to join only as long as that keeps up.
        """
        if self.proposal is None:
            lagging = self.lagging(now)
            # There is one proposal at a time. Removing lagging replicas comes before ending the recovery, because
            # acks=all waits for them.
            if lagging:
                self._propose(tuple(r for r in self.isr if r not in lagging))
            # An unclean election has marked the partition. This leader serves it now, and the proposal takes the mark
            # away (KIP-704).
            elif self._recovering:
                self._propose(self.isr)
        # the reason that kept it out may be over, and it sends nothing that would show it
        for follower_id, follower in self._followers.items():
            if follower.is_caught_up(self._log_end_offset, now, self.lag_max_s):
                self._let_join(follower_id, follower)
        return self._advance_high_watermark(now)

    # ---- questions -----------------------------------------------------------------------------------------------

    @property
    def log_end_offset(self) -> LogEndOffset:
        return self._log_end_offset

    @property
    def needs_ticks(self) -> bool:
        """It tells whether time alone may change anything. It can't if every follower that counts has the whole log."""
        return (
            self.proposal is not None
            or self._recovering
            or any(
                follower.log_end_offset != self._log_end_offset and (r in self.isr or r in self.live)
                for r, follower in self._followers.items()
            )
        )

    @property
    def effective_min_isr(self) -> int:
        """This is min.insync.replicas, or the number of replicas if that is smaller: a partition could never reach more
        than it has."""
        return min(self.min_isr, len(self.replicas))

    @property
    def has_min_isr(self) -> bool:
        return len(self.isr) >= self.effective_min_isr

    @property
    def is_settled(self) -> bool:
        """It tells whether the high watermark has come to this epoch's start.

        A new leader knows a high watermark that is behind what its predecessor had committed. Until its followers have
        fetched, `latest` would go back (rule 15: ListOffsets answers OFFSET_NOT_AVAILABLE until then).
        """
        return self.high_watermark >= self.epoch_start_offset

    @property
    def is_alone(self) -> bool:
        """Return whether no other broker can be elected: no other is in sync, may have become so, or is in the ELR."""
        return self._electable() == {self._broker_id}

    def has_led_since(self, number: int) -> bool:
        """Return whether it is proved that nothing was committed in a later epoch before check `number` was made.

        A later leader would be a member of the ISR or the ELR. It commits nothing below min.insync.replicas (rule 8).
        So it has committed nothing if too few replicas are left beside this broker and the followers that have fetched
        from it since the check. Replicas that are added later don't count: internal topics get none beyond those that
        the rule was made for.
        """
        members = (*self.isr, *self.elr)
        local = {r for r, f in self._followers.items() if f.seen_confirmation >= number and r in members}
        # The replicas that a later leader could have had for its ISR, itself included.
        left = len(self.replicas) - 1 - len(local)
        no_other = self._electable() <= {self._broker_id, *local}
        return bool(local) and (no_other or left < self.effective_min_isr)

    def is_replica(self, broker_id: int) -> bool:
        return broker_id in self._followers

    def has_heard_of(self, follower_id: int, broker_epoch: int) -> bool:
        """Return whether that incarnation of the replica's broker has fetched in this leader epoch.

        What its former incarnation had proves nothing: the broker may have come back with an old copy of its disk.
        """
        follower = self._followers.get(follower_id)
        return follower is not None and follower.broker_epoch == broker_epoch

    def lagging(self, now: float) -> tuple[int, ...]:
        """Return the members of the ISR that have not been caught up for replica.lag.time.max.ms, or can't catch up."""
        end = self._log_end_offset

        def lags(r: int) -> bool:
            follower = self._followers[r]
            # A follower with a full disk will not catch up, so it gets no time. One that has not fetched in this epoch
            # may have the whole log, which only its first fetch shows.
            waits = r not in self.read_only or follower.log_end_offset == UNKNOWN
            return not follower.is_caught_up(end, now, self.lag_max_s if waits else 0.0)

        return tuple(r for r in self.isr if r != self._broker_id and lags(r))

    def has_offset(self, follower_id: int, offset: int) -> bool:
        """Return whether a reader at `offset` finds it in that follower's log, or waits at its end, as of the
        follower's last fetch in this epoch.

        A follower's log may start later than the leader's, because each replica checks retention by itself. Its high
        watermark may lie before `offset`: there a reader waits for it, as at the end of the log.
        """
        follower = self._followers[follower_id]
        return UNKNOWN < follower.log_start_offset <= offset <= follower.log_end_offset

    def end_offsets(self) -> dict[int, int]:
        """Return the log end of every replica, or -1 for one that has not fetched in this epoch."""
        return {
            r: self._log_end_offset if r == self._broker_id else self._followers[r].log_end_offset
            for r in self.replicas
        }

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the smallest log start of the live replicas. The argument is this replica's own. UNKNOWN means that
        some have not fetched yet."""
        # A replica whose broker is dead can't delete its records now, and DeleteRecords must not wait for it.
        starts = [f.log_start_offset for follower_id, f in self._followers.items() if follower_id in self.live]
        return min([log_start_offset, *starts])

    @property
    def purge_limit(self) -> int:
        """This is the offset from which on tombstones and markers stay, because a live replica does not have them yet:
        the log's end if there is no other live replica.

        A replica whose broker is away does not keep them: it may never return. If it does, it begins anew.
        """
        return min(
            (f.log_end_offset for each, f in self._followers.items() if each in self.live), default=self._log_end_offset
        )

    def may_lack(self, follower_id: int, offset: int, purged_before: int) -> bool:
        """Return whether a follower at `offset` may have records of which this leader has removed the tombstones or the
        markers, which lay before `purged_before`. It would keep what was deleted or aborted (I16).

        A member of the ISR or the ELR has everything that is committed, so it has met all of them.
        """
        follower = self._followers.get(follower_id)
        return (
            offset < purged_before
            and follower_id not in (*self._maximal_isr(), *self.elr)
            and not (follower is not None and follower.is_copy)
        )

    # ---- the rules -----------------------------------------------------------------------------------------------

    def _let_join(self, follower_id: int, follower: Follower) -> None:
        if follower_id not in self.isr and self.proposal is None and self._may_join(follower_id, follower):
            self._propose((*self.isr, follower_id))

    def _may_join(self, follower_id: int, follower: Follower) -> bool:
        """Return whether the follower may join the ISR (rule 11).

        It must have reached the high watermark, or a committed record would be missing on a member. It must have
        reached the start of this epoch, because below that its log may still differ from this one. And it must be the
        incarnation that the controller knows: a fetch of its former one proves nothing of a log that has restarted
        since.
        """
        reached = max(self.high_watermark, self.epoch_start_offset)
        return follower.log_end_offset >= reached and self._is_eligible(follower_id, follower)

    def _is_eligible(self, follower_id: int, follower: Follower) -> bool:
        return self.live.get(follower_id) == follower.broker_epoch and follower_id not in self.read_only

    def _propose(self, isr: tuple[int, ...]) -> None:
        ordered = tuple(r for r in self.replicas if r in isr)
        epochs = tuple(self._followers[r].broker_epoch if r in self._followers else UNKNOWN for r in ordered)
        self.proposal = IsrProposal(self.epoch, self.partition_epoch, ordered, epochs, self._recovering)

    def _advance_high_watermark(self, now: float) -> bool:
        """Move the high watermark to the smallest log end of the replicas that are in the ISR or about to be. Return
        whether it moved.

        These are the maximal ISR (rule 6), and followers that are caught up in time and eligible: a lone leader that
        did not wait for them would outrun a follower for ever (rule 7).
        """
        # Nothing is committed below min.insync.replicas, whatever acks says (rule 8). So a replica that leaves the ISR
        # now still has everything that is committed, which is what makes it eligible (KIP-966).
        if not self.has_min_isr:
            return False
        counted = self._maximal_isr()
        end = self._log_end_offset
        smallest: int = end
        for follower_id, follower in self._followers.items():
            if follower.log_end_offset < smallest and (
                follower_id in counted
                or (self._is_eligible(follower_id, follower) and follower.is_caught_up(end, now, self.lag_max_s))
            ):
                smallest = follower.log_end_offset
        # The high watermark never goes back, because consumers have read up to there. A member of the ISR that has not
        # fetched in this epoch counts with -1.
        if smallest <= self.high_watermark:
            return False
        self.high_watermark = HighWatermark(smallest)
        return True

    def _electable(self) -> set[int]:
        return {*self._maximal_isr(), *self.elr}

    def _maximal_isr(self) -> tuple[int, ...]:
        return self.isr if self.proposal is None else (*self.isr, *self.proposal.isr)

    def _add_followers(self, now: float) -> None:
        """Make the followers those of the replicas. What is known of followers that stay is kept."""
        for replica in self.replicas:
            if replica != self._broker_id and replica not in self._followers:
                # Members of the ISR get the lag time for their first fetch in this epoch. Others have proved nothing,
                # and do not hold the high watermark up.
                self._followers[replica] = Follower(now if replica in self.isr else float("-inf"))
        for gone in self._followers.keys() - set(self.replicas):
            del self._followers[gone]


def find_truncation_offset(
    epochs: LeaderEpochs, log_end_offset: LogEndOffset, high_watermark: HighWatermark, leader: EpochStart
) -> int:
    """Return the offset at which a follower truncates its log, if its leader says that `leader` is the end of an epoch
    there.

    It goes by epochs. The follower's own high watermark may be behind what is committed, and truncating there would
    remove committed records (rule 2). It is the last resort if the leader knows no epoch at all. After the truncation
    the follower fetches with its new last epoch. If the logs still differ, this repeats (rule 3: a fast double change
    of leaders diverges twice). Source: KIP-101, KIP-279.
    """
    if leader.start_offset == NO_OFFSET:
        return min(high_watermark, log_end_offset)
    # The epoch may end earlier here than at the leader. Both logs are equal only up to the smaller of the two ends.
    own = epochs.end_offset_for(leader.epoch, log_end_offset)
    if leader.epoch == NO_EPOCH or own.start_offset == NO_OFFSET:
        return min(leader.start_offset, log_end_offset)
    return min(own.start_offset, leader.start_offset, log_end_offset)


def find_divergence(
    epochs: LeaderEpochs, log_end_offset: LogEndOffset, last_epoch: int, fetch_offset: int
) -> EpochStart | None:
    """Find, on the leader, where the log of a follower that has `last_epoch` before `fetch_offset` leaves this one.

    A follower that knows no epoch has nothing, and begins at offset 0 or where this log does. If it names another
    offset, this leader can't know whether the follower has what lies before it. If it counted as in sync, acknowledged
    records could be lost in a clean election. So it gets the first epoch of this log with its start: it begins again
    there or, if it is there already, has its epoch from now on.

    If the follower's last epoch begins after `fetch_offset` here, the follower has it from another log. It gets the end
    of the epochs before that one.
    """
    if last_epoch == NO_EPOCH:
        first = next(iter(epochs.entries), None)
        is_unproved = first is not None and fetch_offset > 0 and first.start_offset <= fetch_offset
        return first if is_unproved else None
    end = epochs.end_offset_for(last_epoch, log_end_offset)
    # This leader lacks the follower's last epoch, or that epoch ended earlier here. What the follower has behind that
    # end is not in this log.
    if end.epoch < last_epoch or end.start_offset < fetch_offset:
        return end
    if any(entry.epoch == last_epoch and entry.start_offset > fetch_offset for entry in epochs.entries):
        return epochs.end_offset_for(last_epoch - 1, log_end_offset)
    return None
