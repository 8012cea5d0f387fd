"""One supervised process: started, restarted when it dies, stopped by SIGTERM and in the end by SIGKILL."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from ottla_core.rpc.retry import Backoff
from ottla_stack.state import ProcessIdentity

_log = logging.getLogger(__name__)

_LOG_LIMIT_BYTES: Final = 16 * 1024 * 1024
_STABLE_AFTER_S: Final = 2.0


class Child:
    """`on_change` is called whenever the process was started or has ended."""

    def __init__(self, name: str, command: Sequence[str], log_path: Path, on_change: Callable[[], None]) -> None:
        self.name: Final = name
        self.restarts = 0
        self.identity: ProcessIdentity | None = None
        self.last_exit: int | None = None
        self._command = command
        self._log_path = log_path
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self.stopping = False
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self._keep_running(), name=f"child-{self.name}")

    async def stop(self, *, limit_s: float) -> None:
        """SIGTERM, and SIGKILL for what still runs after `limit_s`."""
        self.stopping = True
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        if self._running is None:
            return
        done, _ = await asyncio.wait({self._running}, timeout=limit_s)
        if not done:
            _log.warning("%s did not stop within %g s and is killed", self.name, limit_s)
            if self._process is not None and self._process.returncode is None:
                self._process.kill()
            self._running.cancel()
            await asyncio.wait({self._running}, timeout=limit_s)

    async def _keep_running(self) -> None:
        backoff = Backoff(first_s=0.2, most_s=5.0)
        loop = asyncio.get_running_loop()
        while not self._is_over():
            began_at = loop.time()
            try:
                await self._run_once()
            except OSError as error:  # such as a full disk under the log: supervision goes on
                _log.error("%s could not be started: %s", self.name, error)
            if self._is_over():
                return
            if loop.time() - began_at > _STABLE_AFTER_S:
                backoff.reset()
            self.restarts += 1
            _log.warning(
                "%s ended with %s and is started again; its log is %s", self.name, self.last_exit, self._log_path
            )
            await asyncio.sleep(backoff.next())

    def _is_over(self) -> bool:
        """Asked anew after every wait."""
        return self.stopping

    async def _run_once(self) -> None:
        with self._open_log() as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.identity = ProcessIdentity.of(self._process.pid)
        self._on_change()
        if self.stopping:
            self._process.send_signal(signal.SIGTERM)
        try:
            self.last_exit = await self._process.wait()
        finally:
            self.identity = None
            self._on_change()

    def _open_log(self) -> BinaryIO:
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        if self._log_path.exists() and self._log_path.stat().st_size > _LOG_LIMIT_BYTES:
            os.replace(self._log_path, self._log_path.with_suffix(".log.1"))
        return self._log_path.open("ab")
