"""Markers of transactions that stay where they are for as long as a file is there: at their leader, or unsent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.faults.put_in_place import put_in_place

from ottla_broker.replication.following import Following
from ottla_core.model import INTERNAL_TOPICS
from ottla_core.records.batch import iter_headers
from ottla_txn_coordinator.marker_calls import MarkerCalls

_LOOK_S = 0.02


def hold_markers(file: Path) -> None:
    """What comes before a marker is copied; the marker, and what comes after it, is not."""
    on_fetched = Following.on_fetched

    def without_markers(self: Any, offset: int, response: Any) -> None:
        if file.exists() and self._disk.topic not in INTERNAL_TOPICS:
            end = next((at for at, header in iter_headers(response.records) if header.is_control), None)
            response = response._replace(records=response.records[:end])
        on_fetched(self, offset, response)

    put_in_place(Following, "on_fetched", without_markers)


def hold_marker_calls(file: Path) -> None:
    """Transactions are decided and answered; the groups' markers are sent, those of leaders are not."""
    write, is_there = MarkerCalls.write, file.exists

    async def held(self: Any, destination: Any, markers: Any) -> Any:
        while is_there() and not destination.of_groups:
            await asyncio.sleep(_LOOK_S)
        return await write(self, destination, markers)

    put_in_place(MarkerCalls, "write", held)
