"""Room for responses: how much of the memory that responses share one of them may take."""

from __future__ import annotations

from typing import Final, Protocol


class ResponseRoom(Protocol):
    """Lends memory to a response until it has been sent; the sender gives it back."""

    def lend(self, requested_bytes: int) -> int:
        """Lend up to this many bytes, as far as there is room. Return how many."""
        ...

    def give_back(self, size_bytes: int) -> None:
        """Give back this many bytes. If the number is negative, take more, as for a first batch that is sent whole."""
        ...


class _Unbounded:
    def lend(self, requested_bytes: int) -> int:
        return requested_bytes

    def give_back(self, size_bytes: int) -> None: ...


UNBOUNDED: Final[ResponseRoom] = _Unbounded()
"""Room for responses that are counted elsewhere, or not at all."""
