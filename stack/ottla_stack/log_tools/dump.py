"""`ottla log dump`: what lies in a file of a log, item by item, as kafka-dump-log shows it.

An item has a `type`: batch, record, offset, time, producer, fence, epoch, entry, field, or damage, which is the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from json import JSONEncoder
from pathlib import Path
from typing import Any, Final

from ottla.cli.format import json_field
from ottla_broker.machines.producers import Producers
from ottla_broker.storage import checkpoint, producer_snapshot
from ottla_broker.storage.disk import DataFile
from ottla_broker.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ottla_broker.storage.log_dir import PARTITION_METADATA
from ottla_broker.storage.scan import headers
from ottla_broker.storage.segment import INDEX_SUFFIXES
from ottla_core.errors import OttlaError
from ottla_core.records.batch import DELETE_HORIZON, MAX_CODEC, BatchHeader
from ottla_core.records.compression import Codec
from ottla_core.records.control import decode_marker
from ottla_core.records.fence import fence_of
from ottla_core.records.reader import read_records
from ottla_stack.log_tools.damage import bytes_problem, read_entries, stored_crc
from ottla_stack.log_tools.log_files import SEGMENT_NAME, no_log_file, read_metadata

Item = Mapping[str, Any]

_SEQUENCES: Final = 1 << 31
_KAFKAS_NAMES: Final = {"codec": "compresscodec", "is_valid": "isvalid", "leader_epoch": "partitionLeaderEpoch"}
_encode: Final = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def items_of(path: Path, *, records: bool = False) -> Iterator[Item]:
    """What lies in the file. `records`: also those inside the batches; control records come in any case.

    Raises ConfigError for a file of another kind, ValueError for one that is torn.
    """
    if SEGMENT_NAME.fullmatch(path.name):
        return _batches(path, records=records)
    if path.suffix in INDEX_SUFFIXES:
        return _entries(path)
    if path.suffix == producer_snapshot.SUFFIX:
        return _producers(path)
    if path.name == PARTITION_METADATA:
        return ({"type": "field", name: value} for name, value in read_metadata(path.parent).items())
    if path.name.endswith("-checkpoint"):
        return _checkpoint(path)
    raise no_log_file(path)


def as_text(item: Item) -> str:
    """One line with Kafka's names."""
    prefix = "| " if item["type"] == "record" else ""
    return prefix + " ".join(f"{_label(name, item)}: {_text(value)}" for name, value in item.items() if _is_shown(name))


def _batches(path: Path, *, records: bool) -> Iterator[Item]:
    file, at = DataFile(path), 0
    end = file.size_bytes()
    for position, header in headers(file, 0, end):
        is_valid = stored_crc(file, position, header) == header.crc
        yield _batch(position, header, is_valid=is_valid)
        if is_valid and (records or header.is_control):
            yield from _records(file.read(position, header.size_bytes), header, position)
        at = position + header.size_bytes
    if at < end and (problem := bytes_problem(file, at, end)):
        yield {"type": "damage", "position": at, "problem": problem}


def _batch(position: int, header: BatchHeader, *, is_valid: bool) -> Item:
    has_horizon = bool(header.attributes & DELETE_HORIZON)
    return {
        "type": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "base_sequence": header.base_sequence,
        "last_sequence": _sequence(header, header.last_offset_delta),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "leader_epoch": header.leader_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.base_timestamp if has_horizon else None,
        "position": position,
        "timestamp_type": _timestamp_type(header),
        "base_timestamp": None if has_horizon else header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "size": header.size_bytes,
        "magic": header.magic,
        "codec": Codec(header.codec).label if header.codec <= MAX_CODEC else header.codec,
        "crc": header.crc,
        "is_valid": is_valid,
    }


