"""One connection takes bytes in, handles requests one after the other, and sends responses in their order (rule 70).

A request begins when those before it have ended. Only produces overlap. Each appends when it begins, so a partition's
order is that of the requests. Those that wait for acks=all wait together, and the responses leave in order. While large
batches wait to be appended, nothing more begins, so that one client can't fill the memory with what waits. Bytes that
a client sends in between are kept, up to a limit, and then reading pauses. Reading also pauses while there is no room
for more of a frame (module budget), and nothing begins while the client does not take its responses. A client with many
small requests takes turns with the others.

Reads go into one buffer that all connections share, so that an idle connection costs little. A frame that comes in
pieces is gathered from there (module inbound).

Where the listener expects a login, the client is not known before its login is over, and has a limited time for it.
Until then its requests wait for turns that it shares with all clients that are not known, so that many logins at once
don't hold up the others. A login that fails ends the connection once its response is written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from ottla_broker.kafka.network.budget import LARGE, SMALL, Account, Budget
from ottla_broker.kafka.network.inbound import Inbound
from ottla_broker.kafka.network.limits import SMALL_BYTES, ConnectionLimits
from ottla_broker.kafka.network.outbound import Outbound
from ottla_broker.kafka.network.peer_end import has_ended
from ottla_broker.kafka.network.turns import Turns
from ottla_broker.kafka.wire.frames import HEAD_BYTES, SIZE_BYTES, Caller, Head, Parts, read_head, read_token_head
from ottla_broker.listener_settings import ONLY_LISTENER
from ottla_core.kafka_formats.primitives import MalformedError
from ottla_core.security.login import Login
from ottla_core.security.principal import ANONYMOUS

HandlerResult: TypeAlias = Parts | Coroutine[Any, Any, Parts | None] | None
"""A response's frame, None for no response, or a coroutine that returns one of them."""

_NOTHING: Final = memoryview(b"")
_LEAST_READ: Final = 4096


class CloseConnectionError(Exception):
    """No response is possible, so the connection has to end."""


class ListenerContext(Protocol):
    """What the connections of a listener share (listener.Listener)."""

    @property
    def limits(self) -> ConnectionLimits: ...
    @property
    def budget(self) -> Budget: ...
    @property
    def scratch(self) -> memoryview:
        """Reads go into this buffer. A connection that has read into it takes everything out before another reads."""
        ...

    @property
    def newcomers(self) -> Turns:
        """The turns of clients that have not logged in."""
        ...

    def now(self) -> float: ...

    def on_open(self, connection: KafkaConnection, client_host: str) -> bool:
        """Note a new connection. Return whether there is room for it."""
        ...

    def on_known(self, connection: KafkaConnection) -> None:
        """Note that a connection's first request is done, and its login if one is expected."""
        ...

    def on_lost(self, connection: KafkaConnection) -> None: ...
    def on_rejected(self, reason: str, client_host: str) -> None:
        """Note that a connection is cut because of what its client has done."""
        ...

    def handle(self, head: Head, frame: memoryview, caller: Caller) -> HandlerResult:
        """Begin a request. This call or its result may raise MalformedError or CloseConnectionError."""
        ...

    def may_overlap(self, key: int) -> bool:
        """Return whether a request of this API may begin while others that may overlap are open. Then nothing of its
        frame is kept."""
        ...

    def may_be_large(self, key: int) -> bool:
        """Return whether a response of this API is expected to take more than SMALL_BYTES."""
        ...

    def on_large_response(self, key: int) -> None:
        """Note that a response was large that was not expected to be."""
        ...

    def begins_large(self, connection: KafkaConnection) -> bool:
        """Return whether one more large response may begin in this turn of the loop. If not, `on_large_turn` is called
        in a later turn."""
        ...


class _Open(NamedTuple):
    """A request that has begun and is not yet answered. `held_bytes` is how much of its frame its handler may keep."""

    key: int
    response: asyncio.Task[Parts | None] | Parts
    held_bytes: int = 0

    @property
    def is_done(self) -> bool:
        return not isinstance(self.response, asyncio.Task) or self.response.done()

    def parts(self) -> Parts | None:
        return self.response.result() if isinstance(self.response, asyncio.Task) else self.response


