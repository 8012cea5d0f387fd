"""Puts TLS between a socket and its KafkaConnection, which does not know of it.

For the socket this is asyncio's protocol, and for the connection it is the transport. The connection is made when the
handshake is done, so whoever gets no further costs no more than a handshake (module tls_port).

Responses are sealed piece by piece, as the socket takes them. So a large response is in memory once, whatever the
client takes of it. What the client sends is opened right into the connection's buffers. While the connection does not
read, nothing is read from the socket either, and at most one read's bytes wait here.

Signing in a handshake and sealing large responses take the loop's time, so connections take turns (module turns).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, cast

from ottla_broker.kafka.network.tls_failures import HANDSHAKE_RECORD, handshake_failure, record_failure
from ottla_broker.kafka.network.tls_port import TlsPort
from ottla_broker.kafka.network.tls_session import RECORD_BYTES
from ottla_core.event_loop.slices import Slice
from ottla_core.security.principal import NoPrincipalError

_SEALED_AT_ONCE: Final = 4 * RECORD_BYTES
"""How much is sealed for one write to the socket."""
_MOST_UNTAKEN: Final = 2 * _SEALED_AT_ONCE
"""Responses are sealed only if the socket takes them, so they leave less than this in its buffer."""
_LEAST_READ: Final = 4096
_ALERT: Final = bytes.fromhex("15030300020228")
"""The alert handshake_failure. OpenSSL says nothing to a client that does not speak TLS. Kafka does, and clients
recognize a port with TLS by it."""
_SEALED_IN_A_TURN: Final = 16 * RECORD_BYTES
"""How much of a response is sealed before others have their turn: less than a millisecond's work."""


