"""One supervised process: how it is ended, willing or not."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from waiting import until

from ottla_stack.child import Child
from ottla_stack.child_log import ChildLog

WILLING = "import time; print('up', flush=True); time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WILLING}"


async def started(program: str, directory: Path) -> Child:
    """A child that is up and has said so, to its log and to its supervisor, in either order."""
    child = Child("broker-0", [sys.executable, "-c", program], ChildLog(directory / "broker-0.log"), lambda: None)
    child.start()
    await until(lambda: child.log.path.exists() and child.log.path.read_bytes() == b"up\n")
    await until(lambda: child.identity is not None)
    return child


async def test_sigterm_ends_what_listens_and_it_is_not_started_again(tmp_path: Path) -> None:
    child = await started(WILLING, tmp_path)
    process = child.identity
    assert process is not None
    await child.stop(limit_s=20)
    assert (process.alive, child.identity, child.last_exit, child.restarts) == (False, None, -15, 0)


async def test_what_is_deaf_to_sigterm_is_killed_and_gone_when_the_stop_returns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    child = await started(DEAF, tmp_path)
    process = child.identity
    assert process is not None
    began_at = time.monotonic()
    await child.stop(limit_s=0.1)
    assert time.monotonic() - began_at < 10
    assert (process.alive, child.identity, child.last_exit) == (False, None, -9)
    assert "broker-0 did not stop within 0.1 s; killing it" in caplog.text
