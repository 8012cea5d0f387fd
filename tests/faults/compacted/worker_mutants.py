"""The rules of compaction that a worker keeps, broken on purpose; those of the broker are in `mutants`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tests.faults.put_in_place import put_in_place

import ottla_broker.compaction.survivors
from ottla_broker.compaction.sealing import sealed
from ottla_broker.compaction.survivors import Survival, Survivors, emptied
from ottla_broker.compaction.transactions import CleanedTransactions
from ottla_broker.storage.log_config import MAX_INT64
from ottla_core.records.batch import NO_PRODUCER_ID, BatchHeader
from ottla_core.records.varint import decode_varint, encode_varint


def _tombstone_lives_from_append() -> None:
    """Its delete.retention.ms counts from when it was written."""
    with_horizon = Survival._with_horizon

    def from_append(self: Survival, header: BatchHeader, kept: list[bytes]) -> BatchHeader:
        return with_horizon(replace(self, now_ms=header.max_timestamp), header, kept)

    put_in_place(Survival, "_with_horizon", from_append)


def _fence_record_dropped() -> None:
    """The newest fence goes like those before it."""
    of = Survival.of

    def without_fences(self: Survival, header: BatchHeader, batch: bytes) -> Survivors:
        return of(replace(self, newest_fence=MAX_INT64), header, batch)

    put_in_place(Survival, "of", without_fences)


def _offsets_renumbered() -> None:
    """The records that are left of a batch follow one another."""

    def renumbered(header: BatchHeader, records: list[bytes], *, divisible: bool) -> bytes:
        return sealed(header, [_with_delta(record, n) for n, record in enumerate(records)], divisible=divisible)

    put_in_place(ottla_broker.compaction.survivors, "sealed", renumbered)


def _with_delta(record: bytes, delta: int) -> bytes:
    _, start = decode_varint(record, 0)
    _, before = decode_varint(record, start + 1)
    _, after = decode_varint(record, before)
    body = record[start:before] + encode_varint(delta) + record[after:]
    return encode_varint(len(body)) + body


def _aborted_records_supersede() -> None:
    """Whether a record became true is asked by no one."""
    put_in_place(CleanedTransactions, "are_void", lambda self, header: False)


def _marker_dropped_before_its_records() -> None:
    """As if nothing of its transaction were left, and its time were over."""
    of_control = Survival._of_control

    def without_markers(self: Survival, header: BatchHeader, batch: bytes) -> Survivors:
        return of_control(self, header, batch) if header.producer_id == NO_PRODUCER_ID else emptied(header)

    put_in_place(Survival, "_of_control", without_markers)


WORKER_MUTANTS: Final = MappingProxyType[str, Callable[[], None]](
    {
        "tombstone-lives-from-append": _tombstone_lives_from_append,
        "fence-record-dropped": _fence_record_dropped,
        "offsets-renumbered": _offsets_renumbered,
        "aborted-records-supersede": _aborted_records_supersede,
        "marker-dropped-before-its-records": _marker_dropped_before_its_records,
    }
)
