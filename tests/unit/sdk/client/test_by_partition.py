"""Offsets by partition, as callers give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import pytest

from ottla.client.by_partition import OffsetsByPartition


@pytest.mark.story("snippets-that-type-checkers-refuse")
def test_type_checkers_take_plain_tuples_for_partitions() -> None:
    """A mapping is invariant in its keys: one of TopicPartition alone would refuse tuples."""
    assert Mapping[tuple[str, int], int] in get_args(OffsetsByPartition)
