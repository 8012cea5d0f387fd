"""A process that cleans one log, so that going through a million records holds up no loop."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from subprocess import PIPE, Popen
from typing import Final

from ottla_broker.compaction.job import CleanedGroup, CleaningJob, CleaningResult
from ottla_core.errors import ErrorCode, OttlaError

_LEAST_LIMIT_S: Final = 600.0
_LEAST_BYTES_PER_S: Final = 1_000_000
_RESULT_LIMIT_BYTES: Final = 64 << 20

Take = Callable[[CleanedGroup], Awaitable[None]]
Run = Callable[[CleaningJob, Take], Awaitable[CleaningResult]]
"""Cleans a log as `run_worker` does."""


async def run_worker(job: CleaningJob, take: Take) -> CleaningResult:
    """Run a worker that cleans a log. `take` puts each group in its place; then the worker writes the next one.

    Raises KAFKA_STORAGE_ERROR if the log can't be cleaned, or the worker ended or took too long, and what `take`
    raises. The groups that were taken before count. Cancelled, it ends the worker.
    """
    worker = _Worker(job)
    try:
        line = await worker.listen(job.to_json)
        while isinstance(line, CleanedGroup):
            await take(line)
            line = await worker.listen(str)
        return _result(line, worker.process.returncode)
    finally:
        await worker.end()


class _Worker:
    """The process, and the thread that talks to it."""

    def __init__(self, job: CleaningJob) -> None:
        # A thread starts it and not the loop: uvloop forks, and the child of a process with gRPC's threads may abort
        # before it becomes another program.
        command = [sys.executable, "-m", "ottla_broker.compaction"]
        # It has a session of its own, so that an interrupt at the broker's terminal does not end the worker.
        self.process: Final = Popen(command, stdin=PIPE, stdout=PIPE, start_new_session=True)
        self._limit_s: Final = _limit_s(job)
        self._thread: Final = ThreadPoolExecutor(1, "cleaner-worker")

    async def listen(self, text: Callable[[], str]) -> CleanedGroup | bytes:
        """Send the result of `text()`, which the thread calls, and return the group that the worker sends next.

        A worker that has ended gives its last line instead.
        """
        heard = asyncio.get_running_loop().run_in_executor(self._thread, self._exchange, text)
        try:
            async with asyncio.timeout(self._limit_s):
                return await heard
        except TimeoutError:
            raise _failed(
                f"its worker did not answer within {self._limit_s:.0f} s", "compaction is tried again"
            ) from None

    def _exchange(self, text: Callable[[], str]) -> CleanedGroup | bytes:
        line, process = b"", self.process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it may have ended before it had its job
            process.stdin.write(text().encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline(_RESULT_LIMIT_BYTES)
            with suppress(ValueError, KeyError, TypeError):
                if (group := CleanedGroup.from_json(line)) is not None:
                    return group
        self._reap()
        return line

    def _reap(self) -> None:
        with suppress(BrokenPipeError), self.process:
            """Close its stdin, which has been open until now: a worker whose broker is gone ends at once."""

    async def end(self) -> None:
        self.process.kill()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._reap)
        self._thread.shutdown(wait=False)


def _limit_s(job: CleaningJob) -> float:
    """Return the time limit of one step, which learns all keys and writes the first group, or writes another one."""
    size_bytes = sum(segment.size_bytes for segment in job.segments)
    rate = min(_LEAST_BYTES_PER_S, job.most_bytes_per_s or _LEAST_BYTES_PER_S)
    return _LEAST_LIMIT_S + 3 * size_bytes / rate


def _result(line: bytes, returncode: int | None) -> CleaningResult:
    try:
        if "error" in (found := json.loads(line)):
            raise _failed(found["error"]["message"], found["error"]["hint"])
        return CleaningResult.from_json(line)
    except (ValueError, KeyError, TypeError):
        raise _failed(
            f"its worker ended with the exit code {returncode}, without a result", "compaction is tried again"
        ) from None


def _failed(reason: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, reason, hint=hint)
