"""One connection: bytes in, requests one after the other, answers in their order (rule 70).

A request is begun when those before it have ended. Only produces overlap: each appends when it is begun, so a
partition's order is that of the requests, and those that wait for acks=all wait together; the answers leave in order.
What a client sends meanwhile is kept, up to a limit, and then reading pauses. So it does while the client does not
take its answers, and while all connections together hold too much (module limits).

Reads go into one buffer that all connections share, for an idle connection is to cost little. A frame that comes in
pieces has a buffer of its own, and is read straight into it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, Protocol, TypeAlias, cast

from ottla_broker.kafka.frames import HEAD_BYTES, SIZE_BYTES, Caller, Head, Parts, read_head
from ottla_broker.kafka.limits import Budget, Limits
from ottla_broker.listener_settings import ONLY_LISTENER
from ottla_core.primitives import MalformedError

Answered: TypeAlias = Parts | Coroutine[Any, Any, Parts | None] | None
"""An answer's frame, None for silence, or what will give one of them."""

_WRITE_HIGH_BYTES: Final = 1024 * 1024
_SMALL_ANSWER_BYTES: Final = 4096
"""Of those that leave together; a read of 256 KiB holds some thousand requests at most."""

_NOTHING: Final = memoryview(b"")


class CloseConnectionError(Exception):
    """The only possible answer is to end the connection."""


class Surroundings(Protocol):
    """What the connections of a listener share (listener.Listener)."""

    @property
    def limits(self) -> Limits: ...
    @property
    def budget(self) -> Budget: ...
    @property
    def scratch(self) -> memoryview:
        """Where reads go. Who has been read into it takes everything out before anybody else reads."""
        ...

    def now(self) -> float: ...

    def on_open(self, connection: Connection) -> bool:
        """Whether there is a place for one more."""
        ...

    def on_lost(self, connection: Connection) -> None: ...
    def on_refused(self, why: str, client_host: str) -> None:
        """A connection is cut for what its client has done."""
        ...

    def handle(self, head: Head, frame: memoryview, caller: Caller) -> Answered:
        """Begin a request. It, or what it gives, may raise MalformedError or CloseConnectionError."""
        ...

    def may_overlap(self, key: int) -> bool:
        """Whether a request of this API may begin while others that may are open."""
        ...


