"""SHARD_FENCE: the control record with which a new owner of a shard shuts its predecessors out.

    key   version int16 = 0, type int16 = 0x6f74
    value version int16 = 0, shard epoch int32, incarnation int64

It is the only record of its batch, which has the CONTROL bit and no producer id. Kafka's tools and clients skip control
records of a type that they don't know. The layout follows EndTransactionMarker's (module control).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from ottla_core.records.batch import Buffer, corrupt
from ottla_core.records.control_batch import control_record, seal_control

FENCE_TYPE: Final = 0x6F74

_VERSION: Final = 0
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hiq")


class ShardFence(NamedTuple):
    """The owner of a shard. The controller gives a higher `epoch` with every assignment. `incarnation` is the
    create_revision of the owner's registration."""

    epoch: int
    incarnation: int


def seal_fence(fence: ShardFence, timestamp_ms: int) -> bytes:
    """Return the batch that the owner appends first."""
    return seal_control(_KEY.pack(_VERSION, FENCE_TYPE), _VALUE.pack(_VERSION, *fence), timestamp_ms)


def fence_of(batch: Buffer) -> ShardFence | None:
    """Return the fence that one whole batch carries, or None for every other batch.

    Newer versions are read as this one, to which they may only add. Raises CORRUPT_MESSAGE if bytes are missing.
    """
    record = control_record(batch)
    if record is None:
        return None
    key, value = record
    if key is None or len(key) < _KEY.size or _KEY.unpack_from(key)[1] != FENCE_TYPE:
        return None
    try:
        version, epoch, incarnation = _VALUE.unpack_from(value or b"")
    except struct.error:
        raise corrupt(f"the value of a shard fence has {len(value or b'')} bytes of {_VALUE.size}") from None
    if version < 0 or epoch < 0:
        raise corrupt(f"a shard fence has version {version} and epoch {epoch}")
    return ShardFence(epoch, incarnation)
