"""Room for responses: how much of the memory that responses share one of them may take."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol


class ResponseRoom(Protocol):
    """Lends memory to a response until it has been sent; the sender gives it back."""

    def lend(self, requested_bytes: int) -> int:
        """Lend up to this many bytes, as far as there is room. Return how many."""
        ...

    def give_back(self, size_bytes: int) -> None:
        """Give back this many bytes. If the number is negative, take more, as for a first batch that is sent whole."""
        ...


class ConnectionRoom(ResponseRoom, Protocol):
    """The memory of one connection."""

    def pend(self, size_bytes: int, until: asyncio.Future[Any]) -> None:
        """Hold these bytes of a request until the future is done, and let no other request begin before."""
        ...


class _Unbounded:
    def lend(self, requested_bytes: int) -> int:
        return requested_bytes

    def give_back(self, size_bytes: int) -> None: ...

    def pend(self, size_bytes: int, until: asyncio.Future[Any]) -> None: ...


UNBOUNDED: Final[ConnectionRoom] = _Unbounded()
"""Room for responses that are counted elsewhere, or not at all."""
