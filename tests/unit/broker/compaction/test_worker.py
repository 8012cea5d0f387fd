"""The worker process: a job in, a line out, and no life of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cleanings import clean, job_for, pairs, write_segments
from waiting import until

from ottla_broker.compaction import worker
from ottla_broker.compaction.job import CleanedGroup, CleaningJob, CleaningResult
from ottla_broker.compaction.worker import run_worker
from ottla_core.errors import ErrorCode, OttlaError

WORKER = (sys.executable, "-m", "ottla_broker.compaction")


def job_in(directory: Path, *, speed: int = 0) -> CleaningJob:
    sources = write_segments(directory, [pairs(0, (b"a", b"1"), (b"a", b"2"))])
    return job_for(directory, sources, most_bytes_per_s=speed, newest_batches=frozenset({3, 1}))


async def take(group: CleanedGroup) -> None:
    """Leave it beside its sources."""


def line_of(job: CleaningJob) -> tuple[int, str]:
    """Its exit code and its output, stdin being open to the end."""
    with subprocess.Popen(WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(job.to_json() + "\n")
        worker.stdin.flush()
        lines = ""
        while (line := worker.stdout.readline()).startswith('{"group"'):
            lines += line
            worker.stdin.write("\n")
            worker.stdin.flush()
        return worker.wait(30), lines + line + worker.stdout.read()


def test_a_job_its_groups_and_its_result_are_a_line_each(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    assert CleaningJob.from_json(job.to_json()) == job
    code, lines = line_of(job)
    group, line = lines.splitlines()
    assert code == 0
    assert CleaningResult.from_json(line) == (cleaned := clean(job))
    assert CleanedGroup.from_json(group) == CleanedGroup(2, 2, cleaned.segments[0])
    assert CleanedGroup.from_json(line) is None


def test_an_error_is_a_line_too(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    code, line = line_of(job)
    error = json.loads(line)["error"]
    assert (code, set(error)) == (1, {"message", "hint"})
    assert path.name in error["message"]
    assert error["hint"]
    path.unlink()
    assert "No such file" in json.loads(line_of(job)[1])["error"]["message"]


def test_it_ends_with_its_broker(tmp_path: Path) -> None:
    job = job_in(tmp_path, speed=1)  # minutes
    worker = subprocess.run(WORKER, input=job.to_json() + "\n", capture_output=True, text=True, timeout=30, check=False)
    assert (worker.returncode, worker.stdout) == (1, "")


def test_one_that_ends_before_it_has_its_job_is_an_error_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def ended(_: list[str], **named: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["/bin/false"], **named)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return process

    monkeypatch.setattr(worker, "Popen", ended)
    with pytest.raises(OttlaError, match="its worker ended with the exit code 1") as caught:
        uvloop.run(run_worker(job_in(tmp_path), take))
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("prints", ["", "no JSON", "5", "{}", '{"error": "of another kind"}', "x" * 1_000_000])
async def test_one_that_prints_no_result_is_an_error_like_any_other(
    prints: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "printed").write_text(prints + "\n")
    command = ["cat", str(tmp_path / "printed")]
    monkeypatch.setattr(worker, "Popen", lambda _, **named: subprocess.Popen(command, **named))
    with pytest.raises(OttlaError, match="its worker ended with the exit code 0, without a result"):
        await run_worker(job_in(tmp_path), take)


async def test_one_that_prints_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_RESULT_LIMIT_BYTES", 1 << 20)
    monkeypatch.setattr(worker, "Popen", lambda _, **named: subprocess.Popen(["cat", "/dev/zero"], **named))
    with pytest.raises(OttlaError, match=f"the exit code {-signal.SIGPIPE}, without a result"):
        await run_worker(job_in(tmp_path), take)


async def test_one_that_is_cancelled_is_gone_when_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(command: list[str], **named: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command, **named))
        return started[0]

    monkeypatch.setattr(worker, "Popen", start)
    cleaning = asyncio.create_task(run_worker(job_in(tmp_path, speed=1), take))  # minutes
    await asyncio.sleep(0)
    assert os.getpgid(started[0].pid) != os.getpgid(0), "an interrupt at the broker's terminal is not for it"
    cleaning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cleaning
    assert started[0].returncode == -signal.SIGKILL
    await until(lambda: not [t for t in threading.enumerate() if t.name.startswith("cleaner-worker")])


def test_to_start_it_imports_little() -> None:
    heavy = "import sys, ottla_broker.compaction.__main__; print([m for m in ('grpc', 'asyncio') if m in sys.modules])"
    assert subprocess.run((sys.executable, "-c", heavy), capture_output=True, text=True, check=True).stdout == "[]\n"
