"""A limit of bytes a second, which sleeps enforce."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_LEAST_SLEEP_S: Final = 0.01


class Throttle:
    """Limits the rate of all bytes passed to `take`; 0 bytes a second means no limit."""

    def __init__(
        self,
        most_bytes_per_s: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._most_bytes_per_s: Final = most_bytes_per_s
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._free_at = clock()

    def take(self, size_bytes: int) -> None:
        """Account for bytes that were read or written. It sleeps while they are ahead of their time."""
        if not self._most_bytes_per_s:
            return
        now = self._clock()
        self._free_at = max(self._free_at, now) + size_bytes / self._most_bytes_per_s
        if self._free_at - now > _LEAST_SLEEP_S:
            self._sleep(self._free_at - now)