class _Phase(Enum):
    HANDSHAKE = "the client is not known, and there is no connection"
    OPEN = "data goes both ways"
    CLOSING = "nothing is read, and what was written leaves"
    CLOSED = "the socket closes itself"


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """Calls `new_connection` with the client's principal when the handshake is done."""

    def __init__(self, port: TlsPort, new_connection: Callable[[str], asyncio.BufferedProtocol]) -> None:
        super().__init__()
        self._port: Final = port
        self._new_connection: Final = new_connection
        self._session: Final = port.new_session()
        self._phase = _Phase.HANDSHAKE
        self._socket: asyncio.Transport
        self._client_host = ""
        self._connection: asyncio.BufferedProtocol | None = None
        self._handshake_bytes = 0
        self._is_answered = False
        self._first_byte = 0
        self._socket_takes = True
        self._writing_paused = False  # what the connection was told
        self._reading = True  # what the connection wants
        self._socket_reads = True

    # ---- events of the socket --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._socket.set_write_buffer_limits(high=0)  # it tells at once when it does not take everything
        address = transport.get_extra_info("peername")
        self._client_host = str(address[0]) if isinstance(address, tuple) else ""
        self._port.on_begin(self, self._client_host)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._phase is _Phase.HANDSHAKE and self._handshake_bytes:
            self._port.on_rejected("the client has ended the connection in the TLS handshake", self._client_host)
        self._phase = _Phase.CLOSED
        self._forget()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return room for about as much as the connection takes, because the rest waits here and counts nowhere."""
        scratch, connection = self._port.scratch, self._connection
        if connection is None:
            return scratch
        return scratch[: max(len(memoryview(connection.get_buffer(-1))), _LEAST_READ)]

    def buffer_updated(self, nbytes: int) -> None:
        sealed = self._port.scratch[:nbytes]
        match self._phase:
            case _Phase.HANDSHAKE:
                self._on_handshake(sealed)
            case _Phase.OPEN:
                self._session.take(sealed)
                self._deliver()
            case _:
                pass  # it came in the turn in which reading was paused, and nobody wants it

    def eof_received(self) -> bool:
        """Close once the written responses have left. The socket would close itself with data that is not sealed."""
        if self._phase is _Phase.HANDSHAKE:
            return False
        self.close()
        return True

    def pause_writing(self) -> None:
        self._socket_takes = False

    def resume_writing(self) -> None:
        self._socket_takes = True
        self._seal()

    # ---- the handshake ---------------------------------------------------------------------------------------------

    def _on_handshake(self, sealed: memoryview) -> None:
        if not self._handshake_bytes:
            self._first_byte = sealed[0]
        self._handshake_bytes += len(sealed)
        self._session.take(sealed)
        self._session.keep()
        # More may come before the turn, even requests, and would be taken for a handshake that is too long.
        self._socket_reads = False
        self._socket.pause_reading()
        self._port.on_heard(self)
        self._port.newcomers.take(self._client_host, self._shake_hands)

    def _shake_hands(self) -> None:
        try:
            is_done = self._session.shake_hands()
        except ssl.SSLError as error:
            if self._first_byte != HANDSHAKE_RECORD:
                self._socket.write(_ALERT)
            self.refuse(handshake_failure(error, self._first_byte))
            return
        self._is_answered |= self._send_pending()
        if is_done:
            self._open()
        elif self._handshake_bytes > self._port.limits.max_handshake_bytes:
            self.refuse(f"the client has sent {self._handshake_bytes} bytes, and the TLS handshake is not done")
        else:
            self._port.on_waiting(self, is_answered=self._is_answered)
            self._socket_reads = True
            self._socket.resume_reading()

    def _open(self) -> None:
        try:
            principal = self._port.principal(self._session.certificate())
        except NoPrincipalError as error:
            self.refuse(str(error))
            return
        self._phase = _Phase.OPEN
        self._port.on_end(self, self._client_host)
        self._connection = self._new_connection(principal)
        self._connection.connection_made(self)
        self._tell_connection()
        self._deliver()  # clients may send a request right behind their last message of the handshake

    def refuse(self, reason: str) -> None:
        """End the connection, because TLS has failed. The client gets an alert, if TLS has one for it."""
        if self._phase in (_Phase.HANDSHAKE, _Phase.OPEN):
            self._port.on_rejected(reason, self._client_host)
            self._phase = _Phase.CLOSED
            self._send_pending()
            self._forget()
            if self._socket_takes:
                self._socket.close()
            else:
                self._socket.abort()  # closing would wait for a client that takes nothing

    def _forget(self) -> None:
        self._port.on_end(self, self._client_host)
        self._port.newcomers.drop(self._client_host, self._shake_hands)
        self._port.newcomers.drop(self._client_host, self._finish)
        self._port.turns.drop(self._client_host, self._seal)
        self._port.turns.drop(self._client_host, self._deliver)
        self._session.drop()

    # ---- data ------------------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Give the connection what TLS opens, as long as it reads, and for a while. Then others have their turn."""
        connection, session = self._connection, self._session
        if connection is None or self._phase is not _Phase.OPEN:
            return
        slice_ = Slice()
        try:
            while self._reading and self._phase is _Phase.OPEN:
                if count := session.open_into(memoryview(connection.get_buffer(-1))):
                    connection.buffer_updated(count)
                elif not session.has_more:
                    break
                if slice_.is_over and session.has_more:
                    self._port.turns.take(self._client_host, self._deliver)
                    break
        except ssl.SSLError as error:
            self.refuse(record_failure(error))
            return
        session.keep()
        self._send_pending()
        if session.has_ended:
            self.close()
        self._read_socket_if_due()

    def _send_pending(self) -> bool:
        """Send what TLS itself has to say, and return whether it had anything to say. It fills the socket only if the
        client asks for more and more of it."""
        said = self._session.pending()
        if said:
            self._socket.write(said)
            if self._phase is _Phase.OPEN and self._socket.get_write_buffer_size() > _MOST_UNTAKEN:
                self.refuse("the client changes its TLS keys, and does not take the answers")
        return bool(said)

    def _read_socket_if_due(self) -> None:
        is_due = self._reading and self._phase is _Phase.OPEN and not self._session.has_more
        if is_due is not self._socket_reads and not self._socket.is_closing():
            self._socket_reads = is_due
            if is_due:
                self._socket.resume_reading()
            else:
                self._socket.pause_reading()

    def _seal(self) -> None:
        """Seal what the socket takes, for a while."""
        session, left_bytes = self._session, _SEALED_IN_A_TURN
        try:
            while session.unsealed_bytes and self._socket_takes and left_bytes > 0:
                self._socket.writelines(session.seal(_SEALED_AT_ONCE))  # it may call `pause_writing`
                left_bytes -= _SEALED_AT_ONCE
        except ssl.SSLError as error:
            self.refuse(record_failure(error))
            return
        if session.unsealed_bytes and self._socket_takes:
            self._port.turns.take(self._client_host, self._seal)
        self._tell_connection()

    def _tell_connection(self) -> None:
        """Tell the connection whether all that it has written was taken, and close if it has closed."""
        is_taken = self._socket_takes and not self._session.unsealed_bytes
        if self._connection is not None and is_taken is self._writing_paused:
            self._writing_paused = not is_taken
            if is_taken:
                self._connection.resume_writing()
            else:
                self._connection.pause_writing()
        self._finish_if_due()

    def _finish_if_due(self) -> None:
        if self._phase is _Phase.CLOSING and not self._session.unsealed_bytes:
            # Many clients may end at once, and each end takes two system calls.
            self._port.newcomers.take(self._client_host, self._finish)

    def _finish(self) -> None:
        self._phase = _Phase.CLOSED
        self._socket.write(self._session.end())
        self._socket.close()

    # ---- for the connection ----------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the connection is always told when the client does not take everything at once."""

    def get_write_buffer_size(self) -> int:
        return self._session.unsealed_bytes + self._socket.get_write_buffer_size()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self._phase is _Phase.OPEN:
            self._session.write(list_of_data)
            self._seal()

    def pause_reading(self) -> None:
        self._reading = False
        self._read_socket_if_due()

    def resume_reading(self) -> None:
        self._reading = True
        # TLS may have kept data. The connection is in the middle of a call of its own, and gets it after that.
        asyncio.get_running_loop().call_soon(self._deliver)

    def is_closing(self) -> bool:
        return self._phase in (_Phase.CLOSING, _Phase.CLOSED)

    def close(self) -> None:
        if self._phase is _Phase.OPEN:
            self._phase = _Phase.CLOSING
            self._read_socket_if_due()
            self._finish_if_due()

    def abort(self) -> None:
        self._phase = _Phase.CLOSED
        self._forget()
        self._socket.abort()
