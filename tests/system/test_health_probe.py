"""`python -m ottla_core.process.health PORT` as a container's health check runs it."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from waiting import LIMIT_S

from ottla_core.process.admin_http import AdminHttp
from ottla_core.telemetry import Metrics


async def probe(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "ottla_core.process.health", *arguments]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=LIMIT_S)
    return done.returncode, (done.stdout + done.stderr).strip()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_exit_code_says_whether_it_serves_and_the_words_say_why_not(host: str) -> None:
    why: list[str | None] = ["not registered yet"]
    http = AdminHttp(host, 0, Metrics(), lambda: why[0])
    await http.start()
    port = str(http.port)
    try:
        assert await probe(port) == (1, "not registered yet")
        why[0] = None
        assert await probe(port) == (0, "ready")
    finally:
        await http.stop()
    code, words = await probe(port)
    assert (code, f"no answer on port {port}" in words) == (1, True)
    assert await probe("nine") == (2, "usage: python -m ottla_core.process.health PORT")


def test_it_imports_nothing_that_costs() -> None:
    program = "import sys, ottla_core.process.health; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert not {"ssl", "http", "asyncio", "logging", "grpc", "typing"} & set(done.stdout.split())
