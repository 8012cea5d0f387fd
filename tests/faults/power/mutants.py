"""The rules at the seams of log, cleaner, elections and transactions, broken on purpose in brokers."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from tests.faults.put_in_place import put_in_place

from ottla_broker.storage import soundness


def _boot_not_looked_at() -> None:
    """A broker whose machine went down counts as one that has everything."""
    put_in_place(soundness, "boot_id", lambda: "always")


MUTANTS: Final = MappingProxyType[str, Callable[[], None]](
    {
        "none": lambda: None,
        "boot-not-looked-at": _boot_not_looked_at,
        "cleaned-files-not-synced": lambda: None,  # in the worker
    }
)
