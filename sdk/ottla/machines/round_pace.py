"""Limits how many records a round of an exactly-once app may read, so that its transaction does not time out.

A round is committed when all of its records are handled, so the number of records has to fit the remaining time:

    begins        reads what its handlers will finish by then        ends, and commits        the coordinator aborts it
      |───────────────────────────────────────────────────────────────────|─────────────────────────────|
      0                                                          a third of transaction_timeout    transaction_timeout

The rules this file owns:

* The limit follows the rate at which records were finished while records were available, in this round and earlier
  ones; each earlier round counts half as much as the next. Until a rate is known, each handler gets one record.
* A round that exceeded its transaction's time is handled again at half the size.
* A round that is handled again reads no more records than before. Otherwise it would reach records that fail for the
  first time, and with many of them it would never be committed.
"""

from __future__ import annotations

from typing import Final

_PART_OF_TIMEOUT: Final = 1 / 3
_SMALLEST_SHARE: Final = 2.0**-20


class RoundPace:
    """The pace of one handler with `concurrency` records at a time. Times are monotonic seconds."""

    def __init__(self, concurrency: int, transaction_timeout_s: float) -> None:
        self._concurrency: Final = concurrency
        self._timeout_s: Final = transaction_timeout_s
        self._began_at: float | None = None
        self._share = 1.0
        self._finished = 0.0
        self._busy_s = 0.0
        self._busy_since: float | None = None
        self._read = 0
        # How many records the aborted round had read, which is now handled again; 0 after a commit.
        self._repeats = 0

    def begin(self, now: float) -> None:
        """Begin a round, which has read its first records."""
        self._began_at = now
        self._finished /= 2
        self._busy_s /= 2

    def is_over(self, now: float) -> bool:
        """Tell whether the round is to read no more."""
        return self._left_s(now) <= 0

    def may_wait(self, now: float, pause_s: float) -> bool:
        """Tell whether a record of the round may be tried again after a pause, within the same transaction."""
        return pause_s <= self._left_s(now)

    def room(self, now: float, unfinished: int) -> int:
        """Return how many records may be read in addition to the unfinished ones."""
        busy_s = self._busy_s + (0.0 if self._busy_since is None else now - self._busy_since)
        expected = self._finished / busy_s * self._left_s(now) if self._finished and busy_s > 0 else 0.0
        room = max(1, int(self._share * max(self._concurrency, expected))) - unfinished
        return min(room, self._repeats - self._read) if self._repeats else room

    def on_read(self, now: float, records: int) -> None:
        """Note that more records have to be handled."""
        self._read += records
        if self._busy_since is None:
            self._busy_since = now

    def on_finished(self, now: float, unfinished: int) -> None:
        """Note that a record was handled and `unfinished` records remain."""
        self._finished += 1
        if not unfinished:
            self._rest(now)

    def end(self, now: float, *, committed: bool) -> bool:
        """End a round whose records are all handled. Tell whether it has taken too long to be committed."""
        self._rest(now)
        is_late = not committed and self._began_at is not None and now - self._began_at >= self._timeout_s
        self._began_at = None
        self._read, self._repeats = 0, 0 if committed else self._read
        if is_late:
            self._share = max(_SMALLEST_SHARE, self._share / 2)
        elif committed:
            self._share = min(1.0, self._share * 2)
        return is_late

    def _left_s(self, now: float) -> float:
        """Return the remaining seconds of the round, or all of them before it begins."""
        began_at = now if self._began_at is None else self._began_at
        return began_at + self._timeout_s * _PART_OF_TIMEOUT - now

    def _rest(self, now: float) -> None:
        if self._busy_since is not None:
            self._busy_s += now - self._busy_since
            self._busy_since = None
