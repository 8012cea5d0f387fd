"""A worker of Kafka Connect in distributed mode, as bin/connect-distributed.sh starts it, and its REST API."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from peers.connect.jars import classpath, plugin
from peers.jvm import Jvm
from peers.kafka.server import free_ports
from peers.place import PeerError
from peers.security import java_properties

_MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_LIMIT_S: Final = 30.0


class Worker:
    """`settings` are the lines of its connect-distributed.properties; what it prints is in `<name>.log` in `directory`.

    It runs from `start` to `kill` or `stop`, and may be started again.
    """

    def __init__(self, name: str, directory: Path, settings: str) -> None:
        (port,) = free_ports(1)
        self.address: Final = f"127.0.0.1:{port}"
        """The address of the REST API, which is also the worker's name among workers."""
        self._log: Final = directory / f"{name}.log"
        self._settings: Final = directory / f"{name}.properties"
        self._running: Jvm | None = None
        plugins = directory / "plugins"
        plugins.mkdir(exist_ok=True)
        if not (plugins / "debezium").exists():
            (plugins / "debezium").symlink_to(plugin())
        own = f"plugin.path={plugins}\nlisteners=http://{self.address}\n"
        # The worker's own connections, and those of its connectors.
        secured = "".join(map(java_properties, ("", "producer.", "consumer.", "admin.")))
        self._settings.write_text(f"{settings}\n{own}{secured}")

    def start(self) -> None:
        """Raises PeerError where the jars can't be had."""
        self._running = Jvm(classpath(), _MAIN, str(self._settings), log=self._log)

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    def is_ready(self) -> bool:
        """Raises PeerError where it has ended."""
        if self._running is not None:
            self._running.check()
        try:
            return bool(self.call("GET", "/health")["status"] == "healthy")
        except (OSError, PeerError):
            return False

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Its answer, out of JSON. Raises PeerError with why it refuses, and OSError where it can't be reached."""
        request = urllib.request.Request(
            f"http://{self.address}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_LIMIT_S) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as refused:
            raise PeerError(f"{method} {path} is refused: {refused.read().decode(errors='replace')}") from refused
