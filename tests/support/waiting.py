"""How tests wait: for a condition, with a bound, never for a duration."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

MOST_S = float(os.environ.get("TESTS_WAIT_S", "inf"))
"""For any wait, however long its test would wait: where many are to wait in vain (tests/regressions)."""

LIMIT_S = min(180.0, MOST_S)
"""Long enough for a machine that does ten other things: who waits in vain has failed anyway."""

SPARK_LIMIT_S = int(min(600.0, MOST_S))
"""For what Spark does, as whole seconds: its first query takes ten of a processor that does nothing else."""


async def until(condition: Callable[[], object], *, limit_s: float = LIMIT_S) -> None:
    """Return once `condition()` is true; fail after `limit_s`."""
    give_up_at = time.monotonic() + min(limit_s, MOST_S)
    while not condition():
        assert time.monotonic() < give_up_at, "the condition did not become true in time"
        await asyncio.sleep(0.005)


def wait_until(
    condition: Callable[[], object], *, limit_s: float = LIMIT_S, says: Callable[[], object] = lambda: ""
) -> None:
    """Like `until`, for tests without a loop. `says` returns what a failure adds to its message."""
    give_up_at = time.monotonic() + min(limit_s, MOST_S)
    while not condition():
        assert time.monotonic() < give_up_at, f"the condition did not become true in time {says()}"
        time.sleep(0.005)
