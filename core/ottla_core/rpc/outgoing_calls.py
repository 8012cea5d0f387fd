"""The calls of one client to one peer: which of them wait, which were handed to the stream, and how each one ends.

A call is *queued* until a message takes it, then *sent*, until it has a response or is given up. The difference decides
what its caller is told: a queued call was certainly not carried out, and a sent one may have been. A call leaves this
object once, so it ends once, and nothing is ever put back into the queue (docs/adr/0027).

*Gathering.* A message takes everything that is queued when the writer is free, up to `MESSAGE_BYTES` and
`MESSAGE_CALLS`. A call may allow to be sent a little later, so that others go with it.

*Bounds.* No call is sent while `WINDOW_BYTES` are without a response, and none begins while `QUEUE_BYTES` are queued.

Pure: the caller reads the clock, and a waiter is whatever it wants back when the call ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from ottla_core.rpc.deadlines import NEVER, Deadlines

MESSAGE_BYTES: Final = 1024 * 1024
"""The most bytes of calls in one message; a larger call goes alone."""
MESSAGE_CALLS: Final = 500
"""The most calls in one message: the peer starts them in one turn of its loop."""
WINDOW_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of calls that were sent and have no response. One call may exceed it, or a large one could never be
sent."""
QUEUE_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of calls that wait to be sent. One call may exceed it, because its size is known only once it is
encoded, and a call for which there is no room is not encoded."""
MAX_CALLS: Final = 10_000
"""The most calls that are queued or sent. Each of them takes some memory beside its bytes."""

Waiter = TypeVar("Waiter")


class CrowdedError(Exception):
    """There is no room for another call. It was not made."""


class Message(NamedTuple):
    """A message for the stream: frames of calls in their order, and the numbers of calls that were given up."""

    frames: list[bytes]
    cancelled: list[int]


class Ended(NamedTuple, Generic[Waiter]):
    """A call that ended without a response. If it `was_sent`, it may have been carried out."""

    waiter: Waiter
    was_sent: bool


@dataclass(slots=True)
class _Call(Generic[Waiter]):
    waiter: Waiter
    size_bytes: int
    go_at: float
    goes_when_idle: bool


class OutgoingCalls(Generic[Waiter]):
    """The open calls. Their numbers go on from one stream to the next, so a late response finds no other call."""

    def __init__(self) -> None:
        self.queued_bytes = 0
        self.sent_bytes = 0
        self._numbers = 0
        self._queued: Final[dict[int, tuple[_Call[Waiter], bytes]]] = {}
        self._sent: Final[dict[int, _Call[Waiter]]] = {}
        self._cancelled: list[int] = []
        self._deadlines: Final = Deadlines()
        self._go_at = NEVER  # the first of the queued calls has to be sent by then
        self._sent_at = -NEVER

    @property
    def open(self) -> int:
        return len(self._queued) + len(self._sent)

    @property
    def go_at(self) -> float:
        """This is when the next message is due, or NEVER if nothing may be sent."""
        if self._cancelled:
            return -NEVER
        return self._go_at if self.sent_bytes < WINDOW_BYTES else NEVER

    @property
    def next_deadline(self) -> float:
        return self._deadlines.next_at

    def next_number(self) -> int:
        """Return the number of another call, to be encoded in its frame. Raises CrowdedError if there is no room."""
        if self.open >= MAX_CALLS or self.queued_bytes >= QUEUE_BYTES:
            raise CrowdedError(f"{self.open} calls wait for the peer, {self.queued_bytes} bytes of them to be sent")
        self._numbers += 1
        return self._numbers

    # ---- a call begins -----------------------------------------------------------------------------------------------

    def add(
        self,
        number: int,
        frame: bytes,
        waiter: Waiter,
        *,
        now: float,
        deadline: float,
        linger_s: float = 0.0,
        while_busy: bool = False,
    ) -> None:
        """Queue a call. It may be sent `linger_s` after the previous message, so that others go with it. With
        `while_busy` it waits only as long as any call has no response."""
        size_bytes = len(frame)
        waits = linger_s and (self._sent or not while_busy)
        go_at = max(now, self._sent_at + linger_s) if waits else now
        self._queued[number] = _Call(waiter, size_bytes, go_at, while_busy), frame
        self.queued_bytes += size_bytes
        self._deadlines.set(number, deadline)
        self._go_at = min(self._go_at, go_at)

    def message(self, now: float) -> Message | None:
        """Return what has to be sent now, or None if nothing is due.

        The calls count as sent from now on, whatever becomes of the message.
        """
        if self.go_at > now:
            return None
        frames = list(self._take())
        cancelled, self._cancelled = self._cancelled, []
        self._sent_at = now
        self._go_at = min((call.go_at for call, _ in self._queued.values()), default=NEVER)
        return Message(frames, cancelled)

    def _take(self) -> Iterator[bytes]:
        taken: list[int] = []
        message_bytes = 0
        for number, (call, frame) in self._queued.items():
            is_full = len(taken) == MESSAGE_CALLS or (taken and message_bytes + call.size_bytes > MESSAGE_BYTES)
            if is_full or self.sent_bytes >= WINDOW_BYTES:
                break
            taken.append(number)
            message_bytes += call.size_bytes
            self._sent[number] = call
            self.sent_bytes += call.size_bytes
            self.queued_bytes -= call.size_bytes
            yield frame
        for number in taken:
            del self._queued[number]

    # ---- a call ends -------------------------------------------------------------------------------------------------

    def on_response(self, number: int) -> Waiter | None:
        """Return the waiter for the response, or None if nobody waits for it any longer."""
        ended = self._pop_sent(number)
        return None if ended is None else ended.waiter

    def give_up(self, number: int) -> None:
        """Give up a call for which nobody waits any longer.

        If it is queued, it is not sent. If it was sent, the peer is told.
        """
        if self._pop_queued(number) is None and self._pop_sent(number) is not None:
            self._cancelled.append(number)

    def on_time(self, now: float) -> Iterator[Ended[Waiter]]:
        """End the calls whose deadline has passed. The peer knows the deadline of a sent one, and ends it itself."""
        while (number := self._deadlines.pop_passed(now)) is not None:
            ended = self._pop_queued(number) or self._pop_sent(number)
            assert ended is not None, "a call that has ended has no deadline"
            yield ended

    def on_last_started(self, last: int) -> Iterator[Ended[Waiter]]:
        """End the sent calls after number `last`, which the peer will never start."""
        for number in [number for number in self._sent if number > last]:
            if (ended := self._pop_sent(number)) is not None:
                yield Ended(ended.waiter, was_sent=False)

    def on_end(self) -> Iterator[Ended[Waiter]]:
        """End all calls, because the stream is over."""
        self._cancelled.clear()
        for number in list(self._sent):
            if (ended := self._pop_sent(number)) is not None:
                yield ended
        for number in list(self._queued):
            if (ended := self._pop_queued(number)) is not None:
                yield ended

    def _pop_queued(self, number: int) -> Ended[Waiter] | None:
        entry = self._queued.pop(number, None)
        if entry is None:
            return None
        call, _ = entry
        self._deadlines.drop(number)
        self.queued_bytes -= call.size_bytes
        if not self._queued:
            self._go_at = NEVER
        return Ended(call.waiter, was_sent=False)

    def _pop_sent(self, number: int) -> Ended[Waiter] | None:
        call = self._sent.pop(number, None)
        if call is None:
            return None
        self._deadlines.drop(number)
        self.sent_bytes -= call.size_bytes
        if not self._sent and any(call.goes_when_idle for call, _ in self._queued.values()):
            self._go_at = -NEVER
        return Ended(call.waiter, was_sent=True)
