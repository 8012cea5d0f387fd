"""Checks a client's and a leader's batches before they are written. Pure: it changes nothing and may raise.

What a client sends is checked to its last byte: headers, the CRC, and all records (rule 64, docs/rules.md; ADR 0040).
A follower checks headers and CRCs, because its leader has walked the records.
"""

from __future__ import annotations

from enum import Enum
from itertools import islice
from typing import NamedTuple

from ottla_broker.machines.bad_records import MOST_NAMED, BadRecord, BadRecordsError
from ottla_broker.storage.log_config import MAX_INT32, LogConfig, TimestampType
from ottla_broker.storage.recompression import new_compression, recompressed
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    check_batch,
    check_size,
    check_stored,
    corrupt,
    iter_headers,
    read_header,
)
from ottla_core.records.compression import Codec, has_linked_blocks
from ottla_core.records.reader import read_records
from ottla_core.records.walk import PIECE_BYTES, SlowWalkError, walk

_WALKED_BYTES = 64 << 10
"""Size up to which the records of a rejected batch are read, to name the bad ones: about a millisecond."""
_QUICK_COMPRESSED_BYTES = 16 << 10
"""The compressed size from which on a batch is expected to become too large for a quick walk."""
_QUICK_RECOMPRESSED_BYTES = 4 << 10
"""The size up to which a quick walk recompresses a batch. This takes a tenth of a millisecond, or a millisecond at the
highest levels."""
_LAST_OFFSET = 1 << 62
"""Offsets below this leave room in 64 bits for all that is produced after an import."""
MOST_IMPORTED_BATCHES = 1000
"""How many batches are imported at once. They take some ten milliseconds of the loop."""
_BROKERS_BITS = CONTROL | DELETE_HORIZON | LOG_APPEND_TIME


class Walk(Enum):
    """How the records of batches are walked before the append, and recompressed if their topic has another codec."""

    WHOLE = "whole"
    """However long it takes."""
    QUICK = "quick"
    """If it takes a few milliseconds, or else SlowWalkError is raised."""
    DONE = "done"
    """Not at all, because they were walked before."""


class Appendable(NamedTuple):
    """At least one batch that may be appended as it is, and the header of each."""

    records: Buffer
    headers: list[BatchHeader]


def check_appendable(
    records: Buffer, config: LogConfig, now_ms: int, *, walk: Walk = Walk.WHOLE, transactional: bool = False
) -> Appendable:
    """Return the batches in `records` in the codec of their topic, if it has one.

    With `transactional`, transactional batches are taken, because the producer's transactional id is known, and the
    partition is part of its transaction.

    Raises SlowWalkError, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP,
    INVALID_REQUEST, UNSUPPORTED_FOR_MESSAGE_FORMAT or UNSUPPORTED_COMPRESSION_TYPE.
    """
    if walk is Walk.QUICK and not _is_quickly_walked(records, config):
        raise SlowWalkError
    headers: list[BatchHeader] = []
    stored: list[Buffer] = []
    is_as_sent = True
    at = count = 0
    while at < len(records):
        header = check_batch(records, at, max_bytes=config.max_message_bytes)
        _check_admissible(header, transactional=transactional)
        batch = memoryview(records)[at : at + header.size_bytes]
        if has_linked_blocks(header.codec, batch[HEADER_SIZE:]):
            raise _linked_blocks()
        if config.timestamp_type is TimestampType.CREATE_TIME:
            _check_timestamps(header, batch, config, now_ms)
        at, count = at + header.size_bytes, count + header.record_count
        if walk is not Walk.DONE:
            plain = check_records(header, batch, config, quickly=walk is Walk.QUICK)
            compression = new_compression(header, config.compression)
            # If readers would refuse the result, the batch is kept as its producer sent it.
            if compression is not None and (anew := recompressed(header, plain, compression)) is not None:
                header, batch, is_as_sent = read_header(anew), memoryview(anew), False
                check_size(header, config.max_message_bytes)
        stored.append(batch)
        headers.append(header)
    if count > MAX_INT32:
        raise OttlaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{count} records don't fit into a segment, which has {MAX_INT32} offsets",
            hint="send fewer records at a time",
        )
    if not headers:
        raise OttlaError(ErrorCode.INVALID_RECORD, "the produce request has no batch for the partition")
    if len(headers) > 1:
        _check_transaction(headers)
    if not is_as_sent:
        records = b"".join(stored)
    # Unlike max.message.bytes, this bounds only what is stored, as in Kafka.
    if len(records) > config.segment_bytes:
        raise OttlaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{len(records)} bytes of batches don't fit into a segment of {config.segment_bytes} bytes",
            hint="send less data at a time, or raise the topic's segment.bytes",
        )
    return Appendable(records, headers)


