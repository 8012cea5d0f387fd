"""A mechanism of SASL takes messages of a client, and returns messages to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ottla_core.errors import ErrorCode, OttlaError

MOST_BYTES: Final = 4096
"""The largest message of a mechanism with passwords. Names and passwords have at most a few hundred bytes."""


class LoginRejectedError(OttlaError):
    """A login has failed. The client gets `message`; `cause` is for the operator, and may say more. Neither has a
    secret in it."""

    def __init__(self, message: str, *, cause: str = "") -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
        self.cause: Final = cause or message


class Derivation(NamedTuple):
    """A step of an exchange that takes milliseconds: `derive` is to be called in a thread, since it shares nothing with
    the exchange, and then `respond` with its result, where the exchange is. `respond` is as `Exchange.respond`."""

    derive: Callable[[], bytes]
    respond: Callable[[bytes], bytes]


class Exchange(Protocol):
    """The broker's side of one login by one mechanism. It is used once."""

    @property
    def user(self) -> str | None:
        """The name of the user who has logged in, or None as long as the exchange goes on."""
        ...

    def respond(self, message: bytes) -> bytes | Derivation:
        """Return the response to the client's next message. Raises LoginRejectedError, which ends the exchange."""
        ...


def wrong(user: str, mechanism: str, *, is_known: bool) -> LoginRejectedError:
    """Return the error for a wrong password and for an unknown user, which a client must not be able to tell apart.

    The operator reads only the names of users who exist: any other may be a password in the wrong place.
    """
    nobody = f"there is no user of that name with a credential for {mechanism}"
    cause = f"the password of user {user[:100]!r} is wrong" if is_known else nobody
    return LoginRejectedError("the user name or the password is wrong", cause=cause)
