"""SCRAM (RFC 5802 and 7677) as a broker sees it: both sides prove that they know the password, and neither sends it.

    client ──► n,,n=user,r=nonce
               r=nonce+ours,s=salt,i=iterations ◄── broker
    client ──► c=biws,r=nonce+ours,p=proof
                                v=signature     ◄── broker

The broker derives no key from a password, so each step takes microseconds. An unknown user is rejected at the last
step, as a wrong password is (module candidates). Extensions are optional, and those that are not known are ignored, as
the RFC and Kafka have it; `tokenauth=true`, by which a client of Kafka's logs in with a delegation token, is rejected.
Channel binding is not offered. librdkafka before 2.6.1 puts its nonce in front of both nonces in its last message, as
r=nonce+nonce+ours. It is served, as by Kafka 3.9 and not by 4.3: our nonce is there, so the message is no older than
this exchange.

Pure: the caller brings the nonce, which has to be random.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from typing import Final, NamedTuple

from ottla_core.security.candidates import Candidate, Candidates
from ottla_core.security.exchange import MOST_BYTES, LoginRejectedError, wrong
from ottla_core.security.scram import Mechanism, digest_bytes

_NONCE: Final = re.compile(rb"[\x21-\x2b\x2d-\x7e]+")
"""The printable letters of ASCII, but for the comma."""
_EXTENSION: Final = re.compile(rb"[A-Za-z]+=[^,\0]+")
_ESCAPED: Final = re.compile(r"(?:[^=,\0]|=2C|=3D)+")
_WITHOUT_BINDING: Final = (b"n", b"y")
"""A client that does not support channel binding, and one that does and takes the broker for one that does not."""
_TOKEN: Final = b"tokenauth=true"


class _First(NamedTuple):
    """The client's first message. `bare` is the part that is signed."""

    header: bytes
    bare: bytes
    user: str
    nonce: bytes


class _Begun(NamedTuple):
    """What is known once the broker has responded to the first message. `nonce` is that of both."""

    first: _First
    candidate: Candidate
    nonce: bytes
    challenge: bytes


class ScramExchange:
    """One login by SCRAM. `nonce` has printable ASCII letters, and no comma."""

    def __init__(self, mechanism: Mechanism, candidates: Candidates, nonce: str) -> None:
        self.user: str | None = None
        self._mechanism: Final = mechanism
        self._candidates: Final = candidates
        self._nonce: Final = nonce.encode()
        self._begun: _Begun | None = None
        self._is_over = False

    def respond(self, message: bytes) -> bytes:
        if self._is_over:
            raise _violation("the exchange is over")
        self._is_over = True  # whatever raises ends it
        if len(message) > MOST_BYTES:
            raise _violation(f"a message has more than {MOST_BYTES} bytes")
        if self._begun is not None:
            return self._signature(self._begun, message)
        begun = self._begun = self._begin(_parse_first(message))
        self._is_over = False
        return begun.challenge

    def _begin(self, first: _First) -> _Begun:
        candidate = self._candidates.of(first.user, self._mechanism)
        nonce = first.nonce + self._nonce
        salt, iterations = base64.b64encode(candidate.credential.salt), candidate.credential.iterations
        return _Begun(first, candidate, nonce, b"r=%s,s=%s,i=%d" % (nonce, salt, iterations))

    def _signature(self, begun: _Begun, message: bytes) -> bytes:
        """Check the proof, and return the broker's signature."""
        first, candidate = begun.first, begun.candidate
        unproved, proof = _parse_final(message, first.header, (begun.nonce, first.nonce + begun.nonce))
        if len(proof) != digest_bytes(self._mechanism):
            raise _violation(f"a proof of {self._mechanism} has another size")
        messages = b",".join((first.bare, begun.challenge, unproved))
        is_proved = candidate.credential.is_proved(proof, messages)
        if not (is_proved and candidate.is_users):
            raise wrong(first.user, self._mechanism, is_known=candidate.is_users)
        self.user = first.user
        return b"v=" + base64.b64encode(candidate.credential.signature(messages))


def _parse_first(message: bytes) -> _First:
    parts = message.split(b",")
    if parts[0] not in _WITHOUT_BINDING:
        raise _violation("its first message asks for channel binding, or does not begin with n or y")
    if len(parts) < 4 or parts[2][:2] != b"n=" or parts[3][:2] != b"r=":
        raise _violation("its first message lacks the user name or the nonce")
    user, nonce, extensions = _name(parts[2][2:]), parts[3][2:], parts[4:]
    if not _NONCE.fullmatch(nonce):
        raise _violation("its nonce is empty, or has letters that are not printable")
    if parts[1] and (parts[1][:2] != b"a=" or _name(parts[1][2:]) != user):
        raise LoginRejectedError("the client asks to act for another user than it logs in as")
    _check_extensions(extensions)
    if any(each.lower() == _TOKEN for each in extensions):
        raise LoginRejectedError("the client logs in with a delegation token, and this broker has none")
    header = b",".join(parts[:2]) + b","
    return _First(header, message[len(header) :], user, nonce)


def _parse_final(message: bytes, header: bytes, nonces: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return the message without its proof, and the proof. Both must be about this exchange: the client repeats the
    header, and one of these forms of the nonces that it has agreed to."""
    unproved, _, proof = message.rpartition(b",p=")
    parts = unproved.split(b",")
    if len(parts) < 2 or parts[0][:2] != b"c=" or parts[1][:2] != b"r=":
        raise _violation("its last message lacks the channel binding, the nonce or the proof")
    _check_extensions(parts[2:])
    if _decoded(parts[0][2:]) != header:
        raise _violation("its last message has another header than its first")
    if not any(hmac.compare_digest(parts[1][2:], nonce) for nonce in nonces):
        raise _violation("its last message has another nonce than this exchange")
    return unproved, _decoded(proof)


def _check_extensions(extensions: list[bytes]) -> None:
    if not all(map(_EXTENSION.fullmatch, extensions)):
        raise _violation("an extension is malformed")


def _name(escaped: bytes) -> str:
    try:
        text = escaped.decode()
    except UnicodeDecodeError:
        raise _violation("a user name is not UTF-8") from None
    if not _ESCAPED.fullmatch(text):
        raise _violation("a user name is empty, or has a separator that is not escaped")
    return text.replace("=2C", ",").replace("=3D", "=")


def _decoded(encoded: bytes) -> bytes:
    """Decode base64. A spelling with bits that say nothing is rejected, so each message has one form."""
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        decoded = None
    if decoded is None or base64.b64encode(decoded) != encoded:
        raise _violation("its last message has a part that is not base64")
    return decoded


def _violation(reason: str) -> LoginRejectedError:
    return LoginRejectedError(f"the client's message breaks the rules of SCRAM: {reason}")
