"""Acts that have to wait for something, each producer's in the order in which they came.

An append is done at once if possible. If its records have to be checked in a thread, or its transaction is verified
elsewhere, it waits here. So does everything that its producer sends to the partition after it, because batches are in
the log in the order of arrival. If an act fails, those that wait behind it fail at once, with an error after which
their producer sends all of them again. Producers do not wait for each other. Those without an id count as one, and have
no order to keep.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Generic, TypeVar

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import NO_PRODUCER_ID

T = TypeVar("T")

MOST_BYTES: Final = 64 << 20
"""The limit for all partitions together. A broker's threads take a second for this much, or minutes for batches made to
be slow."""


class PendingBytes:
    """The bytes that the pending acts of a broker hold together."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.held = 0
        self._most_bytes: Final = most_bytes

    def take(self, size_bytes: int, *, beside: int = 0) -> None:
        """Count these bytes. The same act already holds `beside` bytes. Raises REQUEST_TIMED_OUT if too many wait; an
        act of any size may wait alone."""
        if self.held > beside and self.held + size_bytes > self._most_bytes:
            raise OttlaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self.held} bytes of batches are waiting to be validated, which leaves no room for more; nothing was "
                "appended",
                hint="try again; smaller or less compressed batches take less time",
            )
        self.held += size_bytes

    def give_back(self, size_bytes: int) -> None:
        self.held -= size_bytes

    @contextlib.contextmanager
    def grown(self, size_bytes: int, new_bytes: int) -> Iterator[None]:
        """Count the bytes by which another codec has made an act's batches larger. Raises what `take` raises."""
        more = max(0, new_bytes - size_bytes)
        if more:
            self.take(more, beside=size_bytes)
        try:
            yield
        finally:
            self.give_back(more)


class _Pending(Generic[T]):
    def __init__(self, prepare: Callable[[], Awaitable[object]], act: Callable[[], T]) -> None:
        self.done: Final[asyncio.Future[T]] = asyncio.get_running_loop().create_future()
        self._prepare: Final = prepare
        self._act: Final = act

    async def carry_out(self) -> None:
        if self.done.cancelled():
            return  # no caller waits for it any longer
        try:
            await self._prepare()
            if not self.done.cancelled():
                self.done.set_result(self._act())
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        with contextlib.suppress(asyncio.InvalidStateError):  # the future may have been cancelled
            self.done.set_exception(error)
            self.done.exception()  # it counts as retrieved, because a caller that has gone is not a bug

    @property
    def failure(self) -> BaseException | None:
        """It says why the batches are not in the log. It is None if they are, or if no caller waits for that any
        longer."""
        error = None if self.done.cancelled() else self.done.exception()
        return None if isinstance(error, OttlaError) and error.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER else error


class PendingActs:
    """The pending acts of one partition. Mostly there are none, and never any if nothing has to be prepared."""

    __slots__ = ("_queues", "_tasks")

    def __init__(self) -> None:
        self._queues: dict[int, deque[_Pending[Any]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        return bool(self._queues)

    def has(self, producer_id: int) -> bool:
        """Return whether what this producer sends now has to wait, too."""
        return producer_id in self._queues

    def add(
        self, producer_id: int, prepare: Callable[[], Awaitable[object]], act: Callable[[], T]
    ) -> asyncio.Future[T]:
        """Run `act` once `prepare` is done, and everything that was added for this producer before it. It is skipped if
        the future is cancelled."""
        pending = _Pending(prepare, act)
        if producer_id in self._queues:
            self._queues[producer_id].append(pending)
        else:
            self._queues[producer_id] = deque([pending])
            task = asyncio.create_task(self._carry_out(producer_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return pending.done

    async def _carry_out(self, producer_id: int) -> None:
        queue = self._queues[producer_id]
        try:
            while queue:
                done = queue[0]
                await done.carry_out()
                queue.popleft()
                if producer_id != NO_PRODUCER_ID and (failure := done.failure) is not None:
                    while queue:
                        queue.popleft().fail(_out_of_turn(producer_id, failure))
        finally:
            del self._queues[producer_id]


def _out_of_turn(producer_id: int, failure: BaseException) -> OttlaError:
    """Return the error of an act that waits behind a failed one. Its code makes clients send their batches again."""
    code = failure.code if isinstance(failure, OttlaError) and failure.retriable else ErrorCode.NOT_ENOUGH_REPLICAS
    return OttlaError(
        code,
        f"an earlier batch of producer {producer_id} was not appended: {failure}",
        hint="send the batches again, in order",
    )
