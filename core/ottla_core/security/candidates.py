"""Finds the credential that a login is compared with: the user's, or a false one if there is no such user.

A login as an unknown user goes on with a false credential and fails at its end, like one with a wrong password: after
the same messages, at the same cost and with the same error. So a client can't find out which users exist. This is a
known difference from Apache Kafka, whose brokers refuse an unknown user at SCRAM's first message.

A false salt is derived from the name and the cluster's secret, so each login as that name gets the same salt, from
whichever broker. A false credential looks like a new credential of this cluster. So a user whose credential has more
iterations than the default, or a salt of another size, can be told from an unknown one.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from ottla_core.security.credentials import Credentials
from ottla_core.security.scram import LEAST_ITERATIONS, MECHANISMS, SALT_BYTES, Mechanism, ScramCredential, digest_bytes

_HASH: Final = "sha512"


class Candidate(NamedTuple):
    """A credential, and whether it is the user's. A login by one that is not must fail, whatever the client sends."""

    credential: ScramCredential
    is_users: bool


class Candidates:
    """Finds candidates. `secret` returns random bytes that no client knows."""

    def __init__(self, credentials: Credentials, secret: Callable[[], bytes]) -> None:
        self._credentials: Final = credentials
        self._secret: Final = secret

    def of(self, user: str, mechanism: Mechanism) -> Candidate:
        """Return the candidate for a login by SCRAM. The false one is always made, so that this takes the same time."""
        false, found = self._false(user, mechanism), self._credentials.find(user, mechanism)
        return Candidate(false, is_users=False) if found is None else Candidate(found, is_users=True)

    def of_any(self, user: str) -> Candidate:
        """Return the candidate for a login with a password, which any of the user's credentials can check."""
        candidates = [self.of(user, mechanism) for mechanism in MECHANISMS]
        return next((each for each in candidates if each.is_users), candidates[0])

    def _false(self, user: str, mechanism: Mechanism) -> ScramCredential:
        derive = partial(self._derived, mechanism, user)
        key_bytes = digest_bytes(mechanism)
        return ScramCredential(
            mechanism,
            LEAST_ITERATIONS,
            derive("salt", SALT_BYTES),
            derive("stored key", key_bytes),
            derive("server key", key_bytes),
        )

    def _derived(self, mechanism: Mechanism, user: str, use: str, size_bytes: int) -> bytes:
        message = "\0".join((mechanism, use, user)).encode(errors="surrogatepass")
        return hmac.digest(self._secret(), message, _HASH)[:size_bytes]
