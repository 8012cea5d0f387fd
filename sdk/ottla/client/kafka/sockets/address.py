"""The lines to one address: one that single calls share, and others that have one user each.

A call that waits for others (`Api.waits`) has a line to itself. One such line is kept for the next of these calls; if a
call fails, or is given up, its line ends with it, since the broker may answer late.

After a line has ended, the next call opens another one. Before that the address rests for 50 ms to a second, and calls
fail at once. Otherwise a broker that accepts connections and ends them would cause a new connection for each call. A
response ends the series of failures.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Final

from ottla.client.kafka.apis import AnyApi
from ottla.client.kafka.call import Answered, Call
from ottla.client.kafka.lines import Waiter
from ottla.client.kafka.sockets.line import Line
from ottla.client.kafka.sockets.network import Network
from ottla.client.kafka.sockets.pending import Pending
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message
from ottla_core.rpc.retry import Backoff

_CLOSED: Final = OttlaError(ErrorCode.NETWORK_EXCEPTION, "the connection was closed")


class Address:
    """The lines to one address. Thread-safe; only `ask` and `close` wait."""

    def __init__(self, address: str, network: Network) -> None:
        self.address: Final = address
        self._network: Final = network
        self._lock: Final = RLock()  # a signal handler may make a call, too
        self._lines: Final[dict[Line, None]] = {}
        self._shared: Line | None = None
        self._spare: Line | None = None
        self._backoff: Final = Backoff()
        self._rests_until = -float("inf")
        self._reason = _CLOSED
        self._is_closed = False

    @property
    def now(self) -> float:
        return self._network.clock.monotonic()

    def open(self, on_ended: Callable[[OttlaError], None]) -> Line:
        """Return a new line. Raises OttlaError while the address rests."""
        with self._lock:
            return self._open(on_ended)

    def ask(
        self, api: AnyApi, request: Callable[[int], Message], *, timeout: float, size_bytes: int = 0
    ) -> tuple[Message, Answered[Any]]:
        """Make a call and wait for its response. `request` builds the message for a version, and `size_bytes` is its
        approximate size. Return the message of the response, and the response as it came. Raises OttlaError."""
        pending = Pending()
        call: Call[Waiter] = Call(api, request, pending, self.now + timeout, size_bytes)
        if api.waits:
            line, answered = self._ask_alone(call, pending)
        else:
            line = self._shared_line()
            answered = line.ask(call, pending)
        self.on_response()
        return line.message(answered), answered

    def on_response(self) -> None:
        """Note that the broker has answered a call, which ends the series of failures."""
        self._backoff.reset()

    def close(self) -> None:
        """End every line; open calls fail."""
        with self._lock:
            self._is_closed, self._reason = True, _CLOSED
            lines = list(self._lines)
        for line in lines:
            line.close(_CLOSED.message)

    def _shared_line(self) -> Line:
        with self._lock:
            if self._shared is None or self._shared.ended is not None:
                self._shared = self._open(lambda _: None)
            return self._shared

    def _ask_alone(self, call: Call[Waiter], pending: Pending) -> tuple[Line, Answered[Any]]:
        with self._lock:
            spare, self._spare = self._spare, None
            line = spare if spare is not None and spare.ended is None else self._open(lambda _: None)
        try:
            answered = line.ask(call, pending)
        except BaseException:
            line.end("its only call has failed")
            raise
        self._keep(line)
        return line, answered

    def _keep(self, line: Line) -> None:
        with self._lock:
            spare, self._spare = self._spare, line
        if spare is not None:
            spare.end("another one is kept")

    def _open(self, on_ended: Callable[[OttlaError], None]) -> Line:
        if self._is_closed or self.now < self._rests_until:
            reason = self._reason
            raise OttlaError(reason.code, f"{self.address}: {reason.message}", hint=reason.hint)

        def end(error: OttlaError) -> None:
            try:
                on_ended(error)
            finally:
                self._lines.pop(line, None)  # only now, since `close` has to wait for a line that is ending

        line = Line(self.address, self._network, self._rest, end)
        self._lines[line] = None
        self._network.add(line)
        return line

    def _rest(self, line: Line, error: OttlaError) -> None:
        # Without the lock, for which the network's thread must not wait (`Network._goes_on`). No other thread writes
        # these.
        if line.was_closed:
            return
        self._reason = error
        self._rests_until = self.now + self._backoff.next()
