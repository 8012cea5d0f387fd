"""Control records: a transaction coordinator writes them into a partition to end a transaction there.

    key   version int16, type int16 (0 abort, 1 commit; others belong to other machinery and are skipped)
    value version int16, coordinatorEpoch int32

They lie in batches with the CONTROL bit, take an offset each and are never shown to a user. Source: KIP-98,
org.apache.kafka.common.record.{ControlRecordType,EndTransactionMarker}.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from ottla_core.records.batch import TRANSACTIONAL, Buffer, corrupt
from ottla_core.records.control_batch import control_record, seal_control

_VERSION: Final = 0
_ABORT: Final = 0
_COMMIT: Final = 1
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class EndTransactionMarker(NamedTuple):
    """The end of a producer's transaction. `coordinator_epoch` fences markers of an older coordinator (rule 36)."""

    committed: bool
    coordinator_epoch: int


def encode_marker(marker: EndTransactionMarker) -> tuple[bytes, bytes]:
    """Return the key and the value of the control record."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.committed else _ABORT)
    return key, _VALUE.pack(_VERSION, marker.coordinator_epoch)


def decode_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker | None:
    """Return the marker in a control record, or None for a control record of another type, which has to be skipped.

    Newer versions are read as this one, to which they may only add. Raises CORRUPT_MESSAGE if bytes are missing.
    """
    kind = _unpack(_KEY, key, "key")[1]
    if kind not in (_ABORT, _COMMIT):
        return None
    return EndTransactionMarker(kind == _COMMIT, _unpack(_VALUE, value, "value")[1])


def seal_marker(producer_id: int, producer_epoch: int, marker: EndTransactionMarker, timestamp_ms: int) -> bytes:
    """Return the batch that ends the producer's transaction in one partition."""
    return seal_control(
        *encode_marker(marker),
        timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL,
    )


def marker_of(batch: Buffer) -> EndTransactionMarker | None:
    """Return the marker that one whole batch carries, or None for every other batch. Raises what `decode_marker`
    raises."""
    record = control_record(batch)
    return None if record is None else decode_marker(*record)


def _unpack(layout: struct.Struct, data: bytes | None, name: str) -> tuple[int, int]:
    try:
        version, field = layout.unpack_from(data or b"")
    except struct.error:
        raise corrupt(f"the {name} of a control record has {len(data or b'')} bytes of {layout.size}") from None
    if version < 0:
        raise corrupt(f"the {name} of a control record has version {version}")
    return version, field
