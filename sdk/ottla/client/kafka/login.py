"""One login on a connection: SaslHandshake names the mechanism, then each SaslAuthenticate carries one of its messages.

Pure: the connection sends the requests and brings the responses.
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE, AnyApi
from ottla.client.kafka.sasl.conversation import Conversation, not_authenticated
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

USED: Final = 0.9
"""The part of its lifetime for which a login is used. The rest is for the next login, and for the delay of messages."""
SPREAD: Final = 0.05
"""Connections use parts that differ by up to this much from `USED`, as those of Kafka's own clients do (KIP-368). So
those that have logged in together, after a broker came back, do not all log in again together."""
_LEAST_S: Final = 1.0
"""Kafka's brokers take one login a second on a connection."""
_MOST_CHARS: Final = 300


class Login:
    """It goes on from `request` to `on_response` until `is_over`.

    After that `lifetime_s` has the seconds until the next login, and `session_s` those until the broker accepts no
    requests without another login. Both are infinity if the broker sets no limit.
    """

    def __init__(self, conversation: Conversation, used: float = USED) -> None:
        """`used` is the part of its lifetime for which the login is used."""
        self.is_over = False
        self.lifetime_s = self.session_s = float("inf")
        self._used: Final = used
        self._conversation: Final = conversation
        self._next: bytes | None = None

    def request(self) -> tuple[AnyApi, Message]:
        """Return the next request."""
        if self._next is None:
            return SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=self._conversation.mechanism)
        return SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=self._next)

    def on_response(self, response: Message) -> None:
        """Take in the response to the request. Raises OttlaError, which ends the login."""
        if isinstance(response, SaslHandshakeResponse):
            self._check_mechanism(response)
            self._next = self._conversation.first()
            return
        assert isinstance(response, SaslAuthenticateResponse)
        if response.error_code:
            said = self._conversation.redacted(response.error_message or "it does not say why")[:_MOST_CHARS]
            raise self._rejected(response.error_code, said)
        self._next = self._conversation.answer(response.auth_bytes)
        if self._next is None:
            self.is_over = True
            if response.session_lifetime_ms > 0:
                self.session_s = response.session_lifetime_ms / 1000
                self.lifetime_s = max(_LEAST_S, self._used * self.session_s)

    def _check_mechanism(self, response: SaslHandshakeResponse) -> None:
        mechanism = self._conversation.mechanism
        match response.error_code:
            case ErrorCode.NONE:
                return
            case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                offered = ", ".join(each[:_MOST_CHARS] for each in response.mechanisms[:10]) or "none"
                reason = f"the broker has not enabled the mechanism {mechanism} (it has {offered})"
                raise OttlaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, reason)
            case ErrorCode.ILLEGAL_SASL_STATE:
                raise OttlaError(ErrorCode.ILLEGAL_SASL_STATE, "the port expects no login (SASL), but login= is set")
            case code:
                raise self._rejected(code, "it did not take the mechanism")

    def _rejected(self, code: int, said: str) -> OttlaError:
        reason = f"the broker rejected the login by {self._conversation.mechanism}: {said}"
        if code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            return not_authenticated(reason)
        return OttlaError(code, reason)
