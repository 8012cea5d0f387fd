"""A connection's transport and listener that only note what is asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ottla_broker.kafka.network.budget import Account, Budget
from ottla_broker.kafka.network.connection import CloseConnectionError, HandlerResult, KafkaConnection
from ottla_broker.kafka.network.limits import ConnectionLimits
from ottla_broker.kafka.network.turns import Turns
from ottla_broker.kafka.wire.frames import Caller, Head, Parts

PRODUCE, FETCH, CONTROL = 0, 1, 3
LIMITS = ConnectionLimits(
    max_produce=10_000, max_control=1_000, max_waiting=300, max_open=3, max_held=16_000, max_connections=1
)


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.writes = 0
        self.reading = True
        self.closed = False
        self.aborted = False
        self.unsent_bytes = 0
        self.stuck: KafkaConnection | None = None  # its client takes nothing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 9092) if name == "sockname" else ("10.0.0.2", 50_000)

    def writelines(self, parts: Any) -> None:
        self.writes += 1
        self.written += [bytes(part) for part in parts]
        if self.stuck is not None:
            self.unsent_bytes += sum(map(len, parts))
            self.stuck.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True


class Nobody:
    def on_room(self) -> None: ...


class Around:
    """A listener whose every request is answered with its own bytes, at once or when the test says so."""

    def __init__(self) -> None:
        self.limits = LIMITS
        self.budget = Budget(LIMITS.max_held)
        self.newcomers = Turns()
        self.scratch = memoryview(bytearray(1_000))
        self.time = 0.0
        self.open = 0
        self.known = 0
        self.began: list[bytes] = []
        self.refused: list[str] = []
        self.waits: dict[bytes, asyncio.Future[None]] = {}
        self.placed: asyncio.Future[None] | None = None  # of a request with large batches
        self.callers: set[Caller] = set()
        self.large: set[int] = set()
        self.turn_takes_s = 0.0
        self.nested = False  # what answers waits for another coroutine, as that of the dispatcher does

    def others_hold(self, size_bytes: int) -> Account:
        """Connections of another address."""
        others = self.budget.account("10.0.0.3", Nobody())
        others.change(size_bytes)
        return others

    def now(self) -> float:
        return self.time

    def on_open(self, connection: KafkaConnection, client_host: str) -> bool:
        self.open += 1
        return self.open <= self.limits.max_connections

    def on_known(self, connection: KafkaConnection) -> None:
        self.known += 1

    def on_lost(self, connection: KafkaConnection) -> None:
        self.open -= 1

    def on_rejected(self, why: str, client_host: str) -> None:
        self.refused.append(why)

    def may_overlap(self, key: int) -> bool:
        return key == PRODUCE

    def may_be_large(self, key: int) -> bool:
        return key == FETCH or key in self.large

    def on_large_response(self, key: int) -> None:
        self.large.add(key)

    def begins_large(self, connection: KafkaConnection) -> bool:
        return True

    def handle(self, head: Head, frame: memoryview, caller: Caller) -> HandlerResult:
        self.callers.add(caller)
        body = bytes(frame[8:])
        self.began.append(body)
        self.time += self.turn_takes_s
        if body.startswith(b"silent"):
            return None
        if body.startswith(b"bad"):
            raise CloseConnectionError("bad")
        if body.startswith(b"pend"):
            self.placed = asyncio.get_running_loop().create_future()
            caller.room.pend(len(frame), self.placed)
        if body.startswith((b"wait", b"pend")):
            self.waits[body] = asyncio.get_running_loop().create_future()
            return itself(self._later(body)) if self.nested else self._later(body)
        return [body]

    async def _later(self, body: bytes) -> Parts | None:
        await self.waits[body]
        if body.endswith(b"!"):
            raise CloseConnectionError("failed later")
        return [body]


async def itself(answer: Coroutine[Any, Any, Parts | None]) -> Parts | None:
    return await answer
