"""Threads for gRPC's waiting under gevent.

After `init_gevent()` gRPC waits for every open call on a thread of the hub's pool, which has ten. A stream is open as
long as its client lives. So the fourth client of three brokers would never get a response, because no thread is left to
wait for it. Each stream therefore adds a thread of its own. Without gevent nothing happens here.
"""

from __future__ import annotations

import sys
from typing import Any


class Room:
    """One more thread in the hub's pool, from now until `give_back`. Both are called on the hub's own thread."""

    def __init__(self) -> None:
        self._pool: Any = _hub_pool()
        if self._pool is not None:
            self._pool.maxsize += 1

    def give_back(self) -> None:
        """Give the thread back, because the call is over. A second call does nothing."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.maxsize -= 1


def _hub_pool() -> Any:
    """Return the pool in which gRPC waits, or None if threads are real threads."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("threading"):
        return None
    return sys.modules["gevent"].get_hub().threadpool
