"""How far one replica's log may be read, as far as this broker knows.

Consumers read up to the high watermark, and consumers of committed records up to the last stable offset (rule 17). Both
are needed whatever the replica's role: consumers may read from followers, and a new leader starts with what it knew as
a follower. So they are kept here and outlive the roles, and each role moves them by its own rule.

What a step has to do is in one place. It forgets the transactions that ended below it, or they would pile up in memory
and in every snapshot (I36), and it wakes the consumers for whom there is more now.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla_broker.machines.offsets import HighWatermark, LastStableOffset
from ottla_broker.replication.fetch_purgatory import FetchPurgatory
from ottla_broker.storage.log import Log
from ottla_core.model import PartitionId


class Positions(NamedTuple):
    """The start of a log, and how far it may be read: log start <= last stable offset <= high watermark."""

    log_start_offset: int
    last_stable_offset: LastStableOffset
    high_watermark: HighWatermark


class ReplicaOffsets:
    """The high watermark of a replica, and what follows from each of its steps for this broker's consumers.

    It outlives the replica's roles. `Leading` alone moves it while the replica leads, and `Following` while it follows.
    """

    def __init__(
        self, partition_id: PartitionId, log: Log, consumers: FetchPurgatory, high_watermark: HighWatermark
    ) -> None:
        self.high_watermark = high_watermark
        """Every in-sync replica has the log up to here, as far as this broker knows."""
        self._id: Final = partition_id
        self._log: Final = log
        self._consumers: Final = consumers
        self._first_unstable: int | None = None
        """It is the first offset of a transaction that is not stable, as of the leader's last step. It is None if
        there is none."""
        self._forget_ended_transactions()

    @property
    def positions(self) -> Positions:
        """These are the offsets that an answer about this replica names, as of one moment."""
        start = self._log.log_start_offset
        # While a thread is emptying the log, the start may pass the high watermark for a moment. Clients rely on log
        # start <= last stable offset <= high watermark (I36).
        high_watermark = HighWatermark(max(start, self.high_watermark))
        return Positions(start, self._log.producers.last_stable_offset(start, high_watermark), high_watermark)

    @property
    def last_stable_offset(self) -> LastStableOffset:
        """Readers of committed records may read up to this offset: no transaction is open before it (rule 37)."""
        return self.positions.last_stable_offset

    def on_step(self, high_watermark: HighWatermark, passed_bytes: int) -> None:
        """Move a leader's high watermark, which has passed `passed_bytes`, and wake the consumers for whom there is
        more now.

        A marker may make records stable that lie before the bytes of this step. Consumers of committed records did not
        count those bytes before, so they are woken whatever their min_bytes.
        """
        self.high_watermark = high_watermark
        self._forget_ended_transactions()
        before = self._first_unstable
        self._first_unstable = self._log.producers.transactions.first_unstable(high_watermark)
        if before is not None and self._first_unstable != before:
            self._consumers.wake(self._id)
        else:
            self._consumers.on_bytes(self._id, passed_bytes)

    def on_leader_high_watermark(self, high_watermark: HighWatermark) -> None:
        """Move a follower's high watermark to what its leader has named, as far as this log reaches (rule 15).

        A new leader may know an older one for a while. What was committed stays committed, so this one never goes
        back.
        """
        before = self.high_watermark
        self.high_watermark = HighWatermark(max(before, min(high_watermark, self._log.log_end_offset)))
        if self.high_watermark > before:
            self._forget_ended_transactions()
            self._consumers.wake(self._id)

    def on_log_start(self) -> None:
        """Note that the log starts later. The next response to a consumer says so, but it is no reason to respond
        now."""
        self._consumers.touch(self._id)

    def on_truncated(self) -> None:
        """Follow a truncation: the log may end earlier now, and its producers were restored."""
        end = min(self.high_watermark, self._log.log_end_offset)
        self.high_watermark = HighWatermark(max(self._log.log_start_offset, end))
        self._forget_ended_transactions()
        self._consumers.wake(self._id)

    def _forget_ended_transactions(self) -> None:
        """Forget the transactions whose ends every replica has (rule 37: until then they hold the last stable offset).

        It is called wherever the high watermark changes, whatever the replica's role, and where producers were
        restored.
        """
        self._log.producers.transactions.forget_below(self.high_watermark)
