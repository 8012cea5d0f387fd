"""Threads, locks and pools of a simulated process: fibers that the world switches at each operation of a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from greenlet import getcurrent
from tests.world.fibers import Fiber, World

Done = Callable[[Any, BaseException | None], None]


class Executor:
    """A pool of threads. It starts what is given to it in order, as many at a time as it has threads."""

    def __init__(self, world: World, process: Any, threads: int, name: str = "pool") -> None:
        self._world: Final = world
        self._process: Final = process
        self._free = threads
        self._name: Final = name
        self._waiting: Final[deque[tuple[Callable[[], Any], Done]]] = deque()

    def start(self, call: Callable[[], Any], on_done: Done) -> None:
        self._waiting.append((call, on_done))
        self._start_next()

    def _start_next(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            call, on_done = self._waiting.popleft()
            fiber = Fiber(self._process, self._name, lambda call=call, on_done=on_done: self._run(call, on_done))
            self._process.fibers.add(fiber)
            self._world.after(self._world.step_s(), lambda fiber=fiber: self._world.resume(fiber))

    def _run(self, call: Callable[[], Any], on_done: Done) -> None:
        result, failure = None, None
        try:
            result = call()
        except BaseException as error:
            failure = error
        self._process.fibers.discard(getcurrent())
        self._free += 1
        on_done(result, failure)
        self._start_next()

    # ---- as of concurrent.futures ----------------------------------------------------------------------------------

    def map(self, call: Callable[[Any], Any], each: Iterable[Any]) -> Iterator[Any]:
        return iter([call(one) for one in each])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            self._waiting.clear()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Lock:
    """A lock of fibers, which its holder may take again if `again`."""

    world: World
    """Set once for all locks, when the world begins."""

    def __init__(self, *, again: bool = False) -> None:
        self._again: Final = again
        self._holder: Any = None
        self._depth = 0
        self._waiting: Final[deque[Fiber]] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = getcurrent()
        while self._holder is not None and not (self._again and self._holder is me):
            if not blocking:
                return False
            self._waiting.append(me)
            self.world.park()
        self._holder = me
        self._depth += 1
        return True

    def release(self) -> None:
        if not self._depth:
            raise RuntimeError("release unlocked lock")
        self._depth -= 1
        if self._depth:
            return
        self._holder = None
        if self._waiting:
            waiting = self._waiting.popleft()
            self.world.after(0, lambda: self.world.resume(waiting))

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Local:
    """Attributes of which each fiber has its own."""

    def __getattr__(self, name: str) -> Any:
        try:
            return getcurrent().__dict__[self][name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        getcurrent().__dict__.setdefault(self, {})[name] = value
