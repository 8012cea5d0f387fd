"""A dict by partition in which a plain (topic, partition) tuple works as a key too, also for type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from ottla_core.model import TopicPartition

T = TypeVar("T")

OffsetsByPartition = Mapping[tuple[str, int], int] | Mapping[TopicPartition, int]
"""What a caller passes; mappings are invariant in their keys, so both types are named."""


class ByPartition(dict[TopicPartition, T]):
    """At run time a dict; a TopicPartition equals the tuple of its two fields."""

    if TYPE_CHECKING:

        def __getitem__(self, partition: tuple[str, int], /) -> T: ...
