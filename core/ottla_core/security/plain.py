"""PLAIN (RFC 4616) as a broker sees it: the client sends its name and its password as they are.

The password is compared with the user's SCRAM credential: it is salted as that was, and the keys are compared. So
nothing more than for SCRAM is stored, and a password that is changed for SCRAM is changed for PLAIN. The derivation
takes milliseconds, as SCRAM leaves them to the client, and is handed to the caller, who has a thread for it.
"""

from __future__ import annotations

from typing import Final

from ottla_core.security.candidates import Candidate, Candidates
from ottla_core.security.exchange import MOST_BYTES, Derivation, LoginRejectedError, wrong

PLAIN: Final = "PLAIN"


class PlainExchange:
    """One login by PLAIN."""

    def __init__(self, candidates: Candidates) -> None:
        self.user: str | None = None
        self._candidates: Final = candidates
        self._has_begun = False

    def respond(self, message: bytes) -> Derivation:
        if self._has_begun:
            raise _violation("it has one message of the client")
        self._has_begun = True
        user, password = _parse(message)
        candidate = self._candidates.of_any(user)
        # Functions are shown without what they hold, so no trace of a bug has the password.
        return Derivation(
            lambda: candidate.credential.salted(password), lambda salted: self._check(user, candidate, salted)
        )

    def _check(self, user: str, candidate: Candidate, salted: bytes) -> bytes:
        is_right = candidate.credential.is_of(salted)
        if not (is_right and candidate.is_users):
            raise wrong(user, PLAIN, is_known=candidate.is_users)
        self.user = user
        return b""


def _parse(message: bytes) -> tuple[str, bytes]:
    """Return the name and the password. As in Kafka, the client may act for itself alone."""
    if len(message) > MOST_BYTES:
        raise _violation(f"it has more than {MOST_BYTES} bytes")
    parts = message.split(b"\0")
    if len(parts) != 3 or not parts[1] or not parts[2]:
        raise _violation("it lacks the user name or the password")
    try:
        acts_for, user, _ = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise _violation("it is not UTF-8") from None
    if acts_for and acts_for != user:
        raise LoginRejectedError("the client asks to act for another user than it logs in as")
    return user, parts[2]


def _violation(reason: str) -> LoginRejectedError:
    return LoginRejectedError(f"the client's message breaks the rules of PLAIN: {reason}")