def _check_transaction(headers: list[BatchHeader]) -> None:
    """Raise INVALID_RECORD unless all batches belong to the same transaction, or none does. The caller checks only for
    the first batch that its transaction is open."""
    kinds = {(h.producer_id, h.producer_epoch, h.is_transactional) for h in headers}
    if len(kinds) > 1 and any(is_transactional for _, _, is_transactional in kinds):
        raise OttlaError(
            ErrorCode.INVALID_RECORD,
            "a transactional batch was sent together with a batch that has another producer or epoch, or that is not "
            "transactional",
            hint="send the batches one by one",
        )


def check_records(header: BatchHeader, batch: Buffer, config: LogConfig, *, quickly: bool = False) -> Buffer:
    """Walk the records of a batch that `check_batch` has checked, require keys if the topic is compacted, and return
    the decompressed records.

    Compaction keeps the newest record of each key, so it could neither keep nor remember a record without one.

    Raises INVALID_RECORD, and SlowWalkError if it is to be done `quickly` and may take long.
    """
    try:
        records, keyless = walk(header, batch, keys=config.compacts, quickly=quickly)
    except OttlaError as damage:
        raise OttlaError(
            ErrorCode.INVALID_RECORD,
            f"{damage.message}; no batch of the request was written to this partition",
            hint="the CRC is right, so the client wrote the batch like this: report it to whoever maintains the client",
        ) from None
    if keyless:
        raise _without_keys(keyless[:MOST_NAMED])
    return records


def _is_quickly_walked(records: Buffer, config: LogConfig) -> bool:
    """Return whether there is one batch, which is small, or none. A compressed one may still turn out to be large."""
    if len(records) < HEADER_SIZE:
        return True
    header = read_header(records)
    if new_compression(header, config.compression) is not None:
        limit = _QUICK_RECOMPRESSED_BYTES
    else:
        limit = PIECE_BYTES + HEADER_SIZE if header.codec == Codec.NONE else _QUICK_COMPRESSED_BYTES
    return len(records) <= min(limit, header.size_bytes)


def check_replicated(
    records: bytes, log_end_offset: int, latest_epoch: int, *, may_overlap: bool = False
) -> list[BatchHeader]:
    """Return the headers of the leader's leading batches that fit into one segment from the log's end on. Those are all
    of them, unless offsets jump far.

    Their offsets begin at the log's end, or after it if compaction left a gap, and only grow. So do their epochs, from
    the log's newest one on. If they `may_overlap`, the log's end may lie within the first batch. Raises
    OFFSET_OUT_OF_RANGE if the offsets go back behind the log's end otherwise, and what `check_stored` raises,
    CORRUPT_MESSAGE above all.
    """
    headers: list[BatchHeader] = []
    at, next_offset, epoch = 0, log_end_offset, latest_epoch
    if may_overlap and (first := check_stored(records, 0)).base_offset < log_end_offset <= first.last_offset:
        next_offset = log_end_offset = first.base_offset
    while at < len(records):
        header = check_stored(records, at)
        if header.base_offset < next_offset:
            if not headers:
                raise OttlaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"the leader's batch begins at offset {header.base_offset}, but this replica's log ends at "
                    f"{next_offset}",
                    hint="fetch from the end of this replica's log",
                )
            raise corrupt(f"a batch at offset {header.base_offset} follows one that ends at {next_offset - 1}")
        if header.leader_epoch < epoch:
            raise corrupt(f"a batch of leader epoch {header.leader_epoch} comes after epoch {epoch}")
        if headers and header.last_offset - log_end_offset > MAX_INT32:
            break
        headers.append(header)
        at, next_offset, epoch = at + header.size_bytes, header.next_offset, header.leader_epoch
    if not headers:
        raise corrupt("a leader's answer without a batch")
    return headers


def check_imported(records: Buffer, config: LogConfig) -> None:
    """Raise INVALID_RECORD for batches of another cluster's log that would mean something else in this one.

    The ids and sequences of its producers would be those of other producers here, and its transactions are unknown.
    What `check_replicated` checks is not checked here. Raises RECORD_LIST_TOO_LARGE for too many batches, because an
    append does not yield.
    """
    for number, (at, header) in enumerate(iter_headers(records)):
        if number == MOST_IMPORTED_BATCHES:
            raise OttlaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the request has more than {MOST_IMPORTED_BATCHES} batches",
                hint="import the batches in several requests",
            )
        if header.next_offset > _LAST_OFFSET:
            raise OttlaError(
                ErrorCode.INVALID_RECORD,
                f"a batch ends at offset {header.next_offset}, which is too close to the largest possible offset",
                hint="have a client copy the topic, which gives its records new offsets",
            )
        if header.is_control or header.is_transactional or header.producer_id != NO_PRODUCER_ID:
            raise OttlaError(
                ErrorCode.INVALID_RECORD,
                f"the batch at offset {header.base_offset} has attributes {header.attributes:#06x} and producer "
                f"{header.producer_id}: transactions and producers from another cluster have no meaning in this one",
                hint="import it with `ottla log import`, which removes them",
            )
        if config.compacts:
            check_records(header, memoryview(records)[at : at + header.size_bytes], config)


