"""What a cluster keeps of a password for SCRAM (RFC 5802 and 7677): enough to check a proof, too little to make one.

    salted password = PBKDF2(password, salt, iterations)      the expensive step: milliseconds
    client key      = HMAC(salted password, "Client Key")     the client's secret
    stored key      = H(client key)                           kept: it checks the client's proof
    server key      = HMAC(salted password, "Server Key")     kept: it makes the broker's signature

The password is used as the bytes of its UTF-8 text, as Kafka does it. Passwords that SASLprep would change are rejected
where a credential is made, so this makes no difference to other implementations (module saslprep).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Final, Literal, Self, get_args

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.saslprep import is_prepared

Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]

MECHANISMS: Final[tuple[Mechanism, ...]] = get_args(Mechanism)
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16_384
"""Kafka's bounds."""
SALT_BYTES: Final = 16
"""The size of new salts. Salts of Kafka's tools have other sizes."""

_HASHES: Final[dict[Mechanism, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_MOST_SALT_BYTES: Final = 1024
_TEXT: Final = re.compile(
    r"salt=([\w+/=]+),stored_key=([\w+/=]+),server_key=([\w+/=]+),iterations=(?P<iterations>[0-9]{1,6})", re.ASCII
)
_CLIENT_KEY: Final = b"Client Key"
_SERVER_KEY: Final = b"Server Key"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A user's credential for one mechanism. Its bytes are secret, and are not shown. Raises INVALID_CONFIG if a part
    is not as it has to be."""

    mechanism: Mechanism
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.mechanism not in _HASHES:
            raise _invalid(f"{self.mechanism!r} is not a mechanism of SCRAM", f"use {' or '.join(MECHANISMS)}")
        if not LEAST_ITERATIONS <= self.iterations <= MOST_ITERATIONS:
            raise _invalid(
                f"a credential has {self.iterations} iterations",
                f"use {LEAST_ITERATIONS} to {MOST_ITERATIONS} iterations",
            )
        if not 0 < len(self.salt) <= _MOST_SALT_BYTES:
            raise _invalid(f"a credential has a salt of {len(self.salt)} bytes", f"use {SALT_BYTES} random bytes")
        key_bytes = digest_bytes(self.mechanism)
        if len(self.stored_key) != key_bytes or len(self.server_key) != key_bytes:
            raise _invalid(f"a key of a credential does not have {key_bytes} bytes", f"store it for {self.mechanism}")

    @classmethod
    def of_password(
        cls, mechanism: Mechanism, password: str, *, salt: bytes, iterations: int = LEAST_ITERATIONS
    ) -> Self:
        """Derive a credential, which takes milliseconds. Raises what `salted_password` raises."""
        salted = salted_password(mechanism, password, salt=salt, iterations=iterations)
        return cls.of_salted(mechanism, salted, salt=salt, iterations=iterations)

    @classmethod
    def of_salted(cls, mechanism: Mechanism, salted: bytes, *, salt: bytes, iterations: int) -> Self:
        """Make a credential of a salted password, which a client has derived."""
        return cls(
            mechanism,
            iterations,
            salt,
            _stored_key(mechanism, salted),
            hmac.digest(salted, _SERVER_KEY, _HASHES[mechanism]),
        )

    @classmethod
    def of_text(cls, mechanism: Mechanism, text: str) -> Self:
        """Parse what `text` returns. Raises INVALID_CONFIG, which does not repeat the text."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise _unreadable(mechanism)
        try:
            salt, stored_key, server_key = (base64.b64decode(each, validate=True) for each in found.groups()[:3])
        except binascii.Error:
            raise _unreadable(mechanism) from None
        return cls(mechanism, int(found["iterations"]), salt, stored_key, server_key)

    def text(self) -> str:
        """Return the credential, with its secrets, as Kafka spells it."""
        named = {"salt": self.salt, "stored_key": self.stored_key, "server_key": self.server_key}
        encoded = ",".join(f"{name}={base64.b64encode(value).decode()}" for name, value in named.items())
        return f"{encoded},iterations={self.iterations}"

    def salted(self, password: bytes) -> bytes:
        """Return the salted password. This takes milliseconds, in which other threads can run."""
        return hashlib.pbkdf2_hmac(_HASHES[self.mechanism], password, self.salt, self.iterations)

    def is_of(self, salted: bytes) -> bool:
        """Return whether the credential was made of this salted password."""
        return hmac.compare_digest(_stored_key(self.mechanism, salted), self.stored_key)

    def is_proved(self, proof: bytes, messages: bytes) -> bool:
        """Return whether the client that sent this proof knows the client key. `messages` is RFC 5802's AuthMessage."""
        name = _HASHES[self.mechanism]
        mask = hmac.digest(self.stored_key, messages, name)
        if len(proof) != len(mask):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, mask, strict=True))
        return hmac.compare_digest(hashlib.new(name, client_key).digest(), self.stored_key)

    def signature(self, messages: bytes) -> bytes:
        """Return the broker's signature, by which it proves that it knows the credential."""
        return hmac.digest(self.server_key, messages, _HASHES[self.mechanism])


def salted_password(mechanism: Mechanism, password: str, *, salt: bytes, iterations: int) -> bytes:
    """Salt and hash a new password, which takes milliseconds. `salt` has to be random.

    Raises INVALID_CONFIG for a password that clients could not log in with.
    """
    if not password or not is_prepared(password):
        raise _invalid(
            "a password is empty, or has characters that SCRAM treats in different ways (RFC 4013)",
            "use letters, digits and punctuation of ASCII",
        )
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise _invalid(f"{iterations} iterations", f"use {LEAST_ITERATIONS} to {MOST_ITERATIONS} iterations")
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def mechanism_of(name: str) -> Mechanism:
    """Return the mechanism of that name. Raises INVALID_CONFIG if there is none."""
    for mechanism in MECHANISMS:
        if mechanism == name:
            return mechanism
    raise _invalid(f"{name!r} is not a mechanism of SCRAM", f"use {' or '.join(MECHANISMS)}")


def digest_bytes(mechanism: Mechanism) -> int:
    """Return the size of keys, proofs and signatures."""
    return hashlib.new(_HASHES[mechanism]).digest_size


def _stored_key(mechanism: Mechanism, salted: bytes) -> bytes:
    name = _HASHES[mechanism]
    return hashlib.new(name, hmac.digest(salted, _CLIENT_KEY, name)).digest()


def _unreadable(mechanism: Mechanism) -> OttlaError:
    return _invalid(
        f"a credential for {mechanism} can't be read",
        "write salt=…,stored_key=…,server_key=…,iterations=…, with base64",
    )


def _invalid(reason: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_CONFIG, reason, hint=hint)
