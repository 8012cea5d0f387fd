"""The calls of an owner to its shard's log, and their results.

They are between the machine that calls (`owner`) and the carrier of the call: gRPC to a broker, or a log in memory. A
result is *definite* if it tells what became of the call. `Unknown` is not: the call may have been carried out, may
still be, and may never be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.fence import ShardFence


@dataclass(frozen=True, slots=True)
class Append:
    """Append all of `batches` where `expected_offset` comes next, under the fence of the owner (rule 1)."""

    expected_offset: int
    batches: bytes


@dataclass(frozen=True, slots=True)
class Check:
    """Check whether the owner's fence is still the highest, and its appends up to `next_offset` are in the log (rule
    7)."""

    next_offset: int


@dataclass(frozen=True, slots=True)
class Read:
    """Read from `offset` on, only below the high watermark."""

    offset: int


Call: TypeAlias = Append | Check | Read


@dataclass(frozen=True, slots=True)
class Appended:
    """The batches lie at `base_offset`. They count once the high watermark is past it."""

    base_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The owner owned the shard at some moment after the check was sent."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Whole batches as they lie in the log. The first may begin below the requested offset."""

    data: bytes
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Nothing was appended: the log ends elsewhere, and has other batches at the expected offset."""

    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """Nothing was appended, and nothing under this fence ever will be again."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nothing was appended by this call: too few replicas in sync, too large, no leader to send it to."""

    error: OttlaError


@dataclass(frozen=True, slots=True)
class Unknown:
    """No response came, or one that leaves it open, so the batches may have been appended (rule 5)."""

    error: OttlaError


Result: TypeAlias = Appended | Confirmed | Batches | Mismatch | Fenced | Rejected | Unknown


_DEFINITE: Final = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_RECORD,
    }
)
"""Errors by which a leader reports that it has not appended. All others leave that open."""


def result_of(error: OttlaError, log_end_offset: int) -> Mismatch | Fenced | Rejected | Unknown:
    """Return the result that a leader's error stands for."""
    if error.code == ErrorCode.OFFSET_MISMATCH:
        return Mismatch(log_end_offset)
    if error.code == ErrorCode.SHARD_FENCED:
        return Fenced()
    return Rejected(error) if error.code in _DEFINITE else Unknown(error)


class ShardLog(Protocol):
    """The partitions of one internal topic, each at its present leader."""

    async def call(self, shard: int, owner: ShardFence, call: Call, *, timeout_s: float) -> Result:
        """Return the leader's result within `timeout_s`, or `Unknown`. Raises nothing. A cancelled call is unknown."""
        ...