def _records(batch: bytes, header: BatchHeader, position: int) -> Iterator[Item]:
    try:
        found = read_records(batch)
        control = fence_of(batch)
    except OttlaError as error:
        yield {"type": "damage", "position": position, "problem": error.message}
        return
    for offset, timestamp_ms, key, value, pairs in found:
        item = {
            "type": "record",
            "offset": offset,
            "timestamp_type": _timestamp_type(header),
            "timestamp": timestamp_ms,
            "key_size": -1 if key is None else len(key),
            "value_size": -1 if value is None else len(value),
            "sequence": _sequence(header, offset - header.base_offset),
        }
        if control is not None:
            yield {**item, "control": "SHARD_FENCE", "shard_epoch": control.epoch, "incarnation": control.incarnation}
        elif header.is_control:
            yield {**item, **_marker(key, value)}
        else:
            shown = [{"key": name, **json_field("value", data)} for name, data in pairs]
            yield {**item, "headers": shown, **json_field("key", key), **json_field("value", value)}


def _marker(key: bytes | None, value: bytes | None) -> Item:
    try:
        marker = decode_marker(key, value)
    except OttlaError as error:
        return {"control": "UNKNOWN", "problem": error.message}
    if marker is None:
        return {"control": "UNKNOWN", **json_field("key", key), **json_field("value", value)}
    return {"control": "COMMIT" if marker.committed else "ABORT", "coordinator_epoch": marker.coordinator_epoch}


def _sequence(header: BatchHeader, delta: int) -> int:
    return -1 if header.base_sequence < 0 else (header.base_sequence + delta) % _SEQUENCES


def _timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.has_log_append_time else "CreateTime"


def _entries(path: Path) -> Iterator[Item]:
    base_offset = int(path.stem) if path.stem.isdigit() else 0
    if path.suffix == INDEX_SUFFIXES[0]:
        for relative, position in read_entries(path, OFFSET_ENTRY):
            yield {"type": "offset", "offset": base_offset + relative, "position": position}
    else:
        for timestamp_ms, relative in read_entries(path, TIME_ENTRY):
            yield {"type": "time", "timestamp": timestamp_ms, "offset": base_offset + relative}


def _producers(path: Path) -> Iterator[Item]:
    entries, fence = producer_snapshot.decode(path.read_bytes())
    producers = Producers(entries)
    for producer_id in sorted(entries):
        state = producers.get(producer_id)
        assert state is not None, "it is one of them"
        last = state.batches[-1] if state.batches else None
        yield {
            "type": "producer",
            "producer_id": producer_id,
            "producer_epoch": state.epoch,
            "last_timestamp": state.seen_at_ms,
            "first_sequence": last.first_sequence if last else -1,
            "last_sequence": last.last_sequence if last else -1,
            "last_offset": state.last_offset,
            "batches": [batch._asdict() for batch in state.batches],
        }
    if fence.exists:
        yield {
            "type": "fence",
            "shard_epoch": fence.fence.epoch,
            "incarnation": fence.fence.incarnation,
            "offset": fence.offset,
        }


def _checkpoint(path: Path) -> Iterator[Item]:
    for fields in checkpoint.read_fields(path) or ():
        if path.name == checkpoint.LEADER_EPOCHS:
            epoch, start_offset = map(int, fields)
            yield {"type": "epoch", "epoch": epoch, "start_offset": start_offset}
        elif path.name == checkpoint.METADATA:
            restored, revision = map(int, fields)
            yield {"type": "entry", "restored": restored, "revision": revision}
        else:
            topic, partition, offset = fields
            yield {"type": "entry", "topic": topic, "partition": int(partition), "offset": int(offset)}


def _is_shown(name: str) -> bool:
    return name not in ("file", "type", "timestamp_type")


def _label(name: str, item: Item) -> str:
    if name in ("max_timestamp", "timestamp") and "timestamp_type" in item:
        return str(item["timestamp_type"])
    return _KAFKAS_NAMES.get(name) or re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def _text(value: object) -> str:
    """On one line, whatever is in a key or value."""
    return value if isinstance(value, str) and value.isprintable() else _encode(value)
