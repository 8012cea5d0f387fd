"""A connection with its socket.

*Who changes the connection.* Every change is a request in the inbox. Most threads carry out the requests themselves,
with the line's lock held, and write to the socket at once. So the producer's thread does not depend on another one. The
main thread only hands its request to the network's thread. Signal handlers run in the main thread, and a handler that
raises would leave a change half done.

*Who reports.* The network's thread reports outcomes, without the lock and in order. `on_ending` comes before the
outcomes that the end of the line causes, and `on_ended` after them. A call that began at the very moment when the line
ended may fail after that.
"""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import time
from collections import deque
from collections.abc import Callable
from threading import Event, Lock, Thread, current_thread, main_thread
from typing import Any, Final, Protocol, TypeAlias

from ottla.client.condition import sleep_s
from ottla.client.kafka.call import Answered, Call, Ended, Failed
from ottla.client.kafka.connection import CONNECT_S, KafkaConnection, Phase
from ottla.client.kafka.lines import Waiter
from ottla.client.kafka.login import SPREAD, USED
from ottla.client.kafka.sockets.logins import LoginThreads
from ottla.client.kafka.sockets.pending import Pending
from ottla.client.kafka.sockets.protection import Protection
from ottla.client.kafka.sockets.wire import Wire
from ottla.errors import ErrorCode, OttlaError
from ottla_core.clock import Clock
from ottla_core.host_port import HostPort
from ottla_core.kafka.message import Message
from ottla_core.rpc.deadlines import NEVER
from ottla_core.sockets.keepalive import keep_alive

_log = logging.getLogger("ottla.network")

_READ_BYTES: Final = 64 * 1024
_MOST_READ_BYTES: Final = 1024 * 1024
"""The bounds of one read. Each read releases the interpreter lock, and while another thread is busy, it takes up to 5
ms to get the lock back. So a large response has to come in few reads."""
_LEAST_DIAL_S: Final = 2.0
"""An address has at least this much time to accept a connection. It covers a lost packet, which is sent again after a
second."""
_END_LIMIT_S: Final = 5.0
"""How long a close waits for the network's thread."""
_LATE_S: Final = 5.0
"""How long a caller waits beyond the deadline of its call, in case the network's thread gets no CPU."""

Connection: TypeAlias = KafkaConnection[Waiter]


class Keeper(Protocol):
    """What a line needs of the network whose thread looks after it."""

    @property
    def client_id(self) -> str: ...
    @property
    def software_version(self) -> str: ...
    @property
    def protection(self) -> Protection: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def logins(self) -> LoginThreads: ...

    @property
    def is_current(self) -> bool:
        """Whether the current thread is the network's own."""
        ...

    def has(self, line: Line) -> bool:
        """Whether the thread looks after this line. It does so until the line is over."""
        ...

    def wake(self, line: Line) -> None:
        """Have the thread look after this line."""
        ...

    def is_due(self, at: float) -> bool:
        """Whether the thread has to be woken to be awake at that time."""
        ...

    def register(self, line: Line, connection: socket.socket, *, writes: bool) -> None:
        """Wait for this socket from now on."""
        ...

    def unregister(self, connection: socket.socket) -> None:
        """Stop waiting for this socket."""
        ...


