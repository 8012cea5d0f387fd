"""Importing into a partition: batches of another cluster's log, at the offsets that they have there (ADR 0018)."""

from __future__ import annotations

import asyncio

from ottla_broker.replication.leading import ACKS_ALL
from ottla_broker.replication.produce import ReplicaAppend, check_client_may_write
from ottla_broker.replication.replica import Replica
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import iter_headers, read_header


async def import_records(
    replica: Replica, expected_offset: int, records: bytes, log_start_offset: int, *, timeout_s: float
) -> int:
    """Import batches, and return the offset after them once they are below the high watermark. The log then begins at
    `log_start_offset`.

    Whole batches go in together, or none. Only if offsets jump so far that one segment can't hold all, just the first
    of them go in. Batches that are there already are not appended again.

    Raises INVALID_REQUEST if the log would begin behind the first batch, and what `Replica.led_in`,
    `check_client_may_write`, `PendingBytes.take`, `DiskLog.check_imported` and `Leading.append_imported` raise. Then
    nothing was appended. Raises what `Leading.committed` raises, and REQUEST_TIMED_OUT, which leave the outcome open.
    """
    replica.led_in(None)
    check_client_may_write(replica.topic)
    if log_start_offset > read_header(records).base_offset:
        text = f"the log can't begin at {log_start_offset}, after the start of the first batch"
        raise OttlaError(ErrorCode.INVALID_REQUEST, text)
    replica.pending_bytes.take(len(records))
    try:
        async with asyncio.timeout(timeout_s):
            await replica.disk.check_imported(records)
            repeated, at = await _repeated(replica, records)
            leading = replica.led_in(None)
            if at < len(records):
                appended = leading.append_imported(records[at:], repeated or expected_offset)
                next_offset = appended.last_offset + 1
                await ReplicaAppend(leading, appended, ACKS_ALL).acknowledged()
            else:
                next_offset = repeated
                await leading.committed(next_offset)
    except TimeoutError:
        text = f"{replica} has not replicated the batches imported from offset {expected_offset} on"
        raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, text, hint="send the same batches again") from None
    finally:
        replica.pending_bytes.give_back(len(records))
    if log_start_offset > replica.log.log_start_offset:
        replica.led_in(None).begin_at(log_start_offset)
    return next_offset


async def _repeated(replica: Replica, records: bytes) -> tuple[int, int]:
    """Find the leading batches that are in the log already. Return the offset after them and their bytes, or 0, 0.

    A former leader may have appended a part of them, or the source log has grown since it was imported.
    """
    log, first = replica.log, read_header(records).base_offset
    if not log.log_start_offset <= first < log.log_end_offset:
        return 0, 0
    next_offset = at = 0
    stored = await replica.disk.read_back(first, len(records))
    for (position, header), (_, own) in zip(iter_headers(records), iter_headers(stored), strict=False):
        if (own.base_offset, own.crc) != (header.base_offset, header.crc):
            break
        next_offset, at = header.next_offset, position + header.size_bytes
    return next_offset, at
