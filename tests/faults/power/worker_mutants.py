"""The rules that a cleaner's worker keeps, broken on purpose; those of the broker are in `mutants`."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from tests.faults.put_in_place import put_in_place

import ottla_broker.compaction.survivors
from ottla_broker.storage.files import DataFile
from ottla_core.records.batch import CODEC_MASK, BatchHeader, framed


def _cleaned_files_not_synced() -> None:
    """A cleaned segment takes the place of its sources while it lies in the page cache alone."""
    put_in_place(DataFile, "sync", lambda self: None)


def _survivors_stored_raw() -> None:
    """What compresses too well for its readers is stored as it is, whatever its size."""

    def raw(header: BatchHeader, records: list[bytes], *, divisible: bool) -> bytes:
        return framed(header._replace(attributes=header.attributes & ~CODEC_MASK), b"".join(records))

    put_in_place(ottla_broker.compaction.survivors, "sealed", raw)


WORKER_MUTANTS: Final = MappingProxyType[str, Callable[[], None]](
    {
        "cleaned-files-not-synced": _cleaned_files_not_synced,
        "survivors-stored-raw": _survivors_stored_raw,
    }
)
