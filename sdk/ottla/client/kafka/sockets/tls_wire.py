"""A socket with TLS.

TLS runs in memory (`ssl.SSLObject`), and the socket carries its bytes. So nothing here waits, and the line's lock
protects TLS, which several threads must not use at once. What TLS has taken counts as written, like what the system's
buffer has taken: it can't be taken back.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterable
from typing import Final

from ottla.client.kafka.stranger import FIRST_BYTES, stranger
from ottla.errors import ErrorCode, OttlaError

_READ_BYTES: Final = 64 * 1024
_WRITE_BYTES: Final = 256 * 1024
"""The most bytes that TLS holds before the socket has taken them."""
_JOINED_BYTES: Final = 16 * 1024
"""The size of a record of TLS. Smaller pieces are joined, because each record costs 22 bytes and a call."""
_HANDSHAKE: Final = b"\x16"
_ALERT: Final = b"\x15"
_CERT_REASONS: Final = {
    9: ("the broker's certificate is not valid yet", "check the clock of this machine"),
    10: ("the broker's certificate has expired", "have the broker's certificate renewed"),
    62: ("the broker's certificate is for another host name", "connect by the name in the certificate"),
    64: ("the broker's certificate is for another address", "connect by the host name in the certificate"),
}
"""By OpenSSL's codes, X509_V_ERR_…"""
_OF_CLIENT: Final = "check certificate= and key= in tls=: brokers may want one that their authority has signed"


class TlsWire:
    """A socket with TLS. The client begins the handshake, and verifies the broker's certificate for `host`."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self.is_open = False
        self._has_opened = False
        """Whether the broker has sent data. By then it has accepted the client's certificate."""
        self._socket: Final = connection
        self._host: Final = host
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: Final = context.wrap_bio(self._in, self._out, server_hostname=host)
        self._unsent: memoryview = memoryview(b"")
        self._first = b""
        self._shake_hands()

    def opened(self, data: bytes) -> Iterable[bytes]:
        if len(self._first) < FIRST_BYTES:
            self._first += data[:FIRST_BYTES]
        self._in.write(data)
        try:
            if not self.is_open and not self._shake_hands():
                return
            while opened := self._tls.read(_READ_BYTES):
                self._has_opened = True
                yield opened
            yield b""
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            with contextlib.suppress(OSError):  # the broker may get an alert that says why
                self.flush()
            raise self._failure(error) from None

    def send(self, pieces: list[memoryview | bytes]) -> int:
        count, small = 0, bytearray()
        for piece in pieces:
            if len(small) + len(piece) <= _JOINED_BYTES:
                small += piece
                continue
            if small:
                count += self._tls.write(small)
                small = bytearray()
            if count >= _WRITE_BYTES:
                return count
            count += self._tls.write(memoryview(piece)[: _WRITE_BYTES - count])
            if count >= _WRITE_BYTES:
                return count
        return count + (self._tls.write(small) if small else 0)

    def flush(self) -> None:
        while True:
            if not self._unsent:
                self._unsent = memoryview(self._out.read())
                if not self._unsent:
                    return
            sent = self._socket.send(self._unsent)
            self._unsent = self._unsent[sent:]

    def finish(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # it goes on waiting for the broker's end
            self._tls.unwrap()
        with contextlib.suppress(BlockingIOError):  # brokers do without this word
            self.flush()
        self._socket.shutdown(socket.SHUT_WR)

    def _shake_hands(self) -> bool:
        """Take the next step of the handshake, and return whether it is finished."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_open = True
        return True

    def _failure(self, error: ssl.SSLError) -> OttlaError:
        """Return the error of a handshake that failed, or of a connection that the broker has ended by an alert."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return self._untrusted(error)
        if self._first[:1] not in (_HANDSHAKE, _ALERT):
            what = stranger(self._first) or "it does not speak TLS"
            return _refused(f"{what}, but tls= is set", "leave tls= out, or use the address of a port with TLS")
        said = (error.reason or "unknown").replace("_", " ").lower()
        if self._has_opened:
            return OttlaError(ErrorCode.NETWORK_EXCEPTION, f"TLS was interrupted ({said})")
        if "alert" in said:
            return _refused(f"the broker ended TLS with {said!r}", _OF_CLIENT)
        if self.is_open:
            return OttlaError(ErrorCode.NETWORK_EXCEPTION, f"what it sent is damaged (TLS: {said})")
        return _refused(f"the TLS handshake failed ({said})", "")

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> OttlaError:
        reason, hint = _CERT_REASONS.get(error.verify_code, ("", ""))
        if not reason:
            reason = f"the broker's certificate is not trusted ({error.verify_message})"
            hint = "set ca= in tls= to the certificate of the authority that has signed it"
        elif error.verify_code in (62, 64):
            reason += f" than {self._host!r}"
        return _refused(reason, hint)


def _refused(reason: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.TLS_HANDSHAKE_FAILED, reason, hint=hint)
