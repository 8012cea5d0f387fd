"""A dict by partition that a plain (topic, partition) tuple looks up as well, for type checkers, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from ottla_core.model import TopicPartition

T = TypeVar("T")

OffsetsByPartition = Mapping[tuple[str, int], int] | Mapping[TopicPartition, int]
"""What a caller gives; mappings are invariant in their keys, so both are named."""


class ByPartition(dict[TopicPartition, T]):
    """At run time a dict; a TopicPartition equals the tuple of its two."""

    if TYPE_CHECKING:

        def __getitem__(self, partition: tuple[str, int], /) -> T: ...
