"""Hears of every step before it is taken, and kills whoever is next on the list when that one's step comes."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.faults.spark.schedule import EXECUTOR, JVM, MOMENT, OF_SERVICES, PYTHON, TREE, ZOMBIE, Kill
from tests.faults.spark.services import Services
from tests.faults.spark.session import executor_of, is_java, kill, members, session_of

_POLL_S: Final = 0.05
_HELD_S: Final = 900.0
_NOTICE_S: Final = 300.0
"""A zombie's calls have their own limits, two minutes each."""


class Switchboard:
    """One life of the driver after the other; `history` is a JSON line for each step, kill and life.

    `services` kills those of the cluster, where the schedule has any.
    """

    def __init__(self, history: Path, services: Services | None = None) -> None:
        self.kills: Final[list[Kill]] = []
        self.progress: Final = threading.Event()
        """Some micro-batch has been committed in this life."""
        self._history: Final = history
        self._services: Final = services
        self._lock: Final = threading.Lock()
        self._due: list[Kill] = []
        self._skipped = 0
        self._session: int | None = None
        self._zombie: int | None = None
        self._freed = threading.Event()
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
    def holds(self) -> bool:
        """Whether this life's driver was made a zombie, so that the next one is to follow it."""
        with self._lock:
            return self._zombie is not None and self._zombie == self._session

    def free_zombie(self) -> None:
        """Let it go on, if there is one, until it sees that it is too late; then nothing of it is left.

        Raises RuntimeError where it does not see that.
        """
        if self._zombie is None:
            return
        self.note("freed", session=self._zombie)
        self._freed.set()
        end_at = time.monotonic() + _NOTICE_S
        while members(self._zombie):
            if time.monotonic() > end_at:
                raise RuntimeError(f"a driver that was overtaken did not see it within {_NOTICE_S:g} s")
            time.sleep(_POLL_S)
        self._zombie = None

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
        """Nothing is left of a zombie, whatever has failed."""
        for pid in members(self._zombie) if self._zombie else ():
            kill(pid)
        self._freed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _on_step(self, step: str, pid: int, task: Any) -> None:
        with self._lock:
            self.note("step", step=step, pid=pid, task=task)
            session = session_of(pid)
            if session is not None and session == self._zombie and step in ("latest", "plan"):  # it begins anew
                for each in members(session):
                    kill(each)
            if session != self._session:
                return
            if step == "committed":
                self.progress.set()
            if not self._due or self._due[0].step != step:
                return
            if self._skipped < self._due[0].skip:
                self._skipped += 1
                return
            is_held = self._due[0].victim == ZOMBIE
            self._carry_out(self._due[0], pid)
        if is_held:
            self._freed.wait(_HELD_S)

    def _carry_out(self, due: Kill, announcer: int | None) -> None:
        """Kill the driver's session, or services; no other process is touched."""
        pids: list[int] = []
        if due.victim == ZOMBIE:
            self._zombie, self._freed = self._session, threading.Event()
        elif due.victim in OF_SERVICES:
            assert self._services is not None, "the schedule is for services of this run's own"
            self._services.strike(due.victim)
        elif not (pids := self._victims(due.victim, announcer)):
            return
        for pid in pids:
            kill(pid)
        self.kills.append(due)
        self._due, self._skipped = self._due[1:], 0
        self.note("kill", **due._asdict(), pids=pids)

    def _victims(self, victim: str, announcer: int | None) -> list[int]:
        family = [] if self._session is None else members(self._session)
        if victim == PYTHON:
            return [pid for pid in family if pid == announcer]
        if victim == EXECUTOR:
            executor = None if announcer is None else executor_of(announcer)
            return [pid for pid in family if pid == executor]
        if victim == JVM:
            return [pid for pid in family if is_java(pid)]
        assert victim == TREE
        return family


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    on_step: Callable[[str, int, Any], None]


class _Caller(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        told = json.loads(self.rfile.readline() or "{}")
        if told:
            assert isinstance(self.server, _Server)
            self.server.on_step(told["step"], told["pid"], told["task"])
