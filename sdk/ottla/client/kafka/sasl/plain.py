"""PLAIN (RFC 4616): the broker gets the username and the password as they are."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.sasl.conversation import not_authenticated


class PlainConversation:
    """One login by PLAIN."""

    mechanism: Final = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._username: Final = username
        self._password: Final = password

    def first(self) -> bytes:
        return b"\0".join((b"", self._username.encode(), self._password.encode()))

    def answer(self, challenge: bytes) -> None:
        if challenge:
            raise not_authenticated("it answered PLAIN with a challenge, which PLAIN does not have")

    def redacted(self, text: str) -> str:
        return text.replace(self._password, "***")
