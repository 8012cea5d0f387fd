"""Watches whether the turns of an event loop stay short. While one lasts no other task is served, and in the end leases
lapse.

A turn is measured by the CPU time of the loop's thread, because other programs that had the processor are no fault of
this one. The loop can't be asked what it runs, so it has a tick. What its thread used from one tick to the next is no
less than the longest turn in between, and exceeds it by at most the time between two ticks. If a tick does not come, a
thread beside the loop looks at what is being run.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
from collections.abc import Mapping
from types import CodeType
from typing import Final

from ottla_core.event_loop.thread_frames import thread_frames
from ottla_core.telemetry import Counter, Metrics

LIMIT_S: Final = 0.1
"""The CPU time that one turn may use. Longer work belongs in slices or in another thread."""

_IDLE_TICK_S: Final = 0.05
_BUSY_TICK_S: Final = 0.01
_BUSY_SHARE: Final = 0.1
_LOOK_S: Final = 0.1
_SUSPECT_S: Final = 0.02
_FRAMES: Final = 8
_UNDISTURBED_S: Final = 1.0
_LOG_INTERVAL_S: Final = 1.0

_log = logging.getLogger(__name__)


class Watchdog:
    """Watches one loop, on which `start` and `stop` are called. `max_cpu_s` and `max_wall_s` cover all turns since."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        metrics = metrics or Metrics()
        self.max_cpu_s = 0.0
        self.max_wall_s = 0.0
        self.long_turns: Final[Counter] = metrics.counter(
            "ottla_loop_long_turns_total", f"Turns of the event loop that used more than {LIMIT_S:g} s of CPU time."
        )
        metrics.gauge(
            "ottla_loop_turn_cpu_max_seconds", "CPU time of the longest turn of the event loop.", lambda: self.max_cpu_s
        )
        metrics.gauge(
            "ottla_loop_turn_wall_max_seconds",
            "Wall-clock time of the longest turn of the event loop.",
            lambda: self.max_wall_s,
        )
        self._timer: asyncio.Handle | None = None
        self._stopped = threading.Event()
        self._thread_id = 0
        self._used_s = 0.0
        self._collecting_from_s = 0.0
        self._collected_s = 0.0
        self._due_at = 0.0
        self._tick_s = _IDLE_TICK_S
        self._seen: tuple[float, str] = (0.0, "")
        self._logged_at = -_LOG_INTERVAL_S
        self._unlogged = 0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._stopped.clear()
        self._thread_id = threading.get_ident()
        gc.callbacks.append(self._on_collection)
        self._note()
        self._timer = loop.call_later(self._tick_s, self._tick, loop)
        threading.Thread(target=self._look, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            gc.callbacks.remove(self._on_collection)

    # ---- on the loop -------------------------------------------------------------------------------------------------

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        began_s, used_s = self._used_s, time.thread_time() - self._used_s
        self.max_cpu_s = max(self.max_cpu_s, used_s)
        self.max_wall_s = max(self.max_wall_s, time.monotonic() - self._due_at)
        if used_s > LIMIT_S:
            self.long_turns.value += 1
            self._report(used_s, self._seen[1] if self._seen[0] == began_s else "")
        # While there is work the loop is awake anyway, and a tick costs little. Otherwise it would cost a wake-up.
        self._tick_s = _BUSY_TICK_S if used_s > _BUSY_SHARE * self._tick_s else _IDLE_TICK_S
        self._note()
        self._timer = loop.call_later(self._tick_s, self._tick, loop)

    def _note(self) -> None:
        self._used_s, self._collected_s = time.thread_time(), 0.0
        self._due_at = time.monotonic() + self._tick_s

    def _report(self, used_s: float, where: str) -> None:
        now = time.monotonic()
        if now - self._logged_at < _LOG_INTERVAL_S:
            self._unlogged += 1
            return
        omitted = f", and {self._unlogged} before it" if self._unlogged else ""
        self._logged_at, self._unlogged = now, 0
        _log.warning(
            "a turn of the event loop took %.0f ms of CPU time (%.0f ms in garbage collection)%s, and every other task "
            "waited; %s",
            used_s * 1000,
            self._collected_s * 1000,
            omitted,
            f"the turn ran {where}" if where else "the watchdog did not see which code it ran",
        )

    def _on_collection(self, phase: str, _: Mapping[str, int]) -> None:
        """Measure the time of a garbage collection. Every generation counts: even tens of thousands of new objects take
        tens of milliseconds."""
        if threading.get_ident() == self._thread_id:
            if phase == "start":
                self._collecting_from_s = time.thread_time()
            else:
                self._collected_s += time.thread_time() - self._collecting_from_s

    # ---- beside it ---------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        clock = time.pthread_getcpuclockid(self._thread_id)
        while not self._stopped.wait(_LOOK_S):
            began_s = self._used_s
            if time.clock_gettime(clock) - began_s > _SUSPECT_S:
                calls = _innermost_calls(self._thread_id)
                if self._used_s == began_s:
                    self._seen = (began_s, " > ".join(calls))


def _innermost_calls(thread_id: int) -> list[str]:
    """Return the calls of another thread, outermost first. It must not run during that, because its frames would
    change."""
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(_UNDISTURBED_S)
    try:
        calls: list[tuple[CodeType, int]] = []
        frame = thread_frames().get(thread_id)
        while frame is not None and len(calls) < _FRAMES:
            calls.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
    finally:
        sys.setswitchinterval(switch_s)
    return [f"{c.co_name} ({c.co_filename.rpartition('/')[2]}:{line})" for c, line in reversed(calls)]
