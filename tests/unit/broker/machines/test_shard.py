"""Who may write to a shard, and where: every line of the machine's table."""

from __future__ import annotations

import pytest

from ottla_broker.machines.shard import NO_FENCE, StoredFence, check_owner, find_append_offset
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.fence import ShardFence

OWNER = ShardFence(3, 700)
OLDER, NEWER, TWIN = ShardFence(2, 600), ShardFence(4, 800), ShardFence(3, 701)
STORED, END = StoredFence(OWNER, 10), 15


def refused(stored: StoredFence, owner: ShardFence, expected: int, *, is_fence: bool) -> int:
    with pytest.raises(OttlaError) as caught:
        find_append_offset(stored, END, owner, expected, is_fence=is_fence)
    return caught.value.code


def test_a_higher_epoch_takes_the_shard_where_the_log_ends() -> None:
    assert find_append_offset(STORED, END, NEWER, END, is_fence=True) == END
    assert find_append_offset(NO_FENCE, 0, OLDER, 0, is_fence=True) == 0
    for elsewhere in (0, END - 1, END + 1):
        assert refused(STORED, NEWER, elsewhere, is_fence=True) == ErrorCode.OFFSET_MISMATCH


def test_no_lower_epoch_and_no_other_incarnation_ever_takes_it() -> None:
    for late in (OLDER, TWIN):
        assert refused(STORED, late, END, is_fence=True) == ErrorCode.SHARD_FENCED


def test_a_fence_that_is_the_highest_already_lies_where_it_lies() -> None:
    for expected in (0, 10, END, END + 5):
        assert find_append_offset(STORED, END, OWNER, expected, is_fence=True) == 10


def test_only_the_owner_appends() -> None:
    assert find_append_offset(STORED, END, OWNER, END, is_fence=False) == END
    for other in (OLDER, TWIN, NEWER):
        assert refused(STORED, other, END, is_fence=False) == ErrorCode.SHARD_FENCED
    assert refused(NO_FENCE, OWNER, END, is_fence=False) == ErrorCode.SHARD_FENCED
    check_owner(STORED, OWNER)
    with pytest.raises(
        OttlaError,
        match="the shard is fenced at epoch 3 by incarnation 700, but the caller has epoch 4 and incarnation 800",
    ):
        check_owner(STORED, NEWER)


def test_a_repeat_is_looked_for_behind_the_own_fence_only() -> None:
    assert find_append_offset(STORED, END, OWNER, 11, is_fence=False) == 11
    assert find_append_offset(STORED, END, OWNER, END - 1, is_fence=False) == END - 1
    for elsewhere in (0, 9, 10, END + 1):
        assert refused(STORED, OWNER, elsewhere, is_fence=False) == ErrorCode.OFFSET_MISMATCH
