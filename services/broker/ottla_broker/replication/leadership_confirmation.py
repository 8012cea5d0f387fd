"""A leader proves that it still leads, for reads that must not come from a deposed leader (raft's ReadIndex).

A leader that was replaced while it was stopped, or cut off, doesn't know it, and would read an old state. What proves
that it was not replaced is a follower in the ISR that fetches in the same leader epoch and *after* the question:
nothing can have been committed in a later epoch without that follower (machines.partition.Leader.has_led_since).

Neither clocks nor the arrival of a fetch show what was "after": a fetch may have lain in a socket since before the
question. Each response to a follower carries the number of the newest check, and the follower repeats it in its next
fetch. So that fetch was sent after this response, and this response after the check. A number is good for one stream,
and so for one incarnation of either side.

A waiting check completes the followers' delayed fetches at once, so it takes two ways between brokers and not a fetch's
wait. If no other broker is in sync, no other can be elected, and this broker's registration is proof enough.
"""

from __future__ import annotations

from typing import Final

from ottla_broker.machines.shard import check_owner, mismatch
from ottla_broker.replication.replica import Replica
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.fence import ShardFence

# A delayed check sleeps until one thing has changed, whatever its size.
_A_CHANGE: Final = 1


async def check_fence(replica: Replica, leader_epoch: int, owner: ShardFence, next_offset: int, deadline: float) -> int:
    """Return the high watermark once it is proved that `owner` owned the shard after this call, up to `next_offset`.

    Raises SHARD_FENCED, OFFSET_MISMATCH, what `Replica.led_in` raises, and REQUEST_TIMED_OUT at `deadline` (the loop's
    time), which leaves it unknown.
    """
    leading = replica.led_in(leader_epoch)
    with leading.confirmations.delayed((replica.id,)) as delayed:
        number = leading.begin_confirmation()
        while True:
            # The mark comes before the look, so that a follower's fetch in between wakes the sleep (rule 55: register,
            # re-check, then sleep).
            delayed.mark()
            leading = replica.led_in(leader_epoch)
            check_owner(leading.log.fence, owner)
            if next_offset > leading.log.log_end_offset:
                raise mismatch(leading.log.log_end_offset, next_offset)
            if leading.is_confirmed(number):
                return leading.offsets.high_watermark
            if not await delayed.sleep(deadline, _A_CHANGE):
                raise OttlaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"no follower of {replica} has confirmed that this broker still leads it",
                    hint="refresh the metadata and try again",
                )
