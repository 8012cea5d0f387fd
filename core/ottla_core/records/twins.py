"""Chooses which of the two implementations builds and reads: the compiled one if it can be imported, or else the pure
one.

Both give the same bytes and the same records, and one suite of tests runs over both. The choice is an argument: pure
code reads no environment variable, so a client passes on what its configuration says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from ottla_core.records.batch import BatchHeader, Buffer
from ottla_core.records.builder import RecordBatchBuilder
from ottla_core.records.record import RecordSource


class Twin(NamedTuple):
    """One implementation: a builder with a limit of bytes, and the records of a batch (with its codec removed)."""

    name: str
    builder: Callable[[int], RecordBatchBuilder]
    source: Callable[[BatchHeader, Buffer], RecordSource]


@cache
def twin(*, pure: bool = False) -> Twin:
    """Return the implementation in use, which is imported at the first call."""
    if not pure:
        try:
            from ottla_core.records.compiled import CompiledBuilder, CompiledSource
        except ImportError:
            pass
        else:
            return Twin("compiled", CompiledBuilder, CompiledSource)
    from ottla_core.records.pure import PureBuilder, PureSource

    return Twin("pure", PureBuilder, PureSource)


def new_builder(max_bytes: int, *, pure: bool = False) -> RecordBatchBuilder:
    """Return an empty batch that takes records up to `max_bytes`, header included and before compression."""
    return twin(pure=pure).builder(max_bytes)