def _check_admissible(header: BatchHeader, *, transactional: bool) -> None:
    if header.attributes & _BROKERS_BITS:
        raise OttlaError(
            ErrorCode.INVALID_RECORD,
            f"a client's batch has attributes {header.attributes:#06x}: only brokers may write control batches, delete "
            "horizons and append times",
        )
    if header.attributes & TRANSACTIONAL and not transactional:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            "a transactional batch was sent in a request without a transactional id",
            hint="set a transactional.id, or produce without transactions",
        )
    if header.attributes & TRANSACTIONAL and header.producer_id == NO_PRODUCER_ID:
        raise OttlaError(ErrorCode.INVALID_RECORD, "a transactional batch has no producer id")
    producer = (header.producer_id, header.producer_epoch, header.base_sequence)
    if min(producer) < 0 and header.producer_id != NO_PRODUCER_ID:
        raise OttlaError(
            ErrorCode.INVALID_RECORD,
            f"a batch of producer {header.producer_id} has epoch {header.producer_epoch} and sequence "
            f"{header.base_sequence}, but none of these may be negative in a batch with a producer id",
        )


def _linked_blocks() -> OttlaError:
    """Return the error with which Kafka's brokers reject such a batch, because they decompress what they take."""
    return OttlaError(
        ErrorCode.INVALID_RECORD,
        "a batch is compressed with lz4 in linked blocks, which Java clients can't read",
        hint="have the client write independent blocks, or choose another codec",
    )


def _without_keys(bad: list[int]) -> BadRecordsError:
    return BadRecordsError(
        ErrorCode.INVALID_RECORD,
        f"the topic is compacted, but record {bad[0]} of a batch has no key{_and_the_rest(bad)}; the whole batch "
        "was rejected",
        [BadRecord(number, "the topic is compacted, but the record has no key") for number in bad],
        hint="give every record a key, or set cleanup.policy=delete on the topic",
    )


def _and_the_rest(bad: list[int]) -> str:
    """Say in words how many others there are beside the first."""
    rest = len(bad) - 1
    return f" ({rest}{' or more' if len(bad) == MOST_NAMED else ''} others neither)" if rest else ""


def _check_timestamps(header: BatchHeader, batch: memoryview, config: LogConfig, now_ms: int) -> None:
    """Check the two timestamps in the header against the bounds of KIP-937; -1 stands for none. The error names the
    records that break them if they are found quickly."""
    earliest, latest = now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms
    first, largest = header.base_timestamp, header.max_timestamp
    if not -1 <= first <= largest:
        raise OttlaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"a batch has base timestamp {first} and max timestamp {largest}, which contradict each other or are "
            "negative",
            hint="timestamps are milliseconds since 1970, or -1 for none",
        )
    if largest > latest:
        raise BadRecordsError(
            ErrorCode.INVALID_TIMESTAMP,
            f"the timestamp {largest} is {largest - now_ms} ms ahead of the broker's clock",
            _out_of_time(header, batch, earliest, latest),
            hint=f"correct the client's clock, or raise message.timestamp.after.max.ms={config.timestamp_after_max_ms}",
        )
    if 0 <= first < earliest:
        raise BadRecordsError(
            ErrorCode.INVALID_TIMESTAMP,
            f"the timestamp {first} is {now_ms - first} ms behind the broker's clock",
            _out_of_time(header, batch, earliest, latest),
            hint=f"raise message.timestamp.before.max.ms={config.timestamp_before_max_ms}",
        )


def _out_of_time(header: BatchHeader, batch: memoryview, earliest: int, latest: int) -> list[BadRecord]:
    """Return the records whose timestamps are out of bounds, or none for a batch that is large or compressed."""
    if header.codec != Codec.NONE or header.size_bytes > _WALKED_BYTES:
        return []
    try:
        times = enumerate(timestamp for _, timestamp, *_ in read_records(batch))
    except OttlaError:  # it is rejected in any case
        return []
    bad = (number for number, timestamp in times if timestamp > latest or 0 <= timestamp < earliest)
    return [BadRecord(number, "its timestamp is out of the topic's bounds") for number in islice(bad, MOST_NAMED)]
