"""The offsets that bound what may be done with a log, each of a type of its own: a wrong one does not type-check.

At run time they are plain integers, and for most of a log's life they are equal. A mistake between two of them shows
only when they differ: while a transaction is open, while a follower lags, or after a kill. Arithmetic gives an `int`
again. To make a bound from it the code has to name the type, which is the place to ask whether it is the right one.
"""

from __future__ import annotations

from typing import Final, NewType, TypeAlias

LogEndOffset = NewType("LogEndOffset", int)
"""The next record of this replica's log gets this offset."""

HighWatermark = NewType("HighWatermark", int)
"""All before it is committed: it is on every replica that may be elected. Consumers read up to it."""

LastStableOffset = NewType("LastStableOffset", int)
"""All before it is committed, and no transaction is open before it. Readers of committed records read up to it.
Compaction goes no further: a record of an open transaction may still be aborted."""

RecoveryPoint = NewType("RecoveryPoint", int)
"""All before it is fsynced: a start reads no batch below the segment that holds it. Compaction goes no further."""

ReadLimit: TypeAlias = "HighWatermark | LastStableOffset | LogEndOffset"
"""A reader may read up to one of these: a consumer, a consumer of committed records, a follower."""

NOTHING_COMMITTED: Final = HighWatermark(0)
NOTHING_FLUSHED: Final = RecoveryPoint(0)
