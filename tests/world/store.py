"""This module connects a process to etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final

from tests.world.etcd import Etcd
from tests.world.network import Pipe
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

_SILENT_S: Final = 6.0
"""A watch without any answer ends after this time, as that of the real store does."""


class SimulatedStore:
    """This is the `MetaStore` of one process. Each call travels to etcd and back, and may time out on the way.

    If etcd stops meanwhile, the connection is reset. Then nobody knows whether the call was carried out.
    """

    def __init__(self, etcd: Etcd, process: Process) -> None:
        self._etcd: Final = etcd
        self._process: Final = process
        self._there: Final = Pipe(process.network, process, etcd.process)
        self._back: Final = Pipe(process.network, etcd.process, process)

    async def _ask(
        self, call: Callable[[MemoryStore], Awaitable[Any]], timeout: float, *, changes: bool = False
    ) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        etcd, life = self._etcd, self._etcd.lives

        def reply(result: Any, error: Exception | None) -> None:
            def arrive() -> None:
                if etcd.lives == life:
                    self._settle(answer, result, error)
                else:
                    reset = StoreUnavailableError("etcd has reset the connection", indefinite=changes)
                    self._settle(answer, None, reset)

            self._back.send(arrive)

        async def carry_out() -> None:
            try:
                result = await call(etcd.memory)
            except Exception as error:
                reply(None, error)
            else:
                reply(result, None)

        def arrive() -> None:
            if etcd.lives == life:
                etcd.start(carry_out())
            else:
                reply(None, None)

        self._there.send(arrive)
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
                async with asyncio.timeout(_SILENT_S):
                    found = await arrived.get()
                if isinstance(found, Exception):
                    raise found
                yield found
        except TimeoutError:
            raise StoreUnavailableError(f"a watch got no answer for {_SILENT_S:.0f} s", indefinite=False) from None
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
