"""A member of a group that a driver runs: `group` of peers/driver.py, seen from here."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from peers.client import LIMIT_S, CommitError, GroupRec
from peers.place import PeerError

_TAIL_CHARS: Final = 2000


class DrivenMember:
    """The process of one member. What it tells is read on a thread of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.revoked: list[int] = []
        self.lost: list[int] = []
        self._assigned: set[int] = set()
        self._records: list[GroupRec] = []
        self._answered = 0
        self._failed = ""
        """What was said of the last command, if it was refused."""
        self._closing = False
        self._told: Final = threading.Condition()
        self._name: Final = command[-2]
        self._complaints: Final = tempfile.TemporaryFile()  # noqa: SIM115 - close() ends it
        self._process: Final = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        self._reading: Final = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def assignment(self) -> list[int]:
        self._check_alive()
        with self._told:
            return sorted(self._assigned)

    def records(self) -> list[GroupRec]:
        self._check_alive()
        with self._told:
            return list(self._records)

    def commit(self) -> None:
        self._command("commit")

    def seek(self, partition: int, offset: int) -> None:
        self._command(f"seek {partition} {offset}")

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as to_driver:
            to_driver.write(b"close\n")
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise PeerError(f"a member of {self._name} has not left in {LIMIT_S:.0f} s") from None
        finally:
            self._process.kill()  # nothing where it has ended
            self._process.wait()
            self._reading.join()
            self._assigned.clear()
            words = self._words()
            self._complaints.close()
        if self._process.returncode != 0:
            raise PeerError(f"a member of {self._name} left with {self._process.returncode}:\n{words}")

    def _command(self, words: str) -> None:
        """Raises PeerError where it is not done in time, and CommitError where it is refused."""
        self._check_alive()
        assert self._process.stdin is not None
        with self._told:
            wanted = self._answered + 1
            with suppress(BrokenPipeError):
                self._process.stdin.write(words.encode() + b"\n")
                self._process.stdin.flush()
            if not self._told.wait_for(lambda: self._answered >= wanted or not self._reading.is_alive(), LIMIT_S):
                raise PeerError(f"a member of {self._name} has not done in {LIMIT_S:.0f} s: {words}")
        self._check_alive()
        if self._failed:
            raise CommitError(f"a member of {self._name}: {self._failed}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with self._told:
                    self._on_event(json.loads(line))
                    self._told.notify_all()
        self._process.wait()
        with self._told:
            self._told.notify_all()

    def _on_event(self, event: dict[str, Any]) -> None:
        match event:
            case {"assigned": partitions}:
                self._assigned.update(partitions)
            case {"revoked": partitions}:
                self._assigned.difference_update(partitions)
                if not self._closing:
                    self.revoked += partitions
            case {"lost": partitions}:
                self._assigned.difference_update(partitions)
                self.lost += partitions
            case {"record": record}:
                value = base64.b64decode(record["value"])
                self._records.append(GroupRec(record["partition"], record["offset"], value))
            case {"done": _}:
                self._answered, self._failed = self._answered + 1, ""
            case {"failed": _, "error": words}:
                self._answered, self._failed = self._answered + 1, str(words)

    def _check_alive(self) -> None:
        """A member that has been closed has records still."""
        if self._process.poll() is not None and not self._closing:
            raise PeerError(f"a member of {self._name} ended with {self._process.returncode}:\n{self._words()}")

    def _words(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")[-_TAIL_CHARS:]
