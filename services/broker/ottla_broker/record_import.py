"""Importing into a partition: batches of another cluster's log, at the offsets that they have there (ADR 0018)."""

from __future__ import annotations

import asyncio

from ottla_broker.replication.leader_role import ACKS_ALL
from ottla_broker.replication.produce import ReplicaAppend, check_client_may_write
from ottla_broker.replication.replica import Replica
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import iter_headers, read_header


async def import_records(
    replica: Replica, expected_offset: int, records: bytes, log_start_offset: int, *, timeout_s: float
) -> int:
    """The offset after the batches, once they are below the high watermark; the log begins at `log_start_offset` then.

    Whole batches go in together, or none, but where offsets jump so far that one segment can't hold all: then the first
    of them. What is there already is not appended again. Raises what `check_client_may_write`, `PendingBytes.take`,
    `Replica.check_imported` and `Replica.append_imported` raise: then nothing was appended. Raises what
    `Replica.committed` raises, and REQUEST_TIMED_OUT: then it is not known.
    """
    check_client_may_write(replica.topic)
    replica.pending_bytes.take(len(records))
    try:
        async with asyncio.timeout(timeout_s):
            await replica.check_imported(records)
            if await _has_batch(replica, records):
                next_offset = min(replica.log.log_end_offset, max(h.next_offset for _, h in iter_headers(records)))
                await replica.committed(next_offset, replica.leadership)
            else:
                appended = replica.append_imported(records, expected_offset)
                next_offset = appended.last_offset + 1
                await ReplicaAppend(replica, appended, ACKS_ALL, replica.leadership).acknowledged()
    except TimeoutError:
        text = f"{replica} has not replicated what is imported after offset {expected_offset}"
        raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, text, hint="send the same batches again") from None
    finally:
        replica.pending_bytes.give_back(len(records))
    if log_start_offset > replica.log.log_start_offset:
        replica.begin_at(log_start_offset)
    return next_offset


async def _has_batch(replica: Replica, records: bytes) -> bool:
    """Whether the first of the batches lies at its offset already."""
    log, first = replica.log, read_header(records)
    if not log.log_start_offset <= first.base_offset < log.log_end_offset:
        return False
    stored = await replica.first_header_from(first.base_offset)
    return (stored.base_offset, stored.crc) == (first.base_offset, first.crc)
