"""Java programs: what those are started with that live for minutes at most, and one that runs beside a test."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from peers.maven import java
from peers.place import PeerError

SHORT_LIVED: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""They don't live long enough for optimised code to pay."""
QUICK_START: Final = (*SHORT_LIVED, "-Xmx512m")
_STOP_LIMIT_S: Final = 60.0
_TAIL_CHARS: Final = 2000


class Jvm:
    """A Java program that runs until it is stopped or killed; what it prints is added to `log`, and what it unpacks, as
    RocksDB's library, lies beside that: one that is killed removes nothing. `options` are the JVM's."""

    def __init__(
        self, classpath: str, main: str, *arguments: str, log: Path, options: Sequence[str] = QUICK_START
    ) -> None:
        properties = ["-Dlog4j2.level=INFO", f"-Djava.io.tmpdir={log.parent}"]
        command = [java(), *options, *properties, "-cp", classpath, main, *arguments]
        self._log: Final = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raises PeerError with the end of its log where it has ended."""
        if (ended := self._process.poll()) is not None:
            log = self._log.read_text(errors="replace")
            raise PeerError(f"{self._log.stem} has ended with {ended}:\n{log[-_TAIL_CHARS:]}")

    def kill(self) -> None:
        """By SIGKILL; it has ended when this returns."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """By SIGTERM, and SIGKILL where that is not enough. Nothing where it has ended."""
        self._process.terminate()
        try:
            self._process.wait(timeout=_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
