"""PostgreSQL by Debian's package, started for a test with a database of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from peers.kafka.server import free_ports
from peers.place import PeerError, program

USER: Final = "postgres"
"""The user of the database, and of the process if we are root, because PostgreSQL refuses to run as root."""
_INSTALLED: Final = Path("/usr/lib/postgresql")
_SETTINGS: Final = ("wal_level=logical", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off")
_LIMIT_S: Final = 120.0


class Postgres:
    """`with Postgres() as database:` takes connections of USER at 127.0.0.1 and `database.port`, without a password."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self._folder: Final = Path(tempfile.mkdtemp(prefix="ottla-postgres-"))
        self._running: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def query(self, sql: str) -> list[list[str]]:
        """The rows, each column as text. Raises PeerError where the statement fails."""
        address = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER]
        done = self._run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *address, "-c", sql])
        return [line.split("|") for line in done.splitlines()]

    def _start(self) -> None:
        program("psql", "postgresql")
        if not (found := sorted(_INSTALLED.glob("*/bin/initdb"))):
            raise PeerError(f"there is no PostgreSQL server in {_INSTALLED}: install postgresql")
        if os.geteuid() == 0:
            shutil.chown(self._folder, USER)
        data = str(self._folder / "data")
        self._run([str(found[-1]), "-D", data, "-U", USER, "-A", "trust", "--no-sync"])
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        with (self._folder / "log").open("wb") as output:
            self._running = subprocess.Popen(
                [found[-1].with_name("postgres"), "-D", data, "-p", str(self.port), *settings],
                **self._process(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._wait()

    def _wait(self) -> None:
        give_up_at = time.monotonic() + _LIMIT_S
        while True:
            try:
                self.query("SELECT 1")
            except PeerError:
                if time.monotonic() > give_up_at or self._running is None or self._running.poll() is not None:
                    raise
                time.sleep(0.1)
            else:
                return

    def _stop(self) -> None:
        if self._running is not None:
            self._running.send_signal(signal.SIGINT)  # SIGTERM would wait for its clients
            try:
                self._running.wait(timeout=_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._running.kill()
                self._running.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(command, **self._process(), capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        if done.returncode != 0:
            raise PeerError(f"{command[0]} has failed: {done.stderr}")
        return str(done.stdout)

    def _process(self) -> dict[str, Any]:
        return {"cwd": self._folder, **({"user": USER} if os.geteuid() == 0 else {})}
