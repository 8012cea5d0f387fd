"""What writers write into compacted topics: one key again and again, and now and then a tombstone.

A record's name, its writer, partition and number, is in its header `name`; key and value follow from it.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any, Final
from zlib import crc32

from tests.faults.history import Name

NAME: Final = "name"
HOT_KEYS: Final = 20
COLD_KEYS: Final = 1201
"""Cold keys of a partition. Each recurs once in a while, so that old records always exist."""

LATE_MS: Final = 60_000
"""How much older records are than their appends, so that a tombstone's first cleaning is late by its timestamp."""

_COLD_EVERY: Final = 4
_STRIDE: Final = 7
_TOMBSTONE_EVERY: Final = 5


def key_of(name: Name) -> bytes:
    if name.number % _COLD_EVERY:
        return f"hot.{name.number % HOT_KEYS}".encode()
    turn = name.number // _COLD_EVERY * _STRIDE + crc32(name.writer.encode())
    return f"cold.{turn % COLD_KEYS}".encode()


def value_of(name: Name) -> bytes | None:
    """None for a tombstone."""
    if is_tombstone(name):
        return None
    text = text_of(name)
    return text + b"=" + hashlib.blake2b(text, digest_size=16).hexdigest().encode()


def is_tombstone(name: Name) -> bool:
    return name.number // _COLD_EVERY % _TOMBSTONE_EVERY == 1


def text_of(name: Name) -> bytes:
    return f"{name.writer}.{name.partition}.{name.number}".encode()


def send(producer: Any, name: Name) -> Any:
    """The delivery."""
    headers, timestamp = {NAME: text_of(name)}, time.time_ns() // 1_000_000 - LATE_MS
    return producer.send(
        value_of(name), key=key_of(name), partition=name.partition, headers=headers, timestamp=timestamp
    )
