"""Room for what a response reads: how much of the memory that responses share one of them may take."""

from __future__ import annotations

from typing import Final, Protocol


class ResponseRoom(Protocol):
    """Lends memory to a response until it has been sent; the sender gives it back."""

    def lend(self, requested_bytes: int) -> int:
        """Up to this many bytes, as far as there is room; how many they are."""
        ...

    def give_back(self, size_bytes: int) -> None:
        """This many fewer are used, or more where it is negative: a first batch comes whole."""
        ...


class _Unbounded:
    def lend(self, requested_bytes: int) -> int:
        return requested_bytes

    def give_back(self, size_bytes: int) -> None: ...


UNBOUNDED: Final[ResponseRoom] = _Unbounded()
"""For responses that are counted elsewhere, or not at all."""
