"""Stands for the parked fetch of a session, and counts what it is told."""

from __future__ import annotations


class Counting:
    def __init__(self) -> None:
        self.woken, self.size_bytes, self.closed = 0, 0, False

    def on_bytes(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes

    def wake(self) -> None:
        self.woken += 1

    def close(self) -> None:
        self.closed = True
