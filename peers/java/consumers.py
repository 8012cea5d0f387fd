"""Consumers of Kafka's own client, any number of them in one process, called one at a time."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from peers.place import PeerError

_CALL_S: Final = 90.0
_TAIL_CHARS: Final = 2000


class Raised(NamedTuple):
    """The exception that a call ended with."""

    kind: str
    """The name of its class, without the package."""
    message: str


class JavaConsumers:
    """`with JavaConsumers(driver.program("consumers")) as consumers:` has as many as are opened in it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._complaints: Final = tempfile.TemporaryFile()  # noqa: SIM115 - __exit__ ends it
        self._process: Final = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_CALL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._complaints.close()

    def call(self, who: str, what: str, **arguments: Any) -> Any:
        """Call a method of the consumer of that name, and return its value or what it raised.

        Raises PeerError where the process has ended, or doesn't answer and is killed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"who": who, "what": what, "with": arguments}).encode() + b"\n"
        watchdog = threading.Timer(_CALL_S, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        finally:
            watchdog.cancel()
        if not answer:
            self._complaints.seek(0)
            words = self._complaints.read().decode(errors="replace")[-_TAIL_CHARS:]
            raise PeerError(f"{who} {what} was not answered within {_CALL_S:g} s, or the process ended:\n{words}")
        fields = json.loads(answer)
        return Raised(fields["raises"], fields["message"] or "") if "raises" in fields else fields["gives"]
