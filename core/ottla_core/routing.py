"""Finds the shard of a group or a transactional id by Kafka's own rule, because Kafka's tools look there, too.

The rule is Java's `String.hashCode` over UTF-16 code units, without its sign, modulo the number of shards.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "group"
TXN: Final = "txn"

_INT32: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def shard_of(key: str, shards: int) -> int:
    """Return the shard of a key. `shards` is fixed as long as a cluster exists: with another number every key would be
    lost."""
    units = memoryview(key.encode("utf-16-be", "surrogatepass"))
    code = 0
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8 | units[at + 1])) & _INT32
    return (code & _POSITIVE) % shards
