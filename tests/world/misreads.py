"""Reads of a disk that fail, or that return a bit other than the one that was written.

A bit is flipped for one read, or on the disk for good. It lies in a log, where a CRC or the form of a batch shows it.
No CRC covers a batch's base offset and leader epoch, nor Kafka's checkpoints, so these are never flipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from errno import EIO
from pathlib import PurePath
from random import Random
from typing import Final

_HEADER_BYTES: Final = 61
_LENGTH: Final = range(8, 12)
_EPOCH: Final = range(12, 16)


class Misreads:
    """While this is in place, a share of the reads `fails`, and a share of the reads of logs has a flipped bit."""

    def __init__(self, random: Random, *, fails: float, flips: float) -> None:
        self._random: Final = random
        self._fails: Final = fails
        self._flips: Final = flips

    def check(self, path: PurePath) -> None:
        """Raise EIO, or let the read go on."""
        if self._random.random() < self._fails:
            raise OSError(EIO, "Input/output error", str(path))

    def flipped(self, log: bytes | bytearray, begin: int, end: int) -> tuple[int, int] | None:
        """Return the position and the mask of a bit to flip for a read of [begin, end), or None."""
        if self._random.random() >= self._flips:
            return None
        return a_bit(self._random, log, begin, end)


def a_bit(random: Random, log: bytes | bytearray, begin: int, end: int) -> tuple[int, int] | None:
    """Choose a bit in [begin, end) of a log's file. Return its position and its mask, or None if none can be chosen."""
    batches = [(at, to) for at, to in _batches(log) if at < end and to > begin]
    if not batches:
        return None
    at, to = random.choice(batches)
    position = random.choice(_seen(at, to, random))
    return (position, 1 << random.randrange(8)) if begin <= position < end else None


def last_batch(log: bytes | bytearray) -> int | None:
    """Return where the last whole batch of a log's file begins."""
    batches = _batches(log)
    return batches[-1][0] if batches else None


def _seen(at: int, to: int, random: Random) -> Sequence[int]:
    """Return positions in a batch at which a flipped bit can be seen: the rest of its header, or its records."""
    header = range(at + _EPOCH.stop, at + _HEADER_BYTES)
    return random.choice(
        (range(at + _LENGTH.start, at + _LENGTH.stop), header, range(at + _HEADER_BYTES, to) or header)
    )


def _batches(log: bytes | bytearray) -> Sequence[tuple[int, int]]:
    """Return where each whole batch begins and ends."""
    found, at = [], 0
    while at + _HEADER_BYTES <= len(log):
        to = at + _LENGTH.stop + int.from_bytes(log[at + _LENGTH.start : at + _LENGTH.stop])
        if to > len(log) or to < at + _HEADER_BYTES:
            break
        found.append((at, to))
        at = to
    return found
