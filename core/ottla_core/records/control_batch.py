"""A control batch has one record, which is for brokers and coordinators and is never shown to a user.

The pure twin builds it and reads it. The compiled twin is no faster for one record, and its first import would hold up
a broker's event loop for 0.2 s.
"""

from __future__ import annotations

from typing import Final

from ottla_core.records.batch import CONTROL, NO_PRODUCER_ID, Buffer, read_header
from ottla_core.records.pure import PureBuilder
from ottla_core.records.reader import read_records

_SIZE_LIMIT: Final = 1 << 10


def seal_control(
    key: bytes,
    value: bytes,
    timestamp_ms: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    attributes: int = 0,
) -> bytes:
    """Return a control batch. `attributes` are those that it has besides CONTROL."""
    builder = PureBuilder(_SIZE_LIMIT)
    builder.append(timestamp_ms, key, value)
    return builder.seal(producer_id=producer_id, producer_epoch=producer_epoch, attributes=CONTROL | attributes)


def control_record(batch: Buffer) -> tuple[bytes | None, bytes | None] | None:
    """Return the key and the value of the only record of a control batch, or None for every other batch.

    `batch` is exactly one batch. Raises what `read_records` raises.
    """
    header = read_header(batch)
    if not header.is_control or header.record_count != 1:
        return None
    ((_, _, key, value, _),) = read_records(batch, pure=True)
    return key, value
