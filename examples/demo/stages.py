"""The stages of a demo: each is announced when it begins, and timed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console


class Stages:
    """`seconds` has the time of each stage that has ended, by name."""

    def __init__(self, console: Console) -> None:
        self.seconds: Final[dict[str, float]] = {}
        self._console: Final = console

    @contextmanager
    def stage(self, name: str, what: str) -> Iterator[None]:
        """Print `what` happens in the stage, and how many seconds it took."""
        began_at = time.monotonic()
        self._console.print(f"[bold]{name}[/bold]: {what} …")
        yield
        self.seconds[name] = round(time.monotonic() - began_at, 1)
        self._console.print(f"[bold]{name}[/bold]: done in {self.seconds[name]:.1f} s")
