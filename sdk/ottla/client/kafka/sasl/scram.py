"""SCRAM (RFC 5802 and 7677): client and broker prove to each other that they know the password, and neither sends it.

    client ──► n,,n=user,r=nonce
               r=nonce+theirs,s=salt,i=iterations ◄── broker
    client ──► c=biws,r=nonce+theirs,p=proof
                                  v=signature     ◄── broker

The broker chooses the number of iterations, so it is bounded: fewer than the RFC's minimum would make the password easy
to guess for those who listen, and a large number would keep the client busy for as long as the broker likes.

Pure: the caller brings the nonce, which has to be random.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final, Literal

from ottla.client.kafka.sasl.conversation import not_authenticated
from ottla.errors import OttlaError

Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]

LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 100_000
"""It takes a tenth of a second. Apache Kafka stores at most 16,384."""

_HASHES: Final[dict[Mechanism, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NO_CHANNEL_BINDING: Final = b"n,,"


class ScramConversation:
    """One login by SCRAM. `nonce` has printable ASCII letters, and no comma."""

    def __init__(self, mechanism: Mechanism, username: str, password: str, nonce: str) -> None:
        self.mechanism: Final = mechanism
        self._hash: Final = _HASHES[mechanism]
        self._password: Final = password
        self._nonce: Final = nonce
        self._bare: Final = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}".encode()
        self._has_proved = False
        self._signature = b""

    def first(self) -> bytes:
        return _NO_CHANNEL_BINDING + self._bare

    def answer(self, challenge: bytes) -> bytes | None:
        if not self._has_proved:
            self._has_proved = True
            return self._proof(challenge)
        self._check(challenge)
        return None

    def redacted(self, text: str) -> str:
        return text.replace(self._password, "***")

    def _proof(self, challenge: bytes) -> bytes:
        """Return the message with the proof, and keep the signature that the broker has to give in turn."""
        nonce, salt, iterations = self._parse(challenge)
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        final = b"c=" + base64.b64encode(_NO_CHANNEL_BINDING) + b",r=" + nonce
        messages = b",".join((self._bare, challenge, final))
        mask = self._hmac(hashlib.new(self._hash, client_key).digest(), messages)
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), messages)
        proof = bytes(a ^ b for a, b in zip(client_key, mask, strict=True))
        return final + b",p=" + base64.b64encode(proof)

    def _parse(self, challenge: bytes) -> tuple[bytes, bytes, int]:
        """Return the nonce of both, the salt and the number of iterations."""
        parts = challenge.split(b",")
        if len(parts) < 3 or [part[:2] for part in parts[:3]] != [b"r=", b"s=", b"i="]:
            raise _violation("it lacks the nonce, the salt or the number of iterations")
        nonce, salt, iterations = (part[2:] for part in parts[:3])
        if not nonce.startswith(self._nonce.encode()) or len(nonce) <= len(self._nonce):
            raise _violation("its nonce does not continue the one of this client")
        if not iterations.isdigit() or len(iterations) > 10:
            raise _violation("its number of iterations is not a number")
        if not LEAST_ITERATIONS <= int(iterations) <= MOST_ITERATIONS:
            raise not_authenticated(
                f"it asks for {int(iterations)} iterations of {self.mechanism}; "
                f"this client takes {LEAST_ITERATIONS} to {MOST_ITERATIONS}",
                hint="store the user's credentials with an allowed number of iterations",
            )
        return nonce, _decoded(salt), int(iterations)

    def _check(self, final: bytes) -> None:
        """Check that the broker knows the password, too."""
        parts = final.split(b",")
        if parts[0].startswith(b"e="):
            raise not_authenticated(f"it rejected the login: {parts[0][2:].decode(errors='replace')[:100]}")
        if not parts[0].startswith(b"v="):
            raise _violation("it lacks the signature")
        if not hmac.compare_digest(_decoded(parts[0][2:]), self._signature):
            raise not_authenticated(
                "its signature is wrong, so it does not know the password",
                hint="check that the address is the right broker's: a forger may have answered",
            )

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _decoded(encoded: bytes) -> bytes:
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        decoded = b""
    if not decoded:
        raise _violation("its salt or signature is not base64")
    return decoded


def _violation(reason: str) -> OttlaError:
    return not_authenticated(f"its message breaks the rules of SCRAM: {reason}")
