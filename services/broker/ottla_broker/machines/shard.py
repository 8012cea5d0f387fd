"""The leader compares fence and offset in one step, and so decides which owner may write to a shard's log, and where.

A shard's owner is another process than its partition's leader, so a deposed owner can't be recognized by who leads. It
may have sent an append before it was deposed, and the append may arrive minutes later. Two comparisons at the append
reject it. The *fence* is a record in the log itself: the owner that has put the highest one there owns the shard, until
a higher one follows. The *expected offset* leaves no gap and takes nothing twice: an owner appends where it knows that
its last batch ended, or not at all (I19).

Both are compared in the same step as the append (I1), so nothing comes in between. An owner that does not know what
became of an append sends the same bytes again, and a repeat is recognized by where it would lie.

    the caller's first batch, its fence
      is the highest in the log already          a repeat: it lies where it lies
      has no higher epoch than the highest       SHARD_FENCED
      is expected where the log ends             new
      is expected elsewhere                      OFFSET_MISMATCH: the response says where the log ends
    later batches
      another fence is the highest               SHARD_FENCED
      is expected where the log ends             new
      is expected behind its fence, in the log   a repeat if all the same bytes lie there, else OFFSET_MISMATCH
      is expected elsewhere                      OFFSET_MISMATCH
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.fence import ShardFence


class StoredFence(NamedTuple):
    """The highest fence of a log, and the offset of its record."""

    fence: ShardFence
    offset: int

    @property
    def exists(self) -> bool:
        return self.offset >= 0


NO_FENCE: Final = StoredFence(ShardFence(-1, -1), -1)


def check_owner(stored: StoredFence, owner: ShardFence) -> None:
    """Raise SHARD_FENCED unless the highest fence is the owner's own."""
    if stored.fence != owner:
        raise _fenced(stored, owner, "append the own fence first, or step down")


def find_append_offset(
    stored: StoredFence, log_end_offset: int, owner: ShardFence, expected_offset: int, *, is_fence: bool
) -> int:
    """Return where the owner's batch belongs: at the log's end, where it is appended, or before it, where a repeat
    lies.

    Raises SHARD_FENCED or OFFSET_MISMATCH if nothing may be appended.
    """
    if not is_fence:
        check_owner(stored, owner)
    elif stored.fence == owner:
        # A new owner does not know where the log ends, and tries several offsets. If one of its tries was carried out
        # unnoticed, any other offset would be a mismatch for ever, so the fence is found wherever it was expected.
        return stored.offset
    # Equal epochs of two incarnations can't both be right. The one in the log came first.
    elif owner.epoch <= stored.fence.epoch:
        raise _fenced(stored, owner, "step down: the controller gives every owner a higher epoch")
    # Only this owner has written behind its fence. So what lies at the expected offset can only be its own earlier
    # attempt, or the owner's state is not the log's. The caller compares the bytes.
    may_repeat = not is_fence and stored.offset < expected_offset < log_end_offset
    if expected_offset != log_end_offset and not may_repeat:
        raise mismatch(log_end_offset, expected_offset)
    return expected_offset


def mismatch(log_end_offset: int, expected_offset: int) -> OttlaError:
    return OttlaError(
        ErrorCode.OFFSET_MISMATCH,
        f"the request expects the shard's log to end at offset {expected_offset}, but the log ends at {log_end_offset}",
        hint="if you are the shard's new owner, append your fence at the log's end; otherwise, load the shard again",
    )


def _fenced(stored: StoredFence, owner: ShardFence, hint: str) -> OttlaError:
    fence = stored.fence
    known = f"is fenced at epoch {fence.epoch} by incarnation {fence.incarnation}" if stored.exists else "has no fence"
    return OttlaError(
        ErrorCode.SHARD_FENCED,
        f"the shard {known}, but the caller has epoch {owner.epoch} and incarnation {owner.incarnation}",
        hint=hint,
    )
