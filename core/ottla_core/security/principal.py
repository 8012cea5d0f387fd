"""The principals of clients, as Kafka spells them: a type, a colon and a name."""

from __future__ import annotations

from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"
"""Kafka's principal for a client that has not logged in."""


class NoPrincipalError(Exception):
    """A client's certificate names no principal. The text tells the operator why."""


def of_user(name: str) -> str:
    """Return the principal of the user who has logged in under this name."""
    return f"User:{name}"
