"""How the clients of some cases log in, and the honest broker's side of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any, Final

from tests.fuzz_client.vocabulary import PASSWORD, USER

from ottla.client.security.logins import Login, OAuthBearer, Plain, Scram
from ottla_core.kafka.messages import SaslAuthenticateResponse

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
_SCRAM: Final = (b"n,,n=", b"c=")
"""How the messages of SCRAM begin."""


def login_of(mechanism: str) -> Login | None:
    """Return a client's login by this mechanism. None: it does not log in."""
    match mechanism:
        case "PLAIN":
            return Plain(USER, PASSWORD)
        case "SCRAM-SHA-256":
            return Scram(USER, PASSWORD, "SCRAM-SHA-256")
        case "OAUTHBEARER":
            return OAuthBearer(lambda: PASSWORD)
    return None


class ScramBroker:
    """The broker's side of SCRAM-SHA-256. `last` are fields of its last response."""

    def __init__(self, password: str, **last: Any) -> None:
        self._password = password.encode()
        self._last = last
        self._bare = self._challenge = b""

    def __call__(self, message: bytes) -> SaslAuthenticateResponse:
        if message.startswith(b"n,,"):
            self._bare = message.removeprefix(b"n,,")
            nonce = self._bare.partition(b",r=")[2]
            self._challenge = b"r=" + nonce + b"theirs,s=" + base64.b64encode(b"salt") + b",i=4096"
            return SaslAuthenticateResponse(auth_bytes=self._challenge)
        final, _, proof = message.partition(b",p=")
        messages = b",".join((self._bare, self._challenge, final))
        salted = hashlib.pbkdf2_hmac("sha256", self._password, b"salt", 4096)
        key = hmac.digest(salted, b"Client Key", "sha256")
        mask = hmac.digest(hashlib.sha256(key).digest(), messages, "sha256")
        if base64.b64decode(proof) != bytes(a ^ b for a, b in zip(key, mask, strict=True)):
            return SaslAuthenticateResponse(error_code=58, error_message="invalid credentials")
        signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), messages, "sha256")
        return SaslAuthenticateResponse(auth_bytes=b"v=" + base64.b64encode(signature), **self._last)


class HonestLogin:
    """The login of one connection. Only SCRAM needs more than an empty response."""

    def __init__(self) -> None:
        self._scram: Final = ScramBroker(PASSWORD)

    def answer(self, message: bytes) -> SaslAuthenticateResponse:
        """Return the response to a message of the client."""
        return self._scram(message) if message.startswith(_SCRAM) else SaslAuthenticateResponse()
