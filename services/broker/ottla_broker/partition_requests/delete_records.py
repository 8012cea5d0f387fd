"""Deletes the records of one partition before an offset, until no live replica has them (KIP-107).

The leader's log start moves at once. Followers move theirs as they fetch, and report it in their next fetch. The
smallest log start is the low watermark. Its purgatory is Kafka's DelayedDeleteRecords.
"""

from __future__ import annotations

from typing import Final

from ottla_broker.replication.leading import Leading
from ottla_broker.replication.produce import check_client_may_write
from ottla_core.errors import ErrorCode, OttlaError

_A_CHANGE: Final = 1


async def delete_records(leading: Leading, before_offset: int, deadline: float) -> int:
    """Give up everything before `before_offset` (-1: the high watermark), and return the low watermark once it has come
    there.

    Raises what `check_client_may_write` and `Leading.delete_records` raise, NOT_LEADER_OR_FOLLOWER if the leadership
    ends before that, and REQUEST_TIMED_OUT at `deadline` (the loop's time), when some followers still have the records.
    """
    check_client_may_write(leading.disk.topic)
    offset = leading.delete_records(before_offset)
    with leading.deletions.delayed((leading.id,)) as delayed:
        while True:
            delayed.mark()
            low_watermark = leading.present().low_watermark
            if low_watermark >= offset:
                return low_watermark
            if not await delayed.sleep(deadline, _A_CHANGE):
                raise OttlaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{leading} starts at offset {offset} on its leader, but at an earlier one on a follower",
                    hint="followers catch up when they fetch; repeat the request to check whether they have caught up",
                )