class KafkaConnection(asyncio.BufferedProtocol):
    def __init__(
        self,
        context: ListenerContext,
        listener: str = ONLY_LISTENER,
        new_login: Callable[[], Login] | None = None,
        principal: str = ANONYMOUS,
    ) -> None:
        """Make the connection of a client. `principal` is who it is without a login."""
        self._context = context
        self._principal = principal
        self._listener = listener
        self._login = None if new_login is None else new_login()
        self._transport: asyncio.Transport | None = None
        self._account: Account
        self._out: Outbound
        self._caller: Caller
        self._inbound: Inbound | None = None  # a frame that comes in pieces
        self._rest = _NOTHING  # bytes that were read, and can't begin yet
        self._open: deque[_Open] = deque()
        self._open_bytes = 0  # bytes that the handlers of open requests may keep
        self._open_overlap = False
        self._held_bytes = 0
        self._reading = True
        self._is_known = False  # whether a request of this connection, and a login where one is due, has been done
        self._draining = False
        self._continues_soon = False
        self._opened_at = self._active_at = context.now()
        self._pace = context.limits.pace(context.limits.frame_s)
        self._waited_s = 0

    # ---- events of the transport ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        limits, client_host = self._context.limits, _host(transport, "peername")
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # all that is not taken at once is counted
        self._out = Outbound(self._transport, limits.pace(limits.write_s))
        self._account = self._context.budget.account(client_host, self)
        dialled_host = _host(transport, "sockname")
        self._caller = Caller(
            client_host,
            dialled_host,
            self._listener,
            self._account,
            login=self._login,
            certified=self._principal,
        )
        if not self._context.on_open(self, client_host):
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._inbound, self._rest = None, _NOTHING
        for entry in self._open:
            if isinstance(entry.response, asyncio.Task):
                _end(entry.response)
        self._open.clear()
        self._account.close()
        self._context.on_lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        shared, inbound = self._context.scratch, self._inbound
        if inbound is None and self._context.budget.is_ample:
            return shared
        free_bytes = self._account.free()
        # otherwise all that read in one turn of the loop would take as much as if it were free
        if free_bytes < len(shared):
            shared = shared[: max(free_bytes, _LEAST_READ)]
        if inbound is None:
            return shared
        buffer = inbound.buffer(shared, free_bytes)
        # It may have taken memory, and TLS may have no bytes for it yet. The others must not take that memory, too.
        self._hold()
        return buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._active_at = self._context.now()
        inbound = self._inbound
        if inbound is None:
            fresh = self._context.scratch[:nbytes]
            self._begin_in_turn(memoryview(bytes(self._rest) + fresh) if self._rest else fresh)
            return
        inbound.add(nbytes, self._context.scratch)
        self._pace.move(nbytes)
        if inbound.missing_bytes:
            self._settle()
            return
        self._inbound = None
        self._account.end_promise()
        self._begin_in_turn(inbound.whole())

    def eof_received(self) -> bool:
        return False  # the transport then closes itself

    def pause_writing(self) -> None:
        self._out.on_pause()

    def resume_writing(self) -> None:
        self._out.on_resume()
        self._hold()
        self._continue()

    # ---- events of the listener ----------------------------------------------------------------------------------

    def on_room(self) -> None:
        self._waited_s = 0
        self._continue()

    def on_large_turn(self) -> None:
        """Continue, because one more request may begin whose response may be large."""
        self._continue()

    def on_tick(self, now: float) -> None:
        """Check the limits of time. It is called once a second."""
        limits = self._context.limits
        if self._out.is_too_slow():
            self._context.on_rejected(
                f"the client did not take a response within {limits.write_s} s", self._caller.client_host
            )
            self.abort()
        elif self._account.waits and self._held_bytes > SMALL_BYTES:
            self._waited_s += 1
            if self._waited_s > limits.room_s:
                self._refuse(
                    f"the broker had no room for more than {self._held_bytes} bytes of a request for {limits.room_s} s"
                )
        elif self._is_due and self._pace.is_too_slow():
            self._refuse(f"a request did not arrive in time, nor at {limits.min_bytes_per_s} bytes a second")
        elif self._is_logging_in and now - self._opened_at > limits.login_s:
            self._refuse(f"the client did not log in within {limits.login_s} s")
        elif not self._open and now - self._active_at > limits.idle_s:
            self._close()
        elif self._open and not self._reading and self._transport is not None and has_ended(self._transport):
            self.abort()  # behind more requests than are read; what is open may wait for as long as it likes

    @property
    def _is_due(self) -> bool:
        """It tells whether a frame has begun to come, and its client could go on with it."""
        has_begun = self._inbound is not None or 0 < len(self._rest) < HEAD_BYTES
        return has_begun and not self._account.waits

    @property
    def _is_logging_in(self) -> bool:
        return self._login is not None and not self._login.is_over

    def drain(self) -> None:
        """Begin nothing more, answer what is open, then close."""
        self._draining = True
        if not self._open:
            self._close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ---- requests ------------------------------------------------------------------------------------------------

    def _continue(self) -> None:
        """Continue, because something has come for which the connection waited."""
        self._continues_soon = False
        if self._transport is None or self._draining:
            return
        if self._inbound is not None:
            self._settle()
        elif self._rest or not self._reading:
            self._begin(self._rest)

    def _continue_soon(self) -> None:
        if not self._continues_soon:
            self._continues_soon = True
            asyncio.get_running_loop().call_soon(self._continue)

    def _begin_in_turn(self, data: memoryview) -> None:
        """Begin what has come, in one of the turns for newcomers if the client has not logged in."""
        if self._is_logging_in:
            self._keep(data, 0)
            self._context.newcomers.take(self._caller.client_host, self._continue)
        else:
            self._begin(data)

    def _begin(self, data: memoryview) -> None:
        """Begin the requests that are there whole and may begin, and keep the rest. If the connection ends, nothing is
        kept."""
        context = self._context
        ends_at = context.now() + context.limits.slice_s
        at, whole = 0, 0
        self._out.cork()
        try:
            while not self._draining and (head := self._head_at(data, at)) is not None:
                context.limits.check_size(head.key, head.size_bytes, is_known=self._is_known)
                whole = SIZE_BYTES + head.size_bytes
                if at + whole > len(data) or not self._may_begin(head.key):
                    break
                if at and context.now() > ends_at:
                    self._continue_soon()
                    break
                self._call(head, data[at : at + whole])
                at, whole = at + whole, 0
        except (MalformedError, CloseConnectionError) as error:
            self._out.uncork()
            self._refuse(str(error))
        finally:
            self._out.uncork()
        if self._transport is not None and not self._draining:
            self._keep(data[at:], whole)

    def _head_at(self, data: memoryview, at: int) -> Head | None:
        """Return the head of the frame that begins there, or None if not enough of it is there."""
        left_bytes = len(data) - at
        if self._login is not None and self._login.expects_token:
            return read_token_head(data, at) if left_bytes >= SIZE_BYTES else None
        if left_bytes >= HEAD_BYTES:
            return read_head(data, at)
        if left_bytes >= SIZE_BYTES:  # nothing may follow a frame that is too short
            self._context.limits.check_size(None, read_token_head(data, at).size_bytes, is_known=self._is_known)
        return None

    def _may_begin(self, key: int) -> bool:
        if not self._out.is_taken or self._transport is None or self._account.is_pending:
            return False
        overlaps = self._context.may_overlap(key)
        if self._open and not (overlaps and self._open_overlap and len(self._open) < self._context.limits.max_open):
            return False
        if overlaps:
            return True  # the response to a produce holds little, and the produce holds nothing else
        if not self._context.may_be_large(key):
            return self._account.has_room(SMALL)
        return self._account.has_room(LARGE) and self._context.begins_large(self)

    def _call(self, head: Head, frame: memoryview) -> None:
        response = self._context.handle(head, frame, self._caller)
        if asyncio.iscoroutine(response):
            if not self._open:
                self._open_overlap = self._context.may_overlap(head.key)
            task = asyncio.create_task(response)
            task.add_done_callback(self._on_responded)
            held_bytes = 0 if self._open_overlap else len(frame)
            self._open_bytes += held_bytes
            self._open.append(_Open(head.key, task, held_bytes))
        elif self._open and response is not None:
            self._open.append(_Open(head.key, response))
        else:
            self._respond(head.key, response)

    def _on_responded(self, done: asyncio.Task[Parts | None]) -> None:
        reason = ""
        self._out.cork()
        try:
            while self._open and self._open[0].is_done:
                begun = self._open.popleft()
                self._open_bytes -= begun.held_bytes
                self._respond(begun.key, begun.parts())
            reason = "" if self._login is None else self._login.failure
        except (MalformedError, CloseConnectionError) as error:
            reason = str(error)
        finally:
            self._out.uncork()
        self._hold()
        self._account.give_back_all()  # after the rest of the responses that is not taken was counted
        if reason:
            self._refuse(reason)
        elif self._draining and not self._open:
            self._close()
        self._continue()

    def _respond(self, key: int, parts: Parts | None) -> None:
        if not self._is_known and not self._is_logging_in:
            self._is_known = True
            self._context.on_known(self)
        if parts is None or self._transport is None:
            return
        if self._out.write(parts) > SMALL_BYTES and not self._context.may_be_large(key):
            self._context.on_large_response(key)

    # ---- what is kept --------------------------------------------------------------------------------------------

    def _keep(self, rest: memoryview, whole: int) -> None:
        """Keep `rest`, which begins with a frame of `whole` bytes, or of an unknown length if that is 0."""
        if whole > len(rest):
            self._inbound, self._rest = Inbound(whole, rest, self._account.free()), _NOTHING
            self._pace.restart()
        elif rest:
            # It is a whole frame that waits for its turn, or the first bytes of a frame.
            self._rest = rest if rest.obj is not self._context.scratch.obj else memoryview(bytes(rest))
            self._pace.restart()
        else:
            self._rest = _NOTHING
            if not self._held_bytes and self._reading and not self._open_bytes and self._out.is_taken:
                return  # the usual case: the client does not send faster than its requests are handled
        self._settle()

    def _settle(self) -> None:
        """Count what is held now, and read on if there is room."""
        self._hold()
        has_room = self._account.has_room(self._inbound.missing_bytes) if self._inbound else not self._account.waits
        self._read_if(has_room and len(self._rest) < self._context.limits.max_waiting)

    def _hold(self) -> None:
        coming = len(self._rest) if self._inbound is None else self._inbound.held_bytes
        size_bytes = coming + self._open_bytes + self._out.held_bytes
        more, self._held_bytes = size_bytes - self._held_bytes, size_bytes
        if more and self._transport is not None:
            self._account.change(more)

    def _read_if(self, may_read: bool) -> None:
        if self._transport is None or self._transport.is_closing() or may_read == self._reading:
            return
        self._reading = may_read
        if may_read:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # ---- the end -------------------------------------------------------------------------------------------------

    def _refuse(self, reason: str) -> None:
        """Close the connection, because there is no response that the client would understand."""
        if self._transport is not None and not self._transport.is_closing():
            self._context.on_rejected(reason, self._caller.client_host)
            self._close()

    def _close(self) -> None:
        """Close once the written responses have left, or are not taken in time. Nothing more is read or begun."""
        if self._transport is not None:
            self._draining = True
            self._inbound, self._rest = None, _NOTHING
            self._hold()
            self._transport.close()


def _end(response: asyncio.Task[Parts | None]) -> None:
    """Cancel a response for which no client waits any longer. It is cancelled once it has begun: a coroutine that never
    runs drops the coroutines for which it was to wait, and Python writes a warning for each."""
    response.add_done_callback(_forget)
    response.get_loop().call_soon(response.cancel)


def _forget(done: asyncio.Task[Parts | None]) -> None:
    if not done.cancelled():
        done.exception()  # retrieved, or asyncio logs it as an exception that was never retrieved


def _host(transport: asyncio.BaseTransport, name: str) -> str:
    address = transport.get_extra_info(name)
    return str(address[0]) if isinstance(address, tuple) else ""
