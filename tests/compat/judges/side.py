"""One of the two sides that a story is lived on, as the comparison sees it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Raised(NamedTuple):
    """What a call ended with instead of a value."""

    kind: str
    """One word for both sides."""


class Side(Protocol):
    """Consumers of one client, or queries of one source, by name. Each story has a fresh side."""

    def call(self, who: str, what: str, **arguments: Any) -> Any:
        """Return what the call gives, as JSON has it, or Raised."""

    def close(self) -> None:
        """Close what a story has left open."""
