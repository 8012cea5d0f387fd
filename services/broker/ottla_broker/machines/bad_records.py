"""The records for which a batch is rejected, by their place in it (KIP-467). The client may send the others again.

A check of records raises `BadRecordsError`. The adapters report it to the client beside the error of the partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla_core.errors import OttlaError

MOST_NAMED: Final = 1_000
"""The limit for one batch, because a response is bounded. A client that sends the rest again learns of the next
ones."""


class BadRecord(NamedTuple):
    """`number` counts the records of the batch from 0. `reason` is a whole clause, without the topic's name."""

    number: int
    reason: str


class BadRecordsError(OttlaError):
    """A batch is rejected as a whole. `records` are those at fault: all of them, or the first `MOST_NAMED`."""

    def __init__(self, code: int, message: str, records: Sequence[BadRecord], *, hint: str = "") -> None:
        super().__init__(code, message, hint=hint)
        self.records: Final = records
