"""Plays cases one after the other, each against the place that the player has at the server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Any, Final, Self

from tests.fuzz_client.calls import play_call
from tests.fuzz_client.case import Case
from tests.fuzz_client.ending import Ending
from tests.fuzz_client.vocabulary import HOST
from tests.fuzz_client.whole_clients import play_client

_TELL_LIMIT_S: Final = 60.0
_THREADS_END_WITHIN_S: Final = 5.0


class HostileServer:
    """The process of the server."""

    def __init__(self) -> None:
        self._process: Final = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz_client.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port: Final = int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Player:
    """One place at the server."""

    def __init__(self, server: HostileServer) -> None:
        self._line: Final = socket.create_connection((HOST, server.port), timeout=_TELL_LIMIT_S)
        self._file: Final = self._line.makefile("rw")
        self.port: Final = int(self._file.readline())

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def play(self, case: Case, *, patience: float = 1.0) -> Ending:
        """Play a case, and look for what it has left behind."""
        self._tell(case.as_json())
        begun = time.monotonic()
        is_whole = case.level.is_whole_client
        ending = play_client(case, self.port) if is_whole else play_call(case, self.port, patience=patience)
        ending.seconds = time.monotonic() - begun
        told = self._tell("end")
        ending.seen, ending.was_done = [(key, version) for key, version in told["seen"]], told["done"]
        if told["open"]:
            ending.faults.append(f"a leak: {told['open']} connections were left open")
        if told["fault"]:
            ending.faults.append(f"the server could not read what the client has sent: {told['fault']}")
        if left := self._threads_left(case):
            ending.faults.append(f"a leak: the threads {left} were left")
        return ending

    def close(self) -> None:
        self._file.close()
        self._line.close()

    def _tell(self, line: str) -> dict[str, Any]:
        self._file.write(line + "\n")
        self._file.flush()
        told: dict[str, Any] = json.loads(self._file.readline())
        return told

    def _threads_left(self, case: Case) -> list[str]:
        until = time.monotonic() + _THREADS_END_WITHIN_S
        ends = (f"-{case.client_id}", f"-{self.address}")
        while left := [each for each in threading.enumerate() if each.name.endswith(ends)]:
            left[0].join(max(0.0, until - time.monotonic()))
            if time.monotonic() > until:
                return [each.name for each in left]
        return []
