"""A job of spark/jobs as its users start it: a command, here in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from examples.demo.jdk import LEAST, how_to_install, java_version

from ottla_core.errors import ErrorCode, OttlaError
from ottla_stack.running import wait_for

JOBS: Final = Path(__file__).parents[2] / "spark" / "jobs"
LIMIT_S: Final = 600.0
_SHORT_LIVED: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For the JVM: a process that runs for a minute ends before its code is optimised."""


def missing_reason() -> str:
    """Return what the jobs lack on this machine, and the remedy; "" if they can run."""
    version = java_version()
    if version is not None and version >= LEAST:
        return ""
    has = f"Java {version} is too old for it" if version else "it needs Java"
    return f"{has}: {how_to_install()}"


class SparkJob:
    """`with SparkJob("lake", directory, "--topic", …) as job:` runs it in `directory`; leaving the block ends it."""

    def __init__(self, name: str, directory: Path, bootstrap: str, *arguments: object) -> None:
        self._name: Final = name
        self._scratch: Final = directory / f"spark-{name}"
        settings = {
            "spark.local.dir": self._scratch,
            "spark.driver.extraJavaOptions": f"{_SHORT_LIVED} -Djava.io.tmpdir={self._scratch}",
        }
        command = [sys.executable, str(JOBS / f"{name}.py"), "--bootstrap", bootstrap, *map(str, arguments)]
        self._command: Final = [*command, *(f"--conf={key}={value}" for key, value in settings.items())]
        self._out: Final = self._scratch / "out"
        self._err: Final = self._scratch / "err"
        self._process: subprocess.Popen[bytes] | None = None
        self._restarts_printed = 0

    def __enter__(self) -> Self:
        self._scratch.mkdir(exist_ok=True)
        self._restarts_printed = 0
        with self._out.open("w") as out, self._err.open("w") as err:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self._scratch,
                env={**os.environ, "TMPDIR": str(self._scratch)},
                start_new_session=True,
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._running.poll() is None:
            os.killpg(self._running.pid, signal.SIGKILL)  # its JVM, too
        self._running.wait()

    def kill_and_start(self) -> None:
        """SIGKILL its driver with the JVM, and start it again."""
        self.__exit__(None, None, None)
        self.__enter__()

    def wait_for(self, done: Callable[[], object], purpose: str) -> None:
        """Wait until `done`. Raises if the job has ended, or if it takes too long."""
        wait_for(lambda: self._is_running() and done(), f"the job {self._name} and {purpose}", limit_s=LIMIT_S)

    def result(self) -> tuple[int, dict[str, Any]]:
        """Return its exit code and its last line, once it has ended. Raises UNKNOWN_SERVER_ERROR if it has no line."""
        wait_for(lambda: self._running.poll() is not None, f"the end of the job {self._name}", limit_s=LIMIT_S)
        self._print_restarts()
        lines = self._out.read_text().splitlines()
        if not lines:
            raise self._failure()
        return self._running.returncode, dict(json.loads(lines[-1]))

    def stop(self) -> dict[str, Any]:
        """Stop a job that runs as a stream cleanly; return its last line."""
        self._running.terminate()
        return self.result()[1]

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was started"
        return self._process

    def _is_running(self) -> bool:
        self._print_restarts()
        if self._running.poll() is not None:
            raise self._failure()
        return True

    def _print_restarts(self) -> None:
        """Print what the job has written about queries that started again: its own output goes to a file."""
        lines = [line for line in self._err.read_text(errors="replace").splitlines() if "starts again" in line]
        for line in lines[self._restarts_printed :]:
            print(f"the job {self._name}: {line}", file=sys.stderr, flush=True)
        self._restarts_printed = len(lines)

    def _failure(self) -> OttlaError:
        errors = self._err.read_text().splitlines()
        message = errors[-1] if errors else "it printed no error"
        return OttlaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the job {self._name} exited with code {self._running.returncode}: {message}",
        )
