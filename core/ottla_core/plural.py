"""Numbers with their nouns, for messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return "1 record" or "2,000 records"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
