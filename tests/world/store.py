"""etcd in the world: the in-memory twin in a process of its own, and each process's connection to it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, MutableSequence, Sequence
from typing import Any, Final

from tests.world.fibers import World
from tests.world.network import Network, Pipe
from tests.world.process import Process

from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import (
    Compare,
    Delete,
    EventBatch,
    Put,
    Snapshot,
    StoreUnavailableError,
    TxnResult,
)


class Etcd:
    """The process, which lives as long as the world."""

    def __init__(self, world: World, network: Network) -> None:
        self.memory: MemoryStore
        self._tasks: Final[deque[asyncio.Task[None]]] = deque(maxlen=1000)
        self.process: Final = Process(world, network, "etcd", self._main)

    async def _main(self, process: Process) -> None:
        self.memory = MemoryStore(clock=process)
        await asyncio.get_running_loop().create_future()

    def start(self, work: Coroutine[Any, Any, None], begun: MutableSequence[asyncio.Task[None]] | None = None) -> None:
        """Have a task do the work, which is added to `begun` at once."""
        task = self.process.loop.create_task(work)
        (self._tasks if begun is None else begun).append(task)
        self.process.wake()


class SimulatedStore:
    """A `MetaStore` of one process: each call goes to etcd and back, and its time runs out on the way."""

    def __init__(self, etcd: Etcd, process: Process) -> None:
        self._etcd: Final = etcd
        self._process: Final = process
        self._there: Final = Pipe(process.network, process, etcd.process)
        self._back: Final = Pipe(process.network, etcd.process, process)

    async def _ask(
        self, call: Callable[[MemoryStore], Awaitable[Any]], timeout: float, *, changes: bool = False
    ) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def carry_out() -> None:
            try:
                result = await call(self._etcd.memory)
            except Exception as error:
                self._back.send(lambda error=error: self._settle(answer, None, error))
            else:
                self._back.send(lambda: self._settle(answer, result, None))

        self._there.send(lambda: self._etcd.start(carry_out()))
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise StoreUnavailableError(f"etcd has not answered within {timeout:g} s", indefinite=changes) from None

    def _settle(self, answer: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        def settle() -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

        self._process.loop.call_soon_threadsafe(settle)

    async def snapshot(self, prefix: str, *, timeout: float) -> Snapshot:
        found: Snapshot = await self._ask(lambda memory: memory.snapshot(prefix, timeout=timeout), timeout)
        return found

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Put | Delete], *, timeout: float) -> TxnResult:
        result: TxnResult = await self._ask(
            lambda memory: memory.txn(compares, ops, timeout=timeout), timeout, changes=True
        )
        return result

    async def watch(self, prefix: str, *, from_revision: int) -> AsyncGenerator[EventBatch, None]:
        arrived: asyncio.Queue[EventBatch | Exception] = asyncio.Queue()
        loop, etcd = self._process.loop, self._etcd
        watching: list[asyncio.Task[None]] = []

        def arrive(found: EventBatch | Exception) -> None:
            def put() -> None:
                loop.call_soon_threadsafe(arrived.put_nowait, found)

            self._back.send(put)

        async def follow() -> None:
            try:
                async for batch in etcd.memory.watch(prefix, from_revision=from_revision):
                    arrive(batch)
            except Exception as error:
                arrive(error)

        def begin() -> None:
            etcd.start(follow(), watching)

        def end() -> None:
            for task in watching:
                etcd.process.loop.call_soon_threadsafe(task.cancel)

        self._there.send(begin)
        self._process.on_end.append(end)
        try:
            while True:
                found = await arrived.get()
                if isinstance(found, Exception):
                    raise found
                yield found
        finally:
            self._there.send(end)

    async def grant_lease(self, ttl_s: int, *, timeout: float) -> int:
        lease: int = await self._ask(lambda memory: memory.grant_lease(ttl_s, timeout=timeout), timeout, changes=True)
        return lease

    async def keep_alive(self, lease: int, *, timeout: float) -> int:
        left: int = await self._ask(lambda memory: memory.keep_alive(lease, timeout=timeout), timeout)
        return left

    async def revoke_lease(self, lease: int, *, timeout: float) -> None:
        await self._ask(lambda memory: memory.revoke_lease(lease, timeout=timeout), timeout, changes=True)

    async def size_bytes(self, *, timeout: float) -> int:
        size: int = await self._ask(lambda memory: memory.size_bytes(timeout=timeout), timeout)
        return size

    async def close(self) -> None:
        """Do nothing: the connection ends with its process."""
