"""MirrorMaker 2 in its dedicated mode, as bin/connect-mirror-maker.sh starts it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from peers.jvm import QUICK_START, Jvm
from peers.mirror_maker.jars import classpath

_MAIN: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
_LINE: Final = re.compile(r"^\d{4}-\S+ .*? (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) .*(?=\n(.*)|\Z)", re.MULTILINE)
"""With a time, the thread, which may have a name of several words, and the level. The exception is on the next line."""
_BAD: Final = ("ERROR", "FATAL")
_STOPPED: Final = "IllegalStateException: Cannot accept new calls when AdminClient is closing"
"""Seen between two Kafkas, too: where a group is new, a task stops and starts again, and what it does at intervals may
go on for a moment after its admin client is closed."""


class MirrorMaker:
    """It runs from `start` to `stop`, and may be started again. `settings` are those of its mm2.properties; what it
    prints is in mm2.log in `directory`. `jvm` are options."""

    def __init__(self, directory: Path, settings: Mapping[str, object], jvm: Sequence[str] = QUICK_START) -> None:
        self._log: Final = directory / "mm2.log"
        self._properties: Final = directory / "mm2.properties"
        self._properties.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        self._jvm: Final = jvm
        self._running: Jvm | None = None
        self._started_at = 0

    def start(self) -> None:
        """Raises PeerError where the jars can't be had."""
        self._started_at = self._log.stat().st_size if self._log.exists() else 0
        self._running = Jvm(classpath(), _MAIN, str(self._properties), log=self._log, options=self._jvm)

    @property
    def pid(self) -> int:
        assert self._running is not None, "it runs"
        return self._running.pid

    def kill(self) -> None:
        """It leaves open what it had begun."""
        if self._running is not None:
            self._running.kill()

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    def check(self) -> None:
        """Raises PeerError where it has ended."""
        if self._running is not None:
            self._running.check()

    def errors(self) -> list[str]:
        """The lines that have the level ERROR, or a worse one, since its last start, each with its exception.

        Not those of tasks that stop, so nor what comes after `stop`.
        """
        printed = self._log.read_bytes()[self._started_at :].decode(errors="replace")
        lines = [(line[0], line[1], line[2] or "") for line in _LINE.finditer(printed)]
        return [f"{text}\n{thrown}" for text, level, thrown in lines if level in _BAD and _STOPPED not in thrown]
