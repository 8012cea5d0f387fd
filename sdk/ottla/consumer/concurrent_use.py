"""One consumer, one thread: a second thread gets an error at once instead of waiting for the first.

A thread uses the consumer while it is inside a call, and while it iterates, from the first record until the loop ends.
One thread may hand a consumer to another between two calls, and an iterator between two records.

A callback, and a signal handler that interrupts a call, run in the thread that uses the consumer, so they may call it.
A call that ends the consumer is put off until the interrupted call returns, which may be halfway through a change. Any
other call of a signal handler is refused while its thread holds one of the consumer's locks: a thread that has to
answer the call would wait for that lock.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import RLock, Thread, current_thread
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from ottla.client.guard import Guard, whether_owned
from ottla.errors import ConcurrentUseError, ErrorCode, OttlaError

P = ParamSpec("P")
T = TypeVar("T")


class Interruptible(Protocol):
    """State that an interrupted call may leave half changed."""

    is_cut_off: bool
    """Whether a call was interrupted since the last `take_back`. Nothing says at which line."""

    def take_back(self) -> None:
        """Make the state whole again."""
        ...


class ConcurrentUseGuard:
    """Runs calls that only one thread may make at a time. The same thread may enter again.

    A signal handler may raise anywhere in a call. The next call first makes the state whole again.
    """

    def __init__(self, state: Interruptible) -> None:
        self.settle: Final = state.take_back
        self._state: Final = state
        self._inside: Final = RLock()
        self._owned: Final = whether_owned(self._inside)
        self._user: Thread | None = None  # the thread inside
        self._loops: dict[object, Thread] = {}
        self._ends = False
        self._once_out: Callable[[], object] | None = None
        self.guard: Final = Guard("the consumer")

    def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call for one thread at a time. However the call is interrupted, the thread is out afterwards."""
        return self._run(None, call, *args, **kwargs)

    def step(self, loop: object, call: Callable[[], T]) -> T:
        """Run one step of an iteration; from now on `loop` belongs to the current thread."""

        def take() -> T:
            self._loops[loop] = current_thread()
            return call()

        return self._run(loop, take)

    def once_out(self, call: Callable[[], object]) -> bool:
        """Return whether this thread is inside; if so, `call` runs when it is out."""
        if self._owned():
            self._once_out = call
            return True
        return False

    def run_last(self, timeout: float, call: Callable[[], object]) -> None:
        """Run the call once the thread inside is out; not at all if that takes longer than `timeout` seconds.

        Another thread that enters meanwhile waits for this call to end instead of getting ConcurrentUseError: the
        consumer is closed by then.
        """
        self._ends = True
        if self._inside.acquire(timeout=timeout):
            try:
                call()
            finally:
                self._inside.release()

    def leave(self, loop: object) -> None:
        """Note that the iteration is over, or its iterator garbage."""
        self._loops.pop(loop, None)

    def _run(self, mine: object, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._check(mine)
        me = current_thread()
        try:
            with self._inside:
                outer, self._user = self._user, me
                try:
                    return call(*args, **kwargs)
                except OttlaError:
                    raise
                except BaseException:
                    # An assignment, and no call, because a second signal could come before a call.
                    self._state.is_cut_off = True
                    raise
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
    """An object whose methods only one thread may call at a time."""

    @property
    def use_guard(self) -> ConcurrentUseGuard: ...


G = TypeVar("G", bound=HasUseGuard)


def guarded(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """Make the method raise ConcurrentUseError while another thread is using its object."""

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
        f"the thread {who} this consumer while the thread {me.name} calls it",
        hint="use a separate consumer in each thread; only wakeup, close and metrics are safe from any thread",
    )
