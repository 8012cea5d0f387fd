"""Signal handlers in tests: set for a while, and sent to the main thread, at once or in the middle of a call."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def handling(signum: int, handler: Callable[[], object]) -> Iterator[None]:
    """Lets the signal call `handler`; what that raises is raised where the main thread stands."""
    before = signal.signal(signum, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(signum, before)


def to_main(signum: int) -> None:
    """As Ctrl-C does it: the thread that waits is interrupted."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signum)


def interrupting(call: Callable[..., Any], signum: int) -> Callable[..., Any]:
    """The call, and at its beginning, the first time that the main thread makes it, the signal."""
    left = [signum]

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        if left and threading.current_thread() is threading.main_thread():
            signal.raise_signal(left.pop())
        return call(*args, **kwargs)

    return interrupted
