"""The login of one connection, as Kafka's brokers expect it: what a client may request before and after it.

    START ─► VERSIONS_SHOWN ─► EXCHANGE ─► LOGGED_IN        a failure leads to FAILED, and ends the connection
        └──────────┴───────────► TOKENS ──────┘

ApiVersions may come first, and does with most clients. SaslHandshake names the mechanism. After its version 1 the
messages of the mechanism are in SaslAuthenticate requests. After its version 0 they are tokens: bytes with a size
before them, and nothing else. What comes in which state is one table, and what it leads to is another.

Both are Kafka's (SaslServerAuthenticator), with one difference: an API that has no business in the middle of an
exchange ends the connection at once, where Kafka answers ILLEGAL_SASL_STATE first. A client that is logged in can't
log in again (KIP-368): this is answered with ILLEGAL_SASL_STATE, as by Kafka's brokers with no limit for logins.

Pure: the caller does an exchange's derivations in a thread, answers a failed login after `failure_delay_s`, and ends
the connection then. A mechanism is a function that makes an exchange, and a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from itertools import product
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.exchange import Derivation, Exchange, LoginRejectedError
from ottla_core.security.principal import ANONYMOUS, of_user


class LoginState(Enum):
    START = "nothing was served"
    VERSIONS_SHOWN = "ApiVersions was served"
    EXCHANGE = "requests carry the mechanism's messages"
    TOKENS = "frames are the mechanism's messages"
    LOGGED_IN = "logged in"
    FAILED = "failed"


class LoginRequest(Enum):
    API_VERSIONS = "ApiVersions"
    HANDSHAKE = "SaslHandshake"
    AUTHENTICATE = "SaslAuthenticate"
    TOKEN = "a frame without a header"  # noqa: S105 - no password
    OTHER = "any other API"


class LoginAction(Enum):
    SERVE = "is served"
    CHOOSE = "chooses the mechanism"
    EXCHANGE = "goes to the mechanism"
    ILLEGAL = "is ILLEGAL_SASL_STATE"
    CLOSE = "ends the connection"


class LoginStep(Enum):
    SHOWN = "ApiVersions was served"
    CHOSEN = "SaslHandshake v1 named a mechanism"
    CHOSEN_FOR_TOKENS = "SaslHandshake v0 named a mechanism"
    COMPLETED = "the mechanism has a user"
    REJECTED = "the mechanism or the request was rejected"


_SERVED: Final[Mapping[tuple[LoginState, LoginRequest], LoginAction]] = {
    (LoginState.START, LoginRequest.API_VERSIONS): LoginAction.SERVE,
    (LoginState.START, LoginRequest.HANDSHAKE): LoginAction.CHOOSE,
    (LoginState.VERSIONS_SHOWN, LoginRequest.HANDSHAKE): LoginAction.CHOOSE,
    (LoginState.EXCHANGE, LoginRequest.HANDSHAKE): LoginAction.ILLEGAL,
    (LoginState.EXCHANGE, LoginRequest.AUTHENTICATE): LoginAction.EXCHANGE,
    (LoginState.TOKENS, LoginRequest.TOKEN): LoginAction.EXCHANGE,
    (LoginState.LOGGED_IN, LoginRequest.API_VERSIONS): LoginAction.SERVE,
    (LoginState.LOGGED_IN, LoginRequest.HANDSHAKE): LoginAction.ILLEGAL,
    (LoginState.LOGGED_IN, LoginRequest.AUTHENTICATE): LoginAction.ILLEGAL,
    (LoginState.LOGGED_IN, LoginRequest.OTHER): LoginAction.SERVE,
}

ACTIONS: Final[Mapping[tuple[LoginState, LoginRequest], LoginAction]] = {
    cell: _SERVED.get(cell, LoginAction.CLOSE) for cell in product(LoginState, LoginRequest)
}
"""What is done with each request in each state. All that is not named above ends the connection."""

NEXT: Final[Mapping[tuple[LoginState, LoginStep], LoginState]] = {
    (LoginState.START, LoginStep.SHOWN): LoginState.VERSIONS_SHOWN,
    (LoginState.START, LoginStep.CHOSEN): LoginState.EXCHANGE,
    (LoginState.START, LoginStep.CHOSEN_FOR_TOKENS): LoginState.TOKENS,
    (LoginState.START, LoginStep.REJECTED): LoginState.FAILED,
    (LoginState.VERSIONS_SHOWN, LoginStep.CHOSEN): LoginState.EXCHANGE,
    (LoginState.VERSIONS_SHOWN, LoginStep.CHOSEN_FOR_TOKENS): LoginState.TOKENS,
    (LoginState.VERSIONS_SHOWN, LoginStep.REJECTED): LoginState.FAILED,
    (LoginState.EXCHANGE, LoginStep.COMPLETED): LoginState.LOGGED_IN,
    (LoginState.EXCHANGE, LoginStep.REJECTED): LoginState.FAILED,
    (LoginState.TOKENS, LoginStep.COMPLETED): LoginState.LOGGED_IN,
    (LoginState.TOKENS, LoginStep.REJECTED): LoginState.FAILED,
    # The connection of a client that is logged in goes on, whatever it requests.
    (LoginState.LOGGED_IN, LoginStep.SHOWN): LoginState.LOGGED_IN,
    (LoginState.LOGGED_IN, LoginStep.REJECTED): LoginState.LOGGED_IN,
}


class Login:
    """The login of one connection. `failure` says why it has failed, for the operator."""

    __slots__ = ("_exchange", "_mechanism", "_mechanisms", "failure", "failure_delay_s", "principal", "state")

    def __init__(self, mechanisms: Mapping[str, Callable[[], Exchange]], failure_delay_s: float) -> None:
        self.state = LoginState.START
        self.principal = ANONYMOUS
        self.failure = ""
        self.failure_delay_s: Final = failure_delay_s
        self._mechanisms: Final = mechanisms
        self._mechanism = ""
        self._exchange: Exchange | None = None

    @property
    def mechanisms(self) -> list[str]:
        """The names of the mechanisms that are enabled."""
        return list(self._mechanisms)

    @property
    def is_over(self) -> bool:
        """It tells whether the client is logged in."""
        return self.state is LoginState.LOGGED_IN

    @property
    def expects_token(self) -> bool:
        """It tells whether the next frame has no header."""
        return self.state is LoginState.TOKENS

    def action(self, request: LoginRequest) -> LoginAction:
        return ACTIONS[self.state, request]

    def on_versions_shown(self) -> None:
        """Note that ApiVersions was served. A request that it answers with an error may be sent again."""
        self._step(LoginStep.SHOWN)

    def choose(self, mechanism: str, version: int) -> None:
        """Begin the exchange that SaslHandshake names. Raises UNSUPPORTED_SASL_MECHANISM and ILLEGAL_SASL_STATE."""
        self._expect(LoginAction.CHOOSE, LoginRequest.HANDSHAKE)
        make = self._mechanisms.get(mechanism)
        if make is None:
            enabled = ", ".join(self._mechanisms)
            self._reject(f"the mechanism {mechanism[:40]!r} is not enabled; there is {enabled}")
            raise OttlaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, self.failure)
        self._mechanism, self._exchange = mechanism, make()
        self._step(LoginStep.CHOSEN if version > 0 else LoginStep.CHOSEN_FOR_TOKENS)

    def respond(self, message: bytes) -> bytes | Derivation:
        """Return the mechanism's response to a message of the client. Raises SASL_AUTHENTICATION_FAILED and
        ILLEGAL_SASL_STATE."""
        self._expect(LoginAction.EXCHANGE, LoginRequest.TOKEN if self.expects_token else LoginRequest.AUTHENTICATE)
        with self._going_on() as exchange:
            return exchange.respond(message)

    def on_derived(self, derivation: Derivation, derived: bytes) -> bytes:
        """Return the response that has waited for a derivation. Raises SASL_AUTHENTICATION_FAILED."""
        with self._going_on():
            return derivation.respond(derived)

    @contextmanager
    def _going_on(self) -> Iterator[Exchange]:
        """Note how a step of the exchange has ended."""
        exchange = self._exchange
        assert exchange is not None, "a mechanism was chosen"
        try:
            yield exchange
        except LoginRejectedError as error:
            self._reject(f"the login by {self._mechanism} failed: {error.cause}")
            raise
        if exchange.user is not None:
            self.principal, self._exchange = of_user(exchange.user), None
            self._step(LoginStep.COMPLETED)

    def _expect(self, expected: LoginAction, request: LoginRequest) -> None:
        if self.action(request) is not expected:
            self._reject(f"{request.value} came when {self.state.value}")
            raise OttlaError(ErrorCode.ILLEGAL_SASL_STATE, self.failure or "the client is logged in already")

    def _reject(self, cause: str) -> None:
        """Note the failure, unless the client is logged in: then its connection goes on."""
        self._step(LoginStep.REJECTED)
        if self.state is LoginState.FAILED:
            self.failure, self._exchange = cause, None

    def _step(self, step: LoginStep) -> None:
        self.state = NEXT[self.state, step]
