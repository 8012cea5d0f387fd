"""The items that `ottla log dump` shows for a batch and its records. Each can be written as one line with Kafka's
names.

An item has a `type`: batch, record, offset, time, aborted, producer, fence, epoch, entry, field, or damage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ottla_cli.format import json_field
from ottla_cli.json_text import encode_json
from ottla_core.errors import OttlaError
from ottla_core.records.batch import DELETE_HORIZON, MAX_CODEC, BatchHeader
from ottla_core.records.compression import Codec
from ottla_core.records.control import decode_marker
from ottla_core.records.fence import fence_of
from ottla_core.records.reader import read_records

Item = Mapping[str, Any]

_SEQUENCES: Final = 1 << 31
_KAFKAS_NAMES: Final = {"codec": "compresscodec", "is_valid": "isvalid", "leader_epoch": "partitionLeaderEpoch"}


def batch_item(position: int, header: BatchHeader, *, is_valid: bool) -> Item:
    """Return the fields of a batch, its position, and whether its CRC matches its bytes."""
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


def record_items(batch: bytes, header: BatchHeader, position: int) -> Iterator[Item]:
    """Yield the records of a batch, control records with their names, or a damage if they can't be read."""
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


def as_text(item: Item) -> str:
    """Return an item as one line with Kafka's names."""
    prefix = "| " if item["type"] == "record" else ""
    return prefix + " ".join(f"{_label(name, item)}: {_text(value)}" for name, value in item.items() if _is_shown(name))


def _is_shown(name: str) -> bool:
    return name not in ("file", "type", "timestamp_type")


def _label(name: str, item: Item) -> str:
    if name in ("max_timestamp", "timestamp") and "timestamp_type" in item:
        return str(item["timestamp_type"])
    return _KAFKAS_NAMES.get(name) or re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def _text(value: object) -> str:
    """Return a value as text on one line, whatever is in a key or value."""
    return value if isinstance(value, str) and value.isprintable() else encode_json(value)
