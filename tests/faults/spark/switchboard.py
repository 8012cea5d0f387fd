"""Hears of every step before it is taken, and kills whoever is next on the list when that one's step comes."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.faults.spark.schedule import EXECUTOR, JVM, MOMENT, PYTHON, TREE, Kill
from tests.faults.spark.session import executor_of, is_java, kill, members


class Switchboard:
    """One life of the driver after the other; `history` is a JSON line for each step, kill and life."""

    def __init__(self, history: Path) -> None:
        self.kills: Final[list[Kill]] = []
        self.progress: Final = threading.Event()
        """Some micro-batch has been committed in this life."""
        self._history: Final = history
        self._lock: Final = threading.Lock()
        self._due: list[Kill] = []
        self._skipped = 0
        self._session: int | None = None
        self._server: Final = _Server(("127.0.0.1", 0), _Caller)
        self._server.on_step = self._on_step
        self._thread: Final = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def begin(self, kills: Sequence[Kill], session: int) -> None:
        """A driver runs in this session, and these are due."""
        with self._lock:
            self._due, self._skipped, self._session = list(kills), 0, session
            self.progress.clear()
        self.note("life", session=session, due=[each._asdict() for each in kills])

    def end(self) -> list[Kill]:
        """The driver has ended; what was still due."""
        with self._lock:
            left, self._due, self._session = self._due, [], None
        self.note("end", due=[each._asdict() for each in left])
        return left

    @property
    def awaits_moment(self) -> bool:
        """Whether the next kill comes at no step, and there has been some progress in this life."""
        with self._lock:
            return bool(self._due) and self._due[0].step == MOMENT and self.progress.is_set()

    def kill_now(self) -> None:
        """The one that is next."""
        with self._lock:
            if self._due:
                self._carry_out(self._due[0], None)

    def note(self, what: str, **fields: Any) -> None:
        with self._history.open("a") as lines:
            lines.write(json.dumps({"at": round(time.time(), 3), "what": what, **fields}) + "\n")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _on_step(self, step: str, pid: int, task: Any) -> None:
        with self._lock:
            self.note("step", step=step, pid=pid, task=task)
            if step == "committed":
                self.progress.set()
            if not self._due or self._due[0].step != step:
                return
            if self._skipped < self._due[0].skip:
                self._skipped += 1
                return
            self._carry_out(self._due[0], pid)

    def _carry_out(self, due: Kill, announcer: int | None) -> None:
        """Of the driver's session; nobody else is touched."""
        family = [] if self._session is None else members(self._session)
        if due.victim == PYTHON:
            victims = [pid for pid in family if pid == announcer]
        elif due.victim == EXECUTOR:
            executor = None if announcer is None else executor_of(announcer)
            victims = [pid for pid in family if pid == executor]
        elif due.victim == JVM:
            victims = [pid for pid in family if is_java(pid)]
        else:
            assert due.victim == TREE
            victims = family
        if not victims:
            return
        for pid in victims:
            kill(pid)
        self.kills.append(due)
        self._due, self._skipped = self._due[1:], 0
        self.note("kill", **due._asdict(), pids=victims)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    on_step: Callable[[str, int, Any], None]


class _Caller(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        told = json.loads(self.rfile.readline() or "{}")
        if told:
            assert isinstance(self.server, _Server)
            self.server.on_step(told["step"], told["pid"], told["task"])
