"""`ottla up` as a process of its own, for programs that need a whole stack for a while: the demo, tests, benchmarks.

Leaving the block stops it, whatever happened inside, and kills what does not stop. The directory belongs to the caller.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.files.private_files import private_files
from ottla_core.host_port import HostPort
from ottla_stack.plan import StackPlan
from ottla_stack.ports import LOOPBACK, free_port_base
from ottla_stack.secure_files import files_of
from ottla_stack.state import RunningProcess, StackState
from ottla_stack.supervisor import STACK_STOP_LIMIT_S, end_orphans, not_ready
from ottla_stack.user_listeners import read_user_listeners

LIMIT_S: Final = 180.0
STOP_LIMIT_S: Final = STACK_STOP_LIMIT_S + 5.0
_T = TypeVar("_T")


class RunningStack:
    """`with RunningStack(directory) as stack:` is ready at `stack.bootstrap`, on free ports: what `ottla up` starts.

    It has no txn-coordinators by default, because few programs need them, and each is a process. `mirror` is the file
    of a mirror that runs as well. The file must exist when the block begins. With `certificates`, a directory of
    `ottla ca`, services prove to each other who they are. Missing certificates are issued there. A `secure` stack has
    TLS on all connections, and so has one whose directory was secured before. Its files are `plan.secure`. All
    processes listen on `host`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        controllers: int = 1,
        group_coordinators: int = 2,
        txn_coordinators: int = 0,
        mirror: Path | None = None,
        certificates: Path | None = None,
        secure: bool = False,
        host: str = LOOPBACK,
    ) -> None:
        self.directory: Final = directory
        files = files_of(directory, secure=secure)
        self.plan: Final = StackPlan(
            directory,
            free_port_base(),
            "ottla",
            controllers,
            brokers,
            group_coordinators,
            txn_coordinators,
            mirror,
            files.ca if files else certificates,
            files,
            host,
            read_user_listeners(secure=files is not None),
        )
        self._secured_by: Final = ["--secure"] if secure else ["--ca", str(certificates)] if certificates else []
        self._log = directory / "up.log"
        self._up: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return self.plan.bootstrap

    @property
    def supervisor_pid(self) -> int:
        assert self._up is not None, "it runs"
        return self._up.pid

    def __enter__(self) -> Self:
        plan = self.plan
        command = [sys.executable, "-m", "ottla", "up", "--dir", str(self.directory), "--host", plan.host]
        command += ["--port-base", str(plan.port_base), "--brokers", str(plan.brokers)]
        command += ["--controllers", str(plan.controllers), "--group-coordinators", str(plan.group_coordinators)]
        command += ["--txn-coordinators", str(plan.txn_coordinators)]
        command += ["--mirror", str(plan.mirror)] if plan.mirror else []
        command += self._secured_by
        with private_files():
            self.directory.mkdir(parents=True, exist_ok=True)
            output = self._log.open("w")
        with output:
            self._up = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        try:
            wait_for(self._ready, "the stack to be ready")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def process(self, name: str) -> RunningProcess | None:
        """Return the process of that name as it runs now, or None while it is being started again."""
        state = StackState.read(self.directory)
        return next((p for p in state.processes if p.name == name), None) if state else None

    def pid(self, name: str) -> int:
        return wait_for(partial(self.process, name), f"{name} to run").identity.pid

    def restart(self, *names: str, number: signal.Signals = signal.SIGTERM) -> list[int]:
        """End these processes by a signal. Return the pids of their successors, once these serve."""
        old = {name: wait_for(partial(self.process, name), f"{name} to run") for name in names}
        for process in old.values():
            process.identity.send(number)
        return [wait_for(partial(self._successor, p), f"{p.name} to come back") for p in old.values()]

    def kill(self) -> None:
        """Kill all of it at once by SIGKILL, as when a site is lost."""
        assert self._up is not None, "it runs"
        state = StackState.read(self.directory)
        self._up.kill()
        self._up.wait()
        for process in state.processes if state else ():
            process.identity.send(signal.SIGKILL)
        end_orphans(self.directory)

    def _successor(self, old: RunningProcess) -> int | None:
        now = self.process(old.name)
        if now is None or now.identity == old.identity:
            return None
        is_ready = not_ready(HostPort(self.plan.host, now.admin_port), self.plan.admin_token) is None
        return now.identity.pid if is_ready else None

    def _ready(self) -> bool:
        assert self._up is not None, "it was started"
        if self._up.poll() is not None:
            output = self._log.read_text().strip()
            raise OttlaError(ErrorCode.BROKER_NOT_AVAILABLE, f"`ottla up` ended with {self._up.returncode}: {output}")
        state = StackState.read(self.directory)
        return state is not None and state.ready and state.supervisor.pid == self._up.pid

    def _stop(self) -> None:
        """Stop it cleanly, or kill it and raise, so that a kill is not taken for a clean stop."""
        assert self._up is not None, "it was started"
        self._up.terminate()
        try:
            self._up.wait(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._up.kill()
            self._up.wait()
            killed = end_orphans(self.directory)
            raise OttlaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"`ottla up` did not stop within {STOP_LIMIT_S:g} s: it was killed, together with {killed} of its "
                "processes",
                hint=f"its log is {self._log}; the logs of its services are in {self.directory / 'logs'}",
            ) from None


def wait_for(probe: Callable[[], _T | None], purpose: str, *, limit_s: float = LIMIT_S) -> _T:
    """Return the first result of `probe` that is true. Raises REQUEST_TIMED_OUT, which names the `purpose` of the
    wait."""
    give_up_at = time.monotonic() + limit_s
    while not (result := probe()):
        if time.monotonic() > give_up_at:
            raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, f"timed out after {limit_s:g} s waiting for {purpose}")
        time.sleep(0.02)
    return result
