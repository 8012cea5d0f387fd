"""Runs TLS in memory: bytes of the socket go in and out on one side, and the client's data on the other.

`ssl.SSLObject` does the work. Nothing here waits, and no socket is known.
"""

from __future__ import annotations

import contextlib
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Final, cast

RECORD_BYTES: Final = 16 * 1024
"""The most data in one record of TLS. Smaller pieces are joined, because each record costs 22 bytes and a call."""
_NOTHING: Final = memoryview(b"")


class TlsSession:
    """The broker's side of one connection's TLS.

    The buffers in memory never shrink, so each is emptied before it takes more than about one record.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.unsealed_bytes = 0
        self.has_ended = False
        """Whether the client has said that it sends nothing more (close_notify)."""
        self._coming = _NOTHING
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: Final = context.wrap_bio(self._in, self._out, server_side=True)
        self._unsealed: Final[deque[memoryview]] = deque()

    # ---- from the socket -------------------------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """It tells whether bytes that were taken have not gone through TLS."""
        return bool(self._coming)

    def take(self, sealed: memoryview) -> None:
        """Take bytes that the client has sent. They stay where they are until `open_into` or `keep`."""
        self._coming = memoryview(bytes(self._coming) + sealed) if self._coming else sealed

    def keep(self) -> None:
        """Copy what is left of the bytes that were taken, because their memory is for others now."""
        if self._coming:
            self._coming = memoryview(bytes(self._coming))

    def shake_hands(self) -> bool:
        """Take the next step of the handshake, and return whether it is finished. Raises SSLError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if not self._coming:
                    return False
                self._feed(RECORD_BYTES)
            else:
                return True

    def open_into(self, buffer: memoryview) -> int:
        """Write data of the client to the buffer, and return how many bytes.

        0 means that there are none for now, or that a step has brought none although there is more: a client may send
        nothing but changes of its keys, each of which costs time. Raises SSLError for records that are damaged.
        """
        count, is_step_over = 0, False
        while count < len(buffer) and not self.has_ended:
            try:
                opened = cast(int, self._tls.read(len(buffer) - count, buffer[count:]))
            except ssl.SSLWantReadError:
                if is_step_over or not self._coming:
                    break
                is_step_over = True
                self._feed(RECORD_BYTES)
            except ssl.SSLZeroReturnError:
                self.has_ended = True
            else:
                count, is_step_over = count + opened, False
                self.has_ended = not opened
        return count

    def certificate(self) -> bytes | None:
        """Return the client's certificate in DER, or None if it has shown none."""
        return self._tls.getpeercert(binary_form=True)

    # ---- to the socket ---------------------------------------------------------------------------------------------

    def write(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        """Keep data for the client until it is sealed."""
        for part in parts:
            if part:
                self._unsealed.append(memoryview(part))
                self.unsealed_bytes += len(part)

    def seal(self, size_bytes: int) -> list[bytes]:
        """Return at least `size_bytes` of the data as records, or all of it. Raises SSLError if TLS has failed."""
        ends_at, records = self.unsealed_bytes - size_bytes, []
        while self._unsealed and self.unsealed_bytes > ends_at:
            piece = self._next_piece()
            sealed_bytes = self._tls.write(piece)
            if sealed_bytes < len(piece):  # the client takes only small records (max_fragment_length)
                self._unsealed.appendleft(memoryview(piece)[sealed_bytes:])
            self.unsealed_bytes -= sealed_bytes
            records.append(self._out.read())
        return records

    def pending(self) -> bytes:
        """Return what TLS itself has to say: a step of the handshake, or an alert."""
        return self._out.read()

    def end(self) -> bytes:
        """Return the message that nothing more follows (close_notify), if TLS still takes it."""
        with contextlib.suppress(ssl.SSLError):  # the client has not sent its own, and need not
            self._tls.unwrap()
        return self._out.read()

    def drop(self) -> None:
        """Forget the data that is not sealed."""
        self._unsealed.clear()
        self.unsealed_bytes = 0

    def _feed(self, size_bytes: int) -> None:
        """Give TLS the first bytes of those that have come."""
        self._in.write(self._coming[:size_bytes])
        self._coming = self._coming[size_bytes:]

    def _next_piece(self) -> memoryview | bytes:
        """Take at most one record's data from the front: a slice of a large part, or small parts joined."""
        first = self._unsealed.popleft()
        if len(first) >= RECORD_BYTES:
            if len(first) > RECORD_BYTES:
                self._unsealed.appendleft(first[RECORD_BYTES:])
            return first[:RECORD_BYTES]
        joined = bytearray(first)
        while self._unsealed and len(joined) < RECORD_BYTES:
            part, room = self._unsealed.popleft(), RECORD_BYTES - len(joined)
            joined += part[:room]
            if len(part) > room:
                self._unsealed.appendleft(part[room:])
        return bytes(joined)
