"""OAUTHBEARER (RFC 7628): the broker gets a token, and checks it.

A broker that rejects the token first sends the reason as JSON. The client has to acknowledge this by one more message,
and only then does the broker answer with an error (section 3.2.3).
"""

from __future__ import annotations

import re
from typing import Final

from ottla.client.kafka.sasl.conversation import not_authenticated
from ottla.errors import config_error

_SEPARATOR: Final = b"\x01"
_TOKEN: Final = re.compile(r"[-A-Za-z0-9._~+/]+=*")
"""The letters of a token (RFC 6750)."""
_MOST_CHARS: Final = 300


class OAuthBearerConversation:
    """One login by OAUTHBEARER. Raises ConfigError for a token that can't be sent."""

    mechanism: Final = "OAUTHBEARER"

    def __init__(self, token: str) -> None:
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise config_error(
                "the function of OAuthBearer has returned something that is not a token",
                hint="return the token alone, as a str without 'Bearer' or white space",
            )
        self._token: Final = token
        self._reason = ""

    def first(self) -> bytes:
        return b"n,," + _SEPARATOR + b"auth=Bearer " + self._token.encode() + _SEPARATOR * 2

    def answer(self, challenge: bytes) -> bytes | None:
        if self._reason:
            raise not_authenticated(f"it rejected the token: {self._reason}")
        if not challenge:
            return None
        self._reason = self.redacted(challenge.decode(errors="replace"))[:_MOST_CHARS]
        return _SEPARATOR

    def redacted(self, text: str) -> str:
        return text.replace(self._token, "***")
