"""The calls on one connection: which of them wait, which are being written, which have no response yet.

A call moves in one direction only:

    queued ──► being written ──► sent ──► ended

It is *sent* once its last byte has been handed to the socket. Before that the broker can't have carried it out, since
it has no whole frame. So the last byte decides whether a failure is definite. A call leaves this object once, so it
ends once.

Kafka's brokers answer the requests of a connection in order. A response to any call but the oldest is an error of the
broker.

*Bounds.* While `WINDOW_BYTES` are written or sent without a response, no further call is encoded. While `QUEUE_BYTES`
or `MAX_CALLS` wait, no further call begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic

from ottla.client.kafka.call import Call, Waiter
from ottla_core.rpc.deadlines import Deadlines

WINDOW_BYTES: Final = 16 * 1024 * 1024
"""The limit for frames without a response. A single frame may exceed it, or a large one could never be sent."""
QUEUE_BYTES: Final = 16 * 1024 * 1024
"""The limit for calls that are not encoded yet. A single call may exceed it."""
MAX_CALLS: Final = 10_000
"""The limit for calls that have not ended. Each of them takes some memory besides its bytes."""
WRITE_BYTES: Final = 256 * 1024
"""How much is handed to the socket at a time, unless a single frame is larger."""
_WRITE_PIECES: Final = 64

_INT32_MAX: Final = 0x7FFF_FFFF


@dataclass(slots=True, eq=False)
class _Framed(Generic[Waiter]):
    """A call whose frame exists. `call` is None once nobody waits for its response any more, and `pieces` are empty
    once they are written."""

    number: int
    call: Call[Waiter] | None
    version: int
    pieces: list[bytes]
    size_bytes: int
    max_response_bytes: int
    deadline: float
    answered: bool


class Calls(Generic[Waiter]):
    """The calls on one connection that have not ended.

    The bounds hold for `queued_bytes` and for `open_bytes`, which counts frames until their response.
    `unwritten_bytes` is the part of those frames that is not written yet."""

    def __init__(self) -> None:
        self.queued_bytes = 0
        self.open_bytes = 0
        self.unwritten_bytes = 0
        self.deadlines: Final = Deadlines()
        self._numbers = 0
        self._queued: Final[dict[int, Call[Waiter]]] = {}
        self._outgoing: Final[deque[_Framed[Waiter]]] = deque()
        self._written_bytes = 0  # of the first outgoing frame
        self._sent: Final[deque[_Framed[Waiter]]] = deque()
        self._by_number: Final[dict[int, _Framed[Waiter]]] = {}

    @property
    def is_full(self) -> bool:
        """Whether no further call may begin."""
        return self.queued_bytes >= QUEUE_BYTES or len(self._queued) + len(self._by_number) >= MAX_CALLS

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued, being written, or without a response."""
        return not (self._queued or self._outgoing or self._sent)

    @property
    def oldest(self) -> _Framed[Waiter] | None:
        """The sent call that the broker has to answer next."""
        return self._sent[0] if self._sent else None

    @property
    def latest_deadline(self) -> float:
        """The last deadline of the calls that the broker may still answer, or -inf without such calls."""
        return max((framed.deadline for framed in self._by_number.values()), default=float("-inf"))

    def is_stuck(self, now: float) -> bool:
        """Whether the broker should have answered the oldest call by now, or taken the frame that is being written.

        Nothing behind it on the connection can be answered before it.
        """
        begun = self._outgoing[0] if self._written_bytes else None
        return any(framed is not None and framed.deadline <= now for framed in (self.oldest, begun))

    # ---- a call begins -----------------------------------------------------------------------------------------------

    def add(self, call: Call[Waiter]) -> None:
        """Queue a call, and give it a number."""
        self._numbers += 1
        call.number = self._numbers
        self._queued[call.number] = call
        self.queued_bytes += call.size_bytes
        self.deadlines.set(call.number, call.deadline)

    def next_queued(self) -> Call[Waiter] | None:
        """Return the call that may be encoded next, or None."""
        if not self._queued or self.open_bytes >= WINDOW_BYTES:
            return None
        return next(iter(self._queued.values()))

    def encoded(self, call: Call[Waiter], version: int, pieces: list[bytes]) -> None:
        """Hand over a queued call for writing, encoded in these pieces."""
        number = call.number
        del self._queued[number]
        self.queued_bytes -= call.size_bytes
        size_bytes = sum(map(len, pieces))
        limit = call.api.max_response_bytes
        framed = _Framed(number, call, version, pieces, size_bytes, limit, call.deadline, call.answered)
        self._outgoing.append(framed)
        self._by_number[number] = framed
        self.open_bytes += size_bytes
        self.unwritten_bytes += size_bytes

    # ---- bytes go out ------------------------------------------------------------------------------------------------

    def output(self) -> list[memoryview | bytes]:
        """Return what to write next, up to about `WRITE_BYTES`."""
        pieces: list[memoryview | bytes] = []
        left, skip = WRITE_BYTES, self._written_bytes
        for framed in self._outgoing:
            for piece in framed.pieces:
                if skip >= len(piece):
                    skip -= len(piece)
                    continue
                pieces.append(memoryview(piece)[skip:] if skip else piece)
                left -= len(piece) - skip
                skip = 0
            if left <= 0 or len(pieces) >= _WRITE_PIECES:
                break
        return pieces

    def on_written(self, count: int) -> Iterator[Call[Waiter]]:
        """Note that this many bytes were written. Yield the calls that this ends, because they get no response."""
        self._written_bytes += count
        self.unwritten_bytes -= count
        while self._outgoing and self._written_bytes >= self._outgoing[0].size_bytes:
            framed = self._outgoing.popleft()
            self._written_bytes -= framed.size_bytes
            framed.pieces = []
            if framed.answered:
                self._sent.append(framed)
                continue
            self._forget(framed)
            if (call := self._take(framed)) is not None:
                yield call

    # ---- a call ends -------------------------------------------------------------------------------------------------

    def on_response(self) -> tuple[Call[Waiter] | None, int]:
        """End the oldest call, which was answered. Return it, or None if nobody waits for it any more, and its
        version."""
        framed = self._sent.popleft()
        self._forget(framed)
        return self._take(framed), framed.version

    def drop(self, number: int) -> tuple[Call[Waiter], bool] | None:
        """End a call by its number. Return it and whether it may reach the broker, or None if it has ended already.

        A frame is taken back if none of its bytes was written. Otherwise its place is kept until its response.
        """
        if (call := self._queued.pop(number, None)) is not None:
            self.queued_bytes -= call.size_bytes
            self.deadlines.drop(number)
            return call, False
        framed = self._by_number.get(number)
        if framed is None or (call := self._take(framed)) is None:
            return None
        has_begun = not framed.pieces or (framed is self._outgoing[0] and self._written_bytes > 0)
        if not has_begun:
            self._outgoing.remove(framed)
            self._forget(framed)
            self.unwritten_bytes -= framed.size_bytes
        return call, has_begun

    def drop_all(self) -> list[tuple[Call[Waiter], bool]]:
        """End every call, because the connection is over. Return each call, and whether it was sent.

        The broker can't have carried out an incomplete frame.
        """
        ended = [
            (call, not framed.pieces) for framed in self._by_number.values() if (call := self._take(framed)) is not None
        ]
        ended += [(call, False) for call in self._queued.values()]
        for number in self._queued:
            self.deadlines.drop(number)
        for kept in (self._by_number, self._queued, self._outgoing, self._sent):
            kept.clear()
        self._written_bytes = self.unwritten_bytes = self.open_bytes = self.queued_bytes = 0
        return ended

    @staticmethod
    def correlation_id(number: int) -> int:
        """Return the correlation id of a call. Numbers may outgrow Kafka's int32, so the ids begin again."""
        return number & _INT32_MAX

    def _take(self, framed: _Framed[Waiter]) -> Call[Waiter] | None:
        call, framed.call = framed.call, None
        if call is not None:
            self.deadlines.drop(framed.number)
        return call

    def _forget(self, framed: _Framed[Waiter]) -> None:
        del self._by_number[framed.number]
        self.open_bytes -= framed.size_bytes
