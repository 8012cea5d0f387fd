"""One supervised process: it is started, restarted when it dies, and stopped by SIGTERM and in the end by SIGKILL."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Sequence
from typing import Final

from ottla_core.rpc.retry import Backoff
from ottla_stack.child_log import ChildLog
from ottla_stack.state import ProcessIdentity

_log = logging.getLogger(__name__)

KILL_LIMIT_S: Final = 2.0
"""The time that the kernel may take to end a process that was killed."""

_STABLE_AFTER_S: Final = 2.0


class Child:
    """One supervised process. `on_change` is called whenever it was started or has ended."""

    def __init__(self, name: str, command: Sequence[str], log: ChildLog, on_change: Callable[[], None]) -> None:
        self.name: Final = name
        self.restarts = 0
        self.identity: ProcessIdentity | None = None
        self.last_exit: int | None = None
        self._command = command
        self.log: Final = log
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self.stopping = False
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self._keep_running(), name=f"child-{self.name}")

    async def stop(self, *, limit_s: float) -> None:
        """Send SIGTERM, and SIGKILL if the process still runs after `limit_s`. It returns at most KILL_LIMIT_S
        later."""
        self.stopping = True
        self._send(signal.SIGTERM)
        if self._running is None or await _ends(self._running, limit_s):
            return
        _log.warning("%s did not stop within %g s; killing it", self.name, limit_s)
        self._send(signal.SIGKILL)
        if not await _ends(self._running, KILL_LIMIT_S):
            self._running.cancel()

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and was not waited for yet
                self._process.send_signal(number)

    async def _keep_running(self) -> None:
        backoff = Backoff(first_s=0.2, most_s=5.0)
        loop = asyncio.get_running_loop()
        while not self._is_over():
            began_at = loop.time()
            try:
                await self._run_once()
            except OSError as error:  # such as a full disk under the log: supervision continues
                _log.error("%s could not be started: %s", self.name, error)
            if self._is_over():
                return
            if loop.time() - began_at > _STABLE_AFTER_S:
                backoff.reset()
            self.restarts += 1
            _log.warning(
                "%s ended with %s and is being restarted; its log is %s", self.name, self.last_exit, self.log.path
            )
            await asyncio.sleep(backoff.next())

    def _is_over(self) -> bool:
        """Return whether it is stopping. It is a method, so that it is read again after every wait."""
        return self.stopping

    async def _run_once(self) -> None:
        with self.log.open() as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.identity = ProcessIdentity.of(self._process.pid)
        self._on_change()
        if self.stopping:
            self._send(signal.SIGTERM)
        try:
            self.last_exit = await self._process.wait()
        finally:
            self.identity = None
            self._on_change()


async def _ends(running: asyncio.Task[None], limit_s: float) -> bool:
    """Return whether it is over within the limit."""
    done, _ = await asyncio.wait({running}, timeout=limit_s)
    return bool(done)
