"""One consumer, one thread: a second one that comes while the first is inside gets an error at once, not a wait.

Whoever is inside a call is in, and so is whoever iterates, from the first record on until the loop is left. A consumer
may be handed from one thread to another between calls, and an iterator between two of its records.

A signal handler that interrupts a call, and a callback, are in with the thread that they run in: what ends the consumer
waits there until that call is out, for it stands between two lines that belong together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import RLock, Thread, current_thread
from types import TracebackType
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from ottla.errors import ConcurrentUseError, ErrorCode
from ottla.guard import Guard, whether_owned

P = ParamSpec("P")
T = TypeVar("T")


class OneThread:
    """`with one_thread:` around what is not for two threads. The same thread may come in again."""

    def __init__(self) -> None:
        self._inside: Final = RLock()
        self._owned: Final = whether_owned(self._inside)
        self._last = current_thread()
        self._loops: dict[object, Thread] = {}
        self._ends = False
        self._once_out: Callable[[], object] | None = None
        self.guard: Final = Guard("the consumer")

    def __enter__(self) -> None:
        self._enter(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._release()

    def step(self, loop: object, call: Callable[[], T]) -> T:
        """What an iteration does from time to time; from now on `loop` is the current thread's."""
        self._enter(loop)
        try:
            self._loops[loop] = self._last
            return call()
        finally:
            self._release()

    def once_out(self, call: Callable[[], object]) -> bool:
        """Whether this thread is inside: then `call` is called when it is out."""
        if self._owned():
            self._once_out = call
            return True
        return False

    def enter_last(self, timeout: float) -> bool:
        """Come in when whoever is inside is out; False where that takes longer than `timeout` seconds.

        Whoever comes now waits for the `__exit__`, for what it finds then is an end, and not somebody who disturbs.
        """
        self._ends = True
        return self._inside.acquire(timeout=timeout)

    def leave(self, loop: object) -> None:
        """The iteration is over, or nobody holds it any more."""
        self._loops.pop(loop, None)

    def _release(self) -> None:
        self._inside.release()
        if self._once_out is not None and not self._owned():
            call, self._once_out = self._once_out, None
            call()

    def _enter(self, mine: object) -> None:
        self.guard.check_process()
        me = current_thread()
        for loop, thread in list(self._loops.items()):
            if thread is not me and loop is not mine and thread.is_alive():
                raise _concurrent(f"{thread.name} iterates over", me)
        if not self._inside.acquire(blocking=self._ends):
            raise _concurrent(f"{self._last.name} uses", me)
        self._last = me


class Guarded(Protocol):
    """Something whose methods are for one thread at a time."""

    @property
    def one_thread(self) -> OneThread: ...


G = TypeVar("G", bound=Guarded)


def for_one_thread(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """The method, which raises ConcurrentUseError where another thread is using its object."""

    @functools.wraps(method)
    def call(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.one_thread:
            return method(self, *args, **kwargs)

    return call


def _concurrent(who: str, me: Thread) -> ConcurrentUseError:
    return ConcurrentUseError(
        ErrorCode.INVALID_REQUEST,
        f"the thread {who} this consumer while {me.name} calls it",
        hint="give each thread a consumer of its own; only wakeup, close and metrics are for any thread",
    )
