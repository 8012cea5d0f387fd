"""The rules that a cleaner's worker keeps, broken on purpose; those of the broker are in `mutants`."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from tests.faults.put_in_place import put_in_place

from ottla_broker.storage.disk import DataFile


def _cleaned_files_not_synced() -> None:
    """A cleaned segment takes the place of its sources while it lies in the page cache alone."""
    put_in_place(DataFile, "sync", lambda self: None)


WORKER_MUTANTS: Final = MappingProxyType[str, Callable[[], None]](
    {"cleaned-files-not-synced": _cleaned_files_not_synced}
)
