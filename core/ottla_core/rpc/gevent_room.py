"""Room for gRPC's waiting under gevent.

After `init_gevent()` gRPC waits for every open call on a thread of the hub's pool, and that has ten. A stream is open
as long as its client lives, so the fourth client of three brokers would never get a response: no thread is left to wait
for it. Each stream therefore brings its own thread along. Without gevent nothing happens here.
"""

from __future__ import annotations

import sys
from typing import Any


class Room:
    """A thread of the hub's pool, from now until `give_back`. Both are called on the hub's own thread."""

    def __init__(self) -> None:
        self._pool: Any = _hub_pool()
        if self._pool is not None:
            self._pool.maxsize += 1

    def give_back(self) -> None:
        """The call is over. A second time does nothing."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.maxsize -= 1


def _hub_pool() -> Any:
    """The pool in which gRPC waits; None where threads are threads."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("threading"):
        return None
    return sys.modules["gevent"].get_hub().threadpool
