"""One consumer, one thread: a second one that comes while the first is inside gets an error at once, not a wait.

A thread inside a call is in, and so is a thread that iterates, from the first record on until the loop ends. A consumer
may be handed from one thread to another between calls, and an iterator between two of its records.

A signal handler that interrupts a call, and a callback, are in with the thread that they run in: what ends the consumer
waits there until that call is out, for it stands between two lines that belong together. What else a handler calls is
refused where the thread holds one of the consumer's locks, for a thread that has to answer would wait for that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import RLock, Thread, current_thread
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from ottla.client.guard import Guard, whether_owned
from ottla.errors import ConcurrentUseError, ErrorCode

P = ParamSpec("P")
T = TypeVar("T")


class ConcurrentUseGuard:
    """`run` what is not for two threads. The same thread may come in again.

    `settle` cleans up what an interrupted call may have left behind, before the next one.
    """

    def __init__(self, settle: Callable[[], None]) -> None:
        self.settle: Final = settle
        self._inside: Final = RLock()
        self._owned: Final = whether_owned(self._inside)
        self._user: Thread | None = None  # the thread inside
        self._loops: dict[object, Thread] = {}
        self._ends = False
        self._once_out: Callable[[], object] | None = None
        self.guard: Final = Guard("the consumer")

    def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What is for one thread at a time. However it is interrupted, the thread is out afterwards."""
        return self._run(None, call, *args, **kwargs)

    def step(self, loop: object, call: Callable[[], T]) -> T:
        """What an iteration does from time to time; from now on `loop` is the current thread's."""

        def take() -> T:
            self._loops[loop] = current_thread()
            return call()

        return self._run(loop, take)

    def once_out(self, call: Callable[[], object]) -> bool:
        """Whether this thread is inside: then `call` is called when it is out."""
        if self._owned():
            self._once_out = call
            return True
        return False

    def run_last(self, timeout: float, call: Callable[[], object]) -> None:
        """When the thread inside is out; not at all where that takes longer than `timeout` seconds.

        A thread that comes now waits for this call's end, and gets no ConcurrentUseError: the consumer is closed then.
        """
        self._ends = True
        if self._inside.acquire(timeout=timeout):
            try:
                call()
            finally:
                self._inside.release()

    def leave(self, loop: object) -> None:
        """The iteration is over, or its iterator is garbage."""
        self._loops.pop(loop, None)

    def _run(self, mine: object, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._check(mine)
        me = current_thread()
        try:
            with self._inside:
                outer, self._user = self._user, me
                try:
                    return call(*args, **kwargs)
                finally:
                    self._user = outer
        finally:
            self._call_once_out()

    def _call_once_out(self) -> None:
        if self._once_out is not None and not self._owned():
            call, self._once_out = self._once_out, None
            call()

    def _check(self, mine: object) -> None:
        self.guard.check()
        me, user = current_thread(), self._user
        for loop, thread in list(self._loops.items()):
            if thread is not me and loop is not mine and thread.is_alive():
                raise _concurrent(f"{thread.name} iterates over", me)
        if user is not None and user is not me and not self._ends:
            raise _concurrent(f"{user.name} uses", me)


class HasUseGuard(Protocol):
    """Something whose methods are for one thread at a time."""

    @property
    def use_guard(self) -> ConcurrentUseGuard: ...


G = TypeVar("G", bound=HasUseGuard)


def guarded(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """The method, which raises ConcurrentUseError where another thread is using its object."""

    def settled(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self.use_guard.settle()
        return method(self, *args, **kwargs)

    @functools.wraps(method)
    def call(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.use_guard.run(settled, self, *args, **kwargs)

    return call


def _concurrent(who: str, me: Thread) -> ConcurrentUseError:
    return ConcurrentUseError(
        ErrorCode.INVALID_REQUEST,
        f"the thread {who} this consumer while {me.name} calls it",
        hint="give each thread a consumer of its own; only wakeup, close and metrics are for any thread",
    )
