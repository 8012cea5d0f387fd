"""The live table: delays by origin, as the job's windows arrive in a topic, read by a group of consumers."""

from __future__ import annotations

import json
from collections import defaultdict
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

from examples.demo.producing import DELAYS
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import Progress
from rich.table import Table

import ottla

GROUP: Final = "delays-table"
READERS: Final = 2


class LiveTable:
    """`with LiveTable(bootstrap, console, progress) as table:` shows it, below `progress`, until the block ends."""

    def __init__(self, bootstrap: str, console: Console, progress: Progress) -> None:
        self._progress: Final = progress
        self._rows: Final[dict[str, dict[str, Any]]] = {}
        self._live: Final = Live(get_renderable=self._shown, console=console, refresh_per_second=4)
        self._consumers: Final = [
            ottla.Consumer(
                DELAYS, bootstrap=bootstrap, group=GROUP, auto_offset_reset="earliest", key="str", value="bytes"
            )
            for _ in range(READERS)
        ]
        self._threads: Final = [
            Thread(target=self._read, args=(consumer,), daemon=True) for consumer in self._consumers
        ]

    def __enter__(self) -> Self:
        self._live.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for consumer in self._consumers:
            consumer.wakeup()
        for thread in self._threads:
            thread.join()
        self._live.stop()
        if not self._live.console.is_terminal:
            self._live.console.line()  # the last table has no end of its own there

    def flights(self) -> int:
        """Return the number of flights in the windows so far; a window that came twice counts once."""
        return sum(row["flights"] for row in list(self._rows.values()))

    def _read(self, consumer: ottla.Consumer[str, bytes]) -> None:
        with consumer:
            try:
                while True:
                    for record in consumer.poll(1.0):
                        self._rows[record.key or ""] = json.loads(record.value or b"{}")
            except ottla.WakeupError:
                pass

    def _shown(self) -> RenderableType:
        table = Table("origin", "until", "flights", "cancelled", "mean departure delay", title="New York, 2013")
        by_origin: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in list(self._rows.values()):
            by_origin[row["origin"]].append(row)
        for origin, rows in sorted(by_origin.items()):
            flights, cancelled = (sum(row[name] for row in rows) for name in ("flights", "cancelled"))
            flown = sum(row["departed"] for row in rows)
            minutes = sum(row.get("delay_minutes", 0) for row in rows)
            mean = f"{minutes / flown:.1f} min" if flown else ""
            table.add_row(origin, max(row["hour"] for row in rows), f"{flights:,}", f"{cancelled:,}", mean)
        return Group(self._progress, table)
