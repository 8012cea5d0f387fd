"""How the clients of some cases log in, and the honest broker's side of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

from tests.fuzz_client.vocabulary import PASSWORD, USER

from ottla.client.security.logins import Login, OAuthBearer, Plain, Scram

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
_SALT: Final = b"salt"
_ROUNDS: Final = 4096
"""The fewest that clients take."""
_SALTED: Final = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), _SALT, _ROUNDS)


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


class HonestLogin:
    """The login of one connection. It takes every client's word, as only SCRAM needs more than an empty answer."""

    def __init__(self) -> None:
        self._signed = b""

    def answer(self, message: bytes) -> bytes:
        """Return the answer to a message of the client."""
        if message.startswith(b"n,,n="):
            bare = message.removeprefix(b"n,,")
            nonce = bare.partition(b",r=")[2]
            challenge = b"r=%stheirs,s=%s,i=%d" % (nonce, base64.b64encode(_SALT), _ROUNDS)
            self._signed = b"%s,%s" % (bare, challenge)
            return challenge
        if self._signed:
            signed, self._signed = b"%s,%s" % (self._signed, message.partition(b",p=")[0]), b""
            server_key = hmac.digest(_SALTED, b"Server Key", "sha256")
            return b"v=" + base64.b64encode(hmac.digest(server_key, signed, "sha256"))
        return b""