class Line:
    """A connection with its socket. Thread-safe; only `ask` and `close` wait."""

    def __init__(
        self,
        address: str,
        network: Keeper,
        on_ending: Callable[[Line, OttlaError], None],
        on_ended: Callable[[OttlaError], None],
    ) -> None:
        self.address: Final = address
        self.due_at = -NEVER
        """When the network's thread has to look after the line, at the latest."""
        self.ended: OttlaError | None = None
        """Why the line is over. It is set before the last outcomes are reported."""
        self.was_closed = False
        """Whether this side has ended it, so that its end says nothing about the broker."""
        self._leaves_by = -NEVER
        self._network: Final[Keeper] = network
        self._on_ending: Final = on_ending
        self._on_ended: Final = on_ended
        self._connection: Final[Connection] = KafkaConnection(
            address,
            network.client_id,
            network.software_version,
            network.clock.monotonic(),
            logs_in=network.protection.login is not None,
            login_used=USED + random.uniform(-SPREAD, SPREAD),  # noqa: S311 - it need not be unpredictable
        )
        self._inbox: Final[deque[Callable[[Connection], None]]] = deque()
        self._lock: Final = Lock()
        self._arrived: socket.socket | OSError | None = None
        self._socket: socket.socket | None = None
        self._wire: Wire | None = None
        self._is_blocked = self._waits_for_room = self._is_broken = self._has_half_closed = False
        self._over: Final = Event()

    # ---- for every thread --------------------------------------------------------------------------------------------

    def begin(self, call: Call[Waiter]) -> None:
        """Begin a call, whose waiter gets the outcome. Raises OttlaError if the line is over, or has no room.

        The line may end right after this check. The call then fails a little later.
        """
        if (refusal := self._connection.refusal) is not None:
            message = f"{call.api.name} at {self.address}: {refusal.message}"
            raise OttlaError(refusal.code, message, hint=refusal.hint)
        self._request(lambda connection: connection.call(call))

    def ask(self, call: Call[Waiter], pending: Pending) -> Answered[Any]:
        """Make a call, and wait for the response. Raises OttlaError."""
        try:
            self.begin(call)
            outcome = pending.wait(call.deadline + _LATE_S, self._network.clock)
        except BaseException:
            self._request(lambda connection: connection.give_up(call))
            raise
        match outcome:
            case Answered():
                return outcome
            case Failed(error=error):
                raise error
            case _:
                raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, f"{call.api.name} at {self.address}: no response in time")

    def message(self, answered: Answered[Any]) -> Message:
        """Return a response, and pause the line if it asks for that. Raises OttlaError if its bytes make no sense."""
        message = answered.message()
        if (pause_ms := getattr(message, "throttle_time_ms", 0)) > 0:  # responses that brokers send each other lack it
            self._request(lambda connection: connection.pause(pause_ms / 1000, self._network.clock.monotonic()))
        return message

    def leave(self, timeout: float) -> None:
        """End the line in `timeout` seconds, unless it ends before. This does not wait, but a later `close` does."""
        self.was_closed = True
        self._leaves_by = until = self._network.clock.monotonic() + timeout
        self._request(lambda connection: connection.end_by(until))

    def close(self, reason: str, *, timeout: float = 0.0) -> None:
        """End the line; open calls fail. Before that the broker has `timeout` seconds to take and answer what was
        sent."""
        self.was_closed = True
        if timeout > 0:
            self._request(KafkaConnection.finish)
            self._wait_over(timeout)
        self._wait_over(self._leaves_by - self._network.clock.monotonic())
        self.end(reason)
        self._wait_over(_END_LIMIT_S)

    def end(self, reason: str) -> None:
        """End the line, but do not wait until it is over. Open calls fail."""
        self.was_closed = True
        self._request(lambda connection: connection.close(reason))

    def _wait_over(self, timeout: float) -> None:
        # The network's thread would wait for itself. And no thread looks after a line that a signal handler has kept
        # from the network.
        if self._network.is_current or not self._network.has(self):
            return
        until = self._network.clock.monotonic() + timeout
        while (left := until - self._network.clock.monotonic()) > 0 and not self._over.wait(sleep_s(left)):
            pass

    def _request(self, change: Callable[[Connection], None]) -> None:
        self._inbox.append(change)
        if current_thread() is main_thread():
            self._network.wake(self)
        else:
            with self._lock:
                wants_thread = self._advance()
            if wants_thread:
                self._network.wake(self)
        if self._over.is_set():  # no other thread looks at it any more
            self._tell_late()

    def _advance(self) -> bool:
        """Carry out the inbox, and write. Return whether the network's thread has something to do. The lock is held."""
        while self._inbox:
            self._inbox.popleft()(self._connection)
        self._write()
        due_at = self._connection.next_deadline
        is_due = self._network.is_due(due_at)
        self.due_at = min(self.due_at, due_at)
        connection = self._connection
        has_news = connection.has_outcomes or connection.ended is not None or connection.half_closes
        return (
            has_news or connection.seeks_login or is_due or self._is_broken or self._is_blocked != self._waits_for_room
        )

    def _write(self) -> None:
        """Write as much as the socket takes."""
        if self._wire is None or self._is_broken:
            return
        self._is_blocked = False
        try:
            self._wire.flush()
            while pieces := self._connection.output():
                self._connection.on_written(self._wire.send(pieces))
                self._wire.flush()
        except BlockingIOError:
            self._is_blocked = True
        except OSError:
            # The broker may have sent the reason before, so the line goes on until that is read.
            self._is_broken = True

    # ---- for the network's thread ------------------------------------------------------------------------------------

    def look_after(self, *, reads: bool) -> bool:
        """Do what there is to do, and return whether the line is over."""
        if self._over.is_set():
            return True
        data = self._read() if reads else None
        with self._lock:
            now = self._network.clock.monotonic()
            self._take_arrived(now)
            if data is not None:
                self._take_in(data, now)
            if self.due_at <= now:
                # The next deadline is computed only here, and not whenever a call ends. So the thread may wake at a
                # deadline that is void by then, but a call with a later deadline need not wake it.
                self._connection.on_time(now)
                self.due_at = self._connection.next_deadline
            self._advance()
            if self._socket is not None and self._is_blocked != self._waits_for_room:
                self._waits_for_room = self._is_blocked
                self._network.register(self, self._socket, writes=self._is_blocked)
            if self._connection.half_closes and self._wire is not None:
                self._half_close(self._wire)
            if seeks_login := self._connection.seeks_login:
                self._connection.begin_login(now)
                self.due_at = min(self.due_at, self._connection.next_deadline)
            self.ended = self._connection.ended
            outcomes = self._connection.take_outcomes()
        if seeks_login:
            self._network.logins.begin(self)
        if self.ended is not None:
            self._on_ending(self, self.ended)
        for outcome in outcomes:
            self._tell(outcome)
        if self.ended is None:
            return False
        self._end(self.ended)
        return True

    def _half_close(self, wire: Wire) -> None:
        if not self._has_half_closed and not self._is_blocked:  # while it is blocked, TLS has bytes for the socket
            self._has_half_closed = True
            with contextlib.suppress(OSError):
                wire.finish()

    def fail(self) -> bool:
        """End the line after a bug."""
        with self._lock:
            self._connection.close("a bug in the client; see its log")
        return self.look_after(reads=False)

    def abandon(self) -> None:
        """Close a forked child's copy of the socket. The parent's stays open."""
        if self._socket is not None:
            self._socket.close()

    def connect(self) -> None:
        """Connect on a separate thread, since looking up a name may take any time."""
        Thread(target=self._connect, name=f"ottla-connect-{self.address}", daemon=True).start()

    def _connect(self) -> None:
        arrived: socket.socket | OSError
        try:
            arrived = _dialled(HostPort.parse(self.address))
            arrived.setblocking(False)
            arrived.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(arrived)
        except OSError as error:
            arrived = error
        except (ValueError, OttlaError) as error:
            arrived = OSError(error.message if isinstance(error, OttlaError) else str(error))
        with self._lock:
            self._arrived = arrived
            is_late = self._connection.ended is not None
        if is_late and isinstance(arrived, socket.socket):
            arrived.close()
        self._network.wake(self)

    def get_credentials(self) -> None:
        """Get the credentials for a login, and log in. This may take any time."""
        login = self._network.protection.login
        assert login is not None, "only a connection with a login seeks one"
        try:
            conversation = login.conversation()
        except OttlaError as error:
            refusal = error
        except BaseException as error:  # the user's function may raise anything
            _log.exception("%s: there are no credentials for the login", self.address)
            # urllib, requests and sockets raise this if a server does not answer, which another call may change.
            is_passing = isinstance(error, OSError)
            code = ErrorCode.NETWORK_EXCEPTION if is_passing else ErrorCode.SASL_AUTHENTICATION_FAILED
            reason = f"the function that returns the token has raised {type(error).__name__}; the log has the traceback"
            refusal = OttlaError(code, reason, hint="" if is_passing else "mend the function in login=")
        else:
            self._request(lambda connection: connection.log_in(conversation))
            return
        now = self._network.clock.monotonic()
        self._request(lambda connection: connection.refuse_login(refusal, now))

    @property
    def _host(self) -> str:
        return HostPort.parse(self.address).host

    def _take_arrived(self, now: float) -> None:
        arrived, self._arrived = self._arrived, None
        if isinstance(arrived, OSError):
            self._connection.on_lost(arrived.strerror or str(arrived))
        elif arrived is not None and self._connection.phase is Phase.CONNECTING:
            self._socket = arrived
            self._network.register(self, arrived, writes=False)
            self._connection.on_accepted()
            try:
                self._wire = self._network.protection.wire(arrived, self._host)
            except (ValueError, OSError) as error:
                self._connection.on_lost(f"TLS can't be used with this host name: {error}")
                return
            self._take_open(now)
        elif arrived is not None:
            arrived.close()

    def _take_in(self, data: bytes, now: float) -> None:
        """Take in what came over the socket, b"" if the broker has closed."""
        assert self._wire is not None
        try:
            for opened in self._wire.opened(data) if data else (b"",):
                self._take_open(now)
                self._connection.on_bytes(opened) if opened else self._connection.on_closed()
        except OttlaError as error:
            self._connection.refuse(error)
        self._take_open(now)

    def _take_open(self, now: float) -> None:
        assert self._wire is not None
        if self._wire.is_open:
            self._connection.on_connected(now)

    def _read(self) -> bytes | None:
        """Return what came, b"" if the broker has closed, None if nothing came."""
        if self._socket is None:
            return None
        try:
            return self._socket.recv(min(max(_READ_BYTES, self._connection.expected_bytes), _MOST_READ_BYTES))
        except BlockingIOError:
            return None
        except OSError as error:
            with self._lock:
                self._connection.on_lost(error.strerror or str(error))
            return None

    def _tell(self, outcome: Ended[Waiter]) -> None:
        try:
            outcome.call.waiter(outcome)
        except BaseException:  # the other outcomes have to be reported all the same
            _log.exception("%s at %s: handling the outcome failed", outcome.call.api.name, self.address)

    def _end(self, error: OttlaError) -> None:
        if self._socket is not None:
            self._network.unregister(self._socket)
            with contextlib.suppress(OSError):  # a forked child may have a copy, and the end must be seen all the same
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        try:
            self._on_ended(error)
        except BaseException:
            _log.exception("%s: handling the end of the line failed", self.address)
        self._over.set()
        self._tell_late()

    def _tell_late(self) -> None:
        """Report the outcomes of calls that began while the line ended."""
        with self._lock:
            self._advance()
            outcomes = self._connection.take_outcomes()
        for outcome in outcomes:
            self._tell(outcome)


def _dialled(place: HostPort) -> socket.socket:
    """Connect to the first of the host's addresses that accepts. Raises OSError."""
    addresses = list(dict.fromkeys(socket.getaddrinfo(*place, type=socket.SOCK_STREAM)))
    until, last = time.monotonic() + CONNECT_S, OSError(f"{place.host} has no address")
    for tried, (family, kind, protocol, _, address) in enumerate(addresses):
        dialled = socket.socket(family, kind, protocol)
        # They share the time, or an address that drops packets would use up what the others need.
        dialled.settimeout(max(_LEAST_DIAL_S, (until - time.monotonic()) / (len(addresses) - tried)))
        try:
            dialled.connect(address)
        except OSError as error:
            dialled.close()
            last = error
        else:
            return dialled
    raise last
