"""A process that cleans one log: to go through a million records holds up no loop."""

from __future__ import annotations

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from subprocess import PIPE, Popen
from typing import Final

from ottla_broker.compaction.job import CleaningJob, CleaningResult
from ottla_core.errors import ErrorCode, OttlaError

_LEAST_LIMIT_S: Final = 600.0
_LEAST_BYTES_PER_S: Final = 1_000_000
_RESULT_LIMIT_BYTES: Final = 64 << 20


async def run_worker(job: CleaningJob) -> CleaningResult:
    """Raises KAFKA_STORAGE_ERROR where the log can't be cleaned, or the worker ended or took too long; the log is as it
    was then. Cancelled, it ends the worker."""
    limit_s = _limit_s(job)
    # Not by the loop: uvloop forks, and the child of a process with gRPC's threads may abort before it is another.
    command = [sys.executable, "-m", "ottla_broker.compaction"]
    # A session of its own: what interrupts a broker at its terminal is no end of the worker's own.
    process = Popen(command, stdin=PIPE, stdout=PIPE, start_new_session=True)  # noqa: ASYNC220 - copies nothing
    thread = ThreadPoolExecutor(1, "cleaner-worker")
    line = asyncio.get_running_loop().run_in_executor(thread, _line_from, process, job)
    try:
        async with asyncio.timeout(limit_s):
            return _result(await asyncio.shield(line), process.returncode)
    except TimeoutError:
        raise _failed(f"its worker did not finish within {limit_s:.0f} s", "it is tried again") from None
    finally:
        process.kill()
        await asyncio.wait([line])
        thread.shutdown(wait=False)


def _limit_s(job: CleaningJob) -> float:
    """Two passes, and what is written."""
    size_bytes = sum(segment.size_bytes for segment in job.segments)
    rate = min(_LEAST_BYTES_PER_S, job.most_bytes_per_s or _LEAST_BYTES_PER_S)
    return _LEAST_LIMIT_S + 3 * size_bytes / rate


def _line_from(process: Popen[bytes], job: CleaningJob) -> bytes:
    """Its stdin stays open: a worker whose broker is gone ends at once."""
    line = b""
    with suppress(BrokenPipeError), process:  # it may have ended before it had its job
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(job.to_json().encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline(_RESULT_LIMIT_BYTES)
    return line


def _result(line: bytes, returncode: int) -> CleaningResult:
    try:
        if "error" in (found := json.loads(line)):
            raise _failed(found["error"]["message"], found["error"]["hint"])
        return CleaningResult.from_json(line)
    except (ValueError, KeyError, TypeError):
        raise _failed(
            f"its worker ended with the exit code {returncode}, without a result", "it is tried again"
        ) from None


def _failed(reason: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, reason, hint=hint)