class Connection(asyncio.BufferedProtocol):
    def __init__(self, around: Surroundings, listener: str = ONLY_LISTENER) -> None:
        self._around = around
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._caller = Caller("", "")
        self._frame: memoryview | None = None  # comes in pieces, `_filled` bytes of it are there
        self._filled = 0
        self._rest = _NOTHING  # was read, and can't begin yet
        self._open: deque[asyncio.Task[Parts | None] | Parts] = deque()  # has begun and is not yet answered
        self._open_overlap = False
        self._answers: Parts | None = None  # those of one read, to leave together; None outside of it
        self._held_bytes = 0
        self._reading = True
        self._waits_for_room = False
        self._draining = False
        self._active_at = around.now()
        self._frame_due_at: float | None = None
        self._write_due_at: float | None = None

    # ---- events of the transport ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self._caller = Caller(_host(transport, "peername"), _host(transport, "sockname"), self._listener)
        if not self._around.on_open(self):
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._frame, self._rest = None, _NOTHING
        for each in self._open:
            if isinstance(each, asyncio.Task):
                each.cancel()
        self._open.clear()
        self._hold(0)
        self._around.on_lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._around.scratch if self._frame is None else self._frame[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._active_at = self._around.now()
        if self._frame is None:
            fresh = self._around.scratch[:nbytes]
            self._begin(memoryview(bytes(self._rest) + fresh) if self._rest else fresh)
            return
        self._filled += nbytes
        if self._filled == len(self._frame):
            frame, self._frame = self._frame, None
            self._begin(frame)

    def eof_received(self) -> bool:
        return False  # and the transport closes itself

    def pause_writing(self) -> None:
        self._write_due_at = self._around.now() + self._around.limits.write_s
        self._note_held()

    def resume_writing(self) -> None:
        self._write_due_at = None
        self._note_held()
        self._go_on()

    # ---- events of the listener ----------------------------------------------------------------------------------

    def on_room(self) -> None:
        self._waits_for_room = False
        self._go_on()

    def on_tick(self, now: float) -> None:
        limits = self._around.limits
        if self._frame_due_at is not None and now > self._frame_due_at:
            self._refuse("a request has not come whole in time")
        elif self._write_due_at is not None and now > self._write_due_at:
            self._around.on_refused(f"an answer was not taken within {limits.write_s:g} s", self._caller.client_host)
            self.abort()
        elif not self._open and now - self._active_at > limits.idle_s:
            self._close()

    def drain(self) -> None:
        """Begin nothing more, answer what is open, then close."""
        self._draining = True
        if not self._open:
            self._close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ---- requests ------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Something that was waited for has come."""
        if self._transport is not None and self._frame is None and (self._rest or not self._reading):
            self._begin(self._rest)

    def _begin(self, data: memoryview) -> None:
        """Begin what is there whole and may begin; keep the rest. Nothing of it where the connection ends."""
        at, whole = 0, 0
        self._answers = []
        try:
            while len(data) - at >= HEAD_BYTES and not self._draining:
                head = read_head(data, at)
                self._around.limits.check_size(head.key, head.size_bytes)
                whole = SIZE_BYTES + head.size_bytes
                if at + whole > len(data) or not self._may_begin(head.key):
                    break
                self._call(head, data[at : at + whole])
                at, whole = at + whole, 0
        except (MalformedError, CloseConnectionError) as error:
            self._send_gathered()
            self._refuse(str(error))
        finally:
            self._send_gathered()
            self._answers = None
        if (
            not self._draining
            and self._transport is not None
            and (at < len(data) or self._held_bytes or not self._reading)
        ):
            self._keep(data[at:], whole)

    def _may_begin(self, key: int) -> bool:
        if self._write_due_at is not None or self._transport is None:
            return False
        if not self._around.may_overlap(key) and not self._has_room():
            return False  # its answer may be large, which that to a produce is not
        if not self._open:
            return True
        return self._open_overlap and len(self._open) < self._around.limits.max_open and self._around.may_overlap(key)

    def _call(self, head: Head, frame: memoryview) -> None:
        answered = self._around.handle(head, frame, self._caller)
        if answered is None:
            return
        if isinstance(answered, list):
            if self._open:
                self._open.append(answered)
            else:
                self._write(answered)
            return
        if not self._open:
            self._open_overlap = self._around.may_overlap(head.key)
        task = asyncio.create_task(answered)
        task.add_done_callback(self._on_answered)
        self._open.append(task)

    def _on_answered(self, done: asyncio.Task[Parts | None]) -> None:
        while self._open:
            first = self._open[0]
            if isinstance(first, asyncio.Task) and not first.done():
                break
            self._open.popleft()
            try:
                parts = first.result() if isinstance(first, asyncio.Task) else first
            except (MalformedError, CloseConnectionError) as error:
                self._refuse(str(error))
                return
            if parts is not None:
                self._write(parts)
        if self._draining and not self._open:
            self._close()
        self._go_on()

    def _write(self, parts: Parts) -> None:
        if self._answers is not None and sum(map(len, parts)) <= _SMALL_ANSWER_BYTES:
            self._answers += parts
            return
        self._send_gathered()
        if self._transport is not None:
            self._transport.writelines(parts)

    def _send_gathered(self) -> None:
        """What was answered while one read was gone through, at once: the write costs as much as the rest."""
        if self._answers and self._transport is not None:
            answers, self._answers = self._answers, []
            self._transport.writelines(answers)

    # ---- what is kept --------------------------------------------------------------------------------------------

    def _keep(self, rest: memoryview, whole: int) -> None:
        """`rest` begins with a frame of `whole` bytes, 0 where that is not known yet."""
        limits, now = self._around.limits, self._around.now()
        if whole <= len(rest) or not self._has_room():
            # A whole frame that waits for its turn, the first bytes of one, or one that there is no room for.
            self._rest = rest if rest.obj is not self._around.scratch.obj else memoryview(bytes(rest))
            partial = 0 < len(rest) < HEAD_BYTES
            self._frame_due_at = (self._frame_due_at or now + limits.frame_s) if partial else None
        else:
            self._frame = memoryview(bytearray(whole))
            self._frame[: len(rest)] = rest
            self._filled, self._rest = len(rest), _NOTHING
            self._frame_due_at = now + limits.frame_limit_s(whole)
        self._note_held()
        self._read_if(not self._waits_for_room and len(self._rest) < limits.max_waiting)

    def _has_room(self) -> bool:
        """Whether all connections together may hold more; else this one is told when."""
        if not self._around.budget.has_room and not self._waits_for_room:
            self._waits_for_room = True
            self._around.budget.wait(self)
        return not self._waits_for_room

    def _read_if(self, wanted: bool) -> None:
        if self._transport is None or self._transport.is_closing() or wanted == self._reading:
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _note_held(self) -> None:
        """A rest that waits for room is not counted: it would wait for itself."""
        unsent = 0
        if self._transport is not None and self._write_due_at is not None:
            unsent = self._transport.get_write_buffer_size()
        rest = 0 if self._waits_for_room else len(self._rest)
        self._hold(unsent + (rest if self._frame is None else len(self._frame)))

    def _hold(self, size_bytes: int) -> None:
        more, self._held_bytes = size_bytes - self._held_bytes, size_bytes
        if more:
            self._around.budget.change(more)

    # ---- the end -------------------------------------------------------------------------------------------------

    def _refuse(self, why: str) -> None:
        """Cut it: there is no answer that the client would understand."""
        if self._transport is not None and not self._transport.is_closing():
            self._around.on_refused(why, self._caller.client_host)
            self._close()

    def _close(self) -> None:
        """Once what was written has left, or is not taken in time; nothing more is read or begun."""
        if self._transport is not None:
            self._draining = True
            self._frame_due_at = None
            if self._write_due_at is None:
                self._write_due_at = self._around.now() + self._around.limits.write_s
            self._transport.close()


def _host(transport: asyncio.BaseTransport, name: str) -> str:
    address = transport.get_extra_info(name)
    return str(address[0]) if isinstance(address, tuple) else ""
