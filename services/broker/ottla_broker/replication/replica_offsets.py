"""How far one replica's log may be read, as far as this broker knows: up to the high watermark, or the last stable
offset (rule 17).
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
    """The high watermark of a replica, and what follows from each of its steps for the consumers here.

    It outlives the replica's roles. `Leading` alone moves it while the replica leads, and `Following` while it follows.
    """

    def __init__(
        self, partition_id: PartitionId, log: Log, consumers: FetchPurgatory, high_watermark: HighWatermark
    ) -> None:
        self.high_watermark = high_watermark
        """Up to where every in-sync replica has the log, as far as is known here."""
        self._id: Final = partition_id
        self._log: Final = log
        self._consumers: Final = consumers
        self._first_unstable: int | None = None
        """As of the leader's last step."""
        self._forget_ended_transactions()

    @property
    def positions(self) -> Positions:
        """The offsets that an answer about this replica names, as of one moment."""
        start = self._log.log_start_offset
        high_watermark = HighWatermark(max(start, self.high_watermark))  # a thread may be emptying the log
        return Positions(start, self._log.producers.last_stable_offset(start, high_watermark), high_watermark)

    @property
    def last_stable_offset(self) -> LastStableOffset:
        """Up to where readers of committed records may read: no transaction is open before it (rule 37)."""
        return self.positions.last_stable_offset

    def on_step(self, high_watermark: HighWatermark, passed_bytes: int) -> None:
        """The high watermark of this leader has passed `passed_bytes`: wake the consumers for whom there is more now.

        Records that become stable may lie before the bytes that the high watermark has passed. Consumers of committed
        records have not been told of those, so they are woken.
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
        """This follower's leader has named its own. A new leader may know an older one for a while (rule 15): what was
        committed stays so."""
        before = self.high_watermark
        self.high_watermark = HighWatermark(max(before, min(high_watermark, self._log.log_end_offset)))
        if self.high_watermark > before:
            self._forget_ended_transactions()
            self._consumers.wake(self._id)

    def on_log_start(self) -> None:
        """The log starts later: that belongs in the next response to a consumer, but is no reason for one."""
        self._consumers.touch(self._id)

    def on_truncated(self) -> None:
        """The log may end earlier now, and its producers were restored."""
        end = min(self.high_watermark, self._log.log_end_offset)
        self.high_watermark = HighWatermark(max(self._log.log_start_offset, end))
        self._forget_ended_transactions()
        self._consumers.wake(self._id)

    def _forget_ended_transactions(self) -> None:
        """Forget the transactions whose ends every replica has. Called wherever the high watermark changes, whatever
        the replica's role, and where its producers were restored."""
        self._log.producers.transactions.forget_below(self.high_watermark)
