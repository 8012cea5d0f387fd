"""How a client logs in to brokers: what users pass as `login=`."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.client.kafka.sasl.conversation import Conversation
from ottla.client.kafka.sasl.oauthbearer import OAuthBearerConversation
from ottla.client.kafka.sasl.plain import PlainConversation
from ottla.client.kafka.sasl.scram import Mechanism, ScramConversation
from ottla.errors import config_error
from ottla_core.security.saslprep import is_prepared, is_text
from ottla_core.security.secret import Secret

_NONCE_BYTES: Final = 24
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Login(Protocol):
    """A way to log in: a Plain, a Scram or an OAuthBearer."""

    @property
    def mechanism(self) -> str:
        """Kafka's name for the mechanism."""
        ...

    def conversation(self) -> Conversation:
        """Begin one login. It may block, and it may raise anything if it calls a function of the user's."""
        ...


@dataclass(frozen=True, slots=True)
class Plain:
    """Logs in with a username and a password, which the broker gets as they are (SASL's PLAIN).

    Use it with TLS only: without TLS, everyone on the way can read the password.
    """

    username: str
    password: str | Secret

    def __post_init__(self) -> None:
        _check(self)
        if "\0" in self.username or "\0" in _password(self):
            raise config_error("a username or password has a NUL, which PLAIN can't send", hint="remove it")

    @property
    def mechanism(self) -> str:
        return PlainConversation.mechanism

    def conversation(self) -> Conversation:
        return PlainConversation(self.username, _password(self))


@dataclass(frozen=True, slots=True)
class Scram:
    """Logs in with a username and a password, of which the broker gets only a proof (SASL's SCRAM).

    The broker has to prove, too, that it knows the password. `mechanism` is SCRAM-SHA-512 or SCRAM-SHA-256, whichever
    the user's credentials were created for.
    """

    username: str
    password: str | Secret
    mechanism: Mechanism = "SCRAM-SHA-512"

    def __post_init__(self) -> None:
        _check(self)
        if self.mechanism not in _SCRAM:
            raise config_error(f"mechanism={self.mechanism!r} is not valid", hint=f"use {' or '.join(_SCRAM)}")
        if not (is_prepared(self.username) and is_prepared(_password(self))):
            raise config_error(
                "a username or password has characters that brokers treat in different ways with SCRAM (RFC 4013)",
                hint="use letters, digits and punctuation of ASCII",
            )

    def conversation(self) -> Conversation:
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        return ScramConversation(self.mechanism, self.username, _password(self), nonce)


@dataclass(frozen=True, slots=True)
class OAuthBearer:
    """Logs in with a token that `token()` returns (SASL's OAUTHBEARER).

    The client calls the function before each login: for each connection, and again before the broker's limit for the
    login has passed. The function runs on a thread of its own, so it may fetch the token from a server, for up to 10 s.
    It should keep a token that is still valid.
    """

    token: Callable[[], str]

    def __post_init__(self) -> None:
        if not callable(self.token):
            raise config_error("OAuthBearer needs a function", hint="pass a function that returns a token")

    @property
    def mechanism(self) -> str:
        return OAuthBearerConversation.mechanism

    def conversation(self) -> Conversation:
        return OAuthBearerConversation(self.token())


def _check(login: Plain | Scram) -> None:
    """Keep the password as a Secret. Raises ConfigError for a username or password of another type, or an empty one."""
    if not isinstance(login.username, str) or not isinstance(login.password, str | Secret):
        raise config_error("a username or password is not a str", hint="pass both as str")
    if not login.username or not login.password:
        raise config_error("the username or the password is empty", hint="pass both")
    if not (is_text(login.username) and is_text(Secret(login.password).reveal())):
        raise config_error("a username or password has half a character", hint="read it as UTF-8")
    object.__setattr__(login, "password", Secret(login.password))  # the class is frozen


def _password(login: Plain | Scram) -> str:
    assert isinstance(login.password, Secret)
    return login.password.reveal()
