"""A story is lived on two sides, and the comparison sees both through this protocol."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Raised(NamedTuple):
    """A call has raised an error instead of giving a value."""

    kind: str
    """The kind of error, named alike for both sides."""


class Side(Protocol):
    """Consumers of one client, or queries of one source, by name. Each story has a fresh side."""

    def call(self, who: str, what: str, **arguments: Any) -> Any:
        """Return what the call gives, as JSON has it, or Raised."""

    def close(self) -> None:
        """Close what a story has left open."""
