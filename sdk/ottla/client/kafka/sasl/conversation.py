"""What a login needs of a mechanism of SASL."""

from __future__ import annotations

from typing import Protocol

from ottla.errors import ErrorCode, OttlaError


class Conversation(Protocol):
    """One login by one mechanism. It is used once, because it may contain a nonce or a token that expires."""

    @property
    def mechanism(self) -> str:
        """Kafka's name for the mechanism."""
        ...

    def first(self) -> bytes:
        """Return the first message to the broker."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the next message to the broker, or None if its last message has completed the login.

        Raises OttlaError if the broker's message is not as it has to be.
        """
        ...

    def redacted(self, text: str) -> str:
        """Return the broker's text without the credentials, in case it repeats them."""
        ...


def not_authenticated(reason: str, *, hint: str = "") -> OttlaError:
    """Return the error for a login that has failed. `reason` is a clause."""
    return OttlaError(ErrorCode.SASL_AUTHENTICATION_FAILED, reason, hint=hint)
