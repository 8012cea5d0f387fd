"""What a unit of work raises to abort a transaction."""

from __future__ import annotations


class AbortedError(Exception):
    """Raised in a transaction's block to abort it."""
