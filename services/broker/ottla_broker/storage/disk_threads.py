"""The threads beside the loop. Each kind of work that waits for the disk has its own: reads, lookups, flushes,
directory work and truncations. So a slow fsync holds up no reader, a lookup no fetch, a broker's start no flush, and
the truncation of a thousand logs no election. Two more are for long work, and for the keys of logins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_READERS: Final = 4
_LOOKERS: Final = 2
_FLUSHERS: Final = 2
_KEEPERS: Final = 4
_TRUNCATORS: Final = 2
_WORKERS: Final = 1
"""Several would share the one interpreter, and each would delay the loop."""
_DERIVERS: Final = 1
"""A derivation leaves the interpreter to the loop, and takes a processor: logins must not take all of them."""


class DiskThreads:
    """A component that makes its threads when they are needed."""

    def __init__(self) -> None:
        self._readers = ThreadPoolExecutor(_READERS, "read")
        self._lookers = ThreadPoolExecutor(_LOOKERS, "look-up")
        self._flushers = ThreadPoolExecutor(_FLUSHERS, "flush")
        self._keepers = ThreadPoolExecutor(_KEEPERS, "keep")
        self._truncators = ThreadPoolExecutor(_TRUNCATORS, "truncate")
        self._workers = ThreadPoolExecutor(_WORKERS, "work")
        self._derivers = ThreadPoolExecutor(_DERIVERS, "derive")

    async def start(self) -> None:
        """Do nothing: the first call makes the threads."""

    async def stop(self) -> None:
        waiting = (self._readers, self._lookers, self._flushers, self._keepers, self._truncators)
        for pool in (*waiting, self._workers, self._derivers):
            pool.shutdown(wait=False, cancel_futures=True)

    def read(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run a read that the page cache can't answer."""
        return _run(self._readers, call, *args, **kwargs)

    def look_up(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run a read that goes through the records of a batch."""
        return _run(self._lookers, call, *args, **kwargs)

    def flush(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run an fsync of a log."""
        return _run(self._flushers, call, *args, **kwargs)

    def keep(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run work on directories, epochs and checkpoints."""
        return _run(self._keepers, call, *args, **kwargs)

    def truncate(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run the truncation of a log that has left its leader's."""
        return _run(self._truncators, call, *args, **kwargs)

    def work(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run long work on data that does not change: decompressing, decoding and encoding large batches."""
        return _run(self._workers, call, *args, **kwargs)

    def derive(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run the derivation of a key from a password."""
        return _run(self._derivers, call, *args, **kwargs)


def _run(pool: ThreadPoolExecutor, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
    return asyncio.get_running_loop().run_in_executor(pool, lambda: call(*args, **kwargs))
