"""A seed may shrink the product's limits of bytes, so that small batches reach them. All are divided by one number.

What a large batch does to gRPC's messages, and a well compressed one to a clean, would otherwise take tens of
megabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from tests.faults.put_in_place import put_in_place

from ottla_core.records import compression

_CONSTANTS: Final = MappingProxyType(
    {
        "MAX_BATCH_BYTES": (
            "ottla_broker.compaction.sealing",
            "ottla_broker.replication.replication_config",
            "ottla_broker.replication.topic_config",
            "ottla_broker.storage.reading",
        ),
        "MAX_MESSAGE_BYTES": ("ottla_core.rpc.status",),
        "MAX_RESPONSE_BYTES": ("ottla_core.rpc.served_calls", "ottla_core.rpc.streams"),
        "_MAX_CALL_BYTES": ("ottla_core.rpc.call_stream",),
        "_PIECE_BYTES": ("ottla_broker.compaction.sealing",),
    }
)
"""Each constant is in these modules."""
_OPTIONS: Final = ("SHARED_CHANNEL_OPTIONS", "CHANNEL_OPTIONS", "SERVER_OPTIONS")
_IMPORT_OUTPUT_LIMIT: Final = (
    "ottla_broker.compaction.sealing",
    "ottla_core.records.builder",
    "ottla_core.records.compression",
)
_FETCH_BYTES: Final = 1 << 20
_FETCH_RESPONSE_BYTES: Final = 10 << 20


def shrink(by: int) -> None:
    """Divide the limits of batches, of gRPC's messages, and of what a batch may decompress to."""
    for name, modules in _CONSTANTS.items():
        for module in map(import_module, modules):
            put_in_place(module, name, getattr(module, name) // by)
    status = import_module("ottla_core.rpc.status")
    for name in _OPTIONS:
        put_in_place(status, name, _shrunk(getattr(status, name), by))
    output_limit = compression.output_limit

    def shrunk_output_limit(input_bytes: int) -> int:
        return output_limit(input_bytes * by) // by

    for module in map(import_module, _IMPORT_OUTPUT_LIMIT):
        put_in_place(module, "output_limit", shrunk_output_limit)


def cluster_configs(by: int) -> dict[str, str]:
    """Return the configs of a cluster in which followers fetch no more than fits into a message."""
    return {
        "replica.fetch.max.bytes": str(_FETCH_BYTES // by),
        "replica.fetch.response.max.bytes": str(_FETCH_RESPONSE_BYTES // by),
    }


def _shrunk(options: Sequence[tuple[str, Any]], by: int) -> Sequence[tuple[str, Any]]:
    return tuple((name, value // by if name.endswith("_message_length") else value) for name, value in options)
