"""The supervisor of `ottla up` keeps etcd, controllers, brokers and coordinators running as processes.

A laptop's cluster has to start with one command, survive the death of any process, and leave nothing behind when it
ends, even if the supervisor itself is killed. So the supervisor depends on no order but one: a service that needs
another waits for it by itself, and a process that dies is just started again. Only coordinators are started late,
because before the brokers are ready they would only take CPU time from them. In a secured stack, etcd also starts
first, because it refuses services until they are its users.

Everything that must outlive the supervisor is in `state.json`: it names the running processes, and is written at every
change. The next supervisor first ends the processes that a killed one left behind, by pid and start time, because two
processes must not share a data directory.

Stopping goes by what needs what: mirrors and coordinators first, then brokers, which hand their leaderships over while
controllers still run, then controllers, then etcd. It also keeps the logs small.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import time
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from ottla_core.cluster import keys
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.tasks import end_task
from ottla_core.host_port import HostPort
from ottla_core.process import lifecycle
from ottla_stack.child import KILL_LIMIT_S, Child
from ottla_stack.child_log import ChildLog, keep_trimmed
from ottla_stack.embedded_etcd import EtcdPlan, EtcdTls, has_data, is_ready, plan_etcd
from ottla_stack.plan import ServicePlan, StackPlan
from ottla_stack.ports import is_free
from ottla_stack.secure_files import SecureFiles
from ottla_stack.state import ProcessIdentity, RunningProcess, StackState

_log = logging.getLogger(__name__)

READY_LIMIT_S: Final = 600.0
"""A broker may recover large logs for minutes. A service that can't start is given up earlier, by _MOST_STARTS."""

_WRITE_AGAIN_S: Final = 1.0
_TELL_S: Final = 30.0
"""How often the log says which service is not ready yet, and why."""

_MOST_STARTS: Final = 6
"""A service that has ended this often before it was ready is given up."""

LEAST_FREE_BYTES: Final = 256 << 20
"""The free space that a new stack needs on its disk."""

_AFTER_BROKERS: Final = ("mirror", "txn-coordinator", "group-coordinator")
"""These services need running brokers. Started earlier, they would only take CPU time from them."""

_BROKERS: Final = ("broker", "controller")
_KINDS_AS_STOPPED: Final = (*_AFTER_BROKERS, *_BROKERS, "etcd")

_SERVICE_STOP_LIMIT_S: Final = lifecycle.STOP_LIMIT_S + 3.0
"""A service's own limit for a stop, and the time that its interpreter takes to end."""

STACK_STOP_LIMIT_S: Final = len(_KINDS_AS_STOPPED) * (_SERVICE_STOP_LIMIT_S + KILL_LIMIT_S)
_ORPHAN_LIMIT_S: Final = _SERVICE_STOP_LIMIT_S


class Supervisor:
    def __init__(self, plan: StackPlan, me: ProcessIdentity) -> None:
        self.plan: Final = plan
        self._me = me
        self._ready = False
        logs = plan.directory / "logs"
        self._etcd: EtcdPlan = plan_etcd(
            plan.etcd_directory,
            plan.etcd_port,
            plan.etcd_peer_port,
            tls=None if plan.secure is None else EtcdTls(*plan.secure.etcd),
            host=plan.host,
        )
        self._services: Final[dict[str, ServicePlan]] = {s.name: s for s in plan.services()}
        self._children: Final = [
            Child(name, command, ChildLog(logs / f"{name}.log"), self._write_state)
            for name, command in (("etcd", self._etcd.command), *((s.name, s.command) for s in plan.services()))
        ]
        self._waiting = list(self._children)
        self._trimming: asyncio.Task[None] | None = None
        self._again: asyncio.Handle | None = None

    async def start(self) -> None:
        """Start all processes but coordinators, or only etcd in a secured stack. Returns before anything is ready.

        Raises if a port is taken, if a new stack has too little disk, or if a later etcd wrote the data.
        """
        # This comes before the ports are checked, because orphans hold them.
        end_orphans(self.plan.directory)
        check_ports(self.plan)
        # A stack that exists already must start on a full disk, too: that is how its user can delete something.
        if not has_data(self.plan.etcd_directory):
            check_disk(self.plan.directory)
        self._etcd.prepare()
        self._start("etcd")
        if self.plan.secure is None:
            self._start(*_BROKERS)
        self._trimming = asyncio.create_task(keep_trimmed([c.log for c in self._children]), name="keep-logs-trimmed")

    async def until_ready(self, limit_s: float = READY_LIMIT_S) -> None:
        """Return once every service is ready. Coordinators are started once the brokers are ready, and the brokers of a
        secured stack once etcd has its users.

        Raises OttlaError, with the reason, for a service that is not ready in time, or that ends again and again.
        """
        give_up_at = time.monotonic() + limit_s
        children = {child.name: child for child in self._children}
        if self.plan.secure is not None:
            await self._make_etcd_users(self.plan.secure, give_up_at)
            self._start(*_BROKERS)
        for service in self._services.values():
            if service.name.startswith(_AFTER_BROKERS):
                self._start(*_AFTER_BROKERS)
            child, log = children[service.name], self._log_of(service.name)
            ask = partial(not_ready, HostPort(self.plan.host, service.admin_port), self.plan.admin_token)
            tell_at = time.monotonic() + _TELL_S
            while (reason := await asyncio.to_thread(ask)) is not None:
                now = time.monotonic()
                # Every service waits for etcd, so their own reasons would hide this one.
                self._check_etcd()
                # A service that dies at once will not be ready in ten minutes either, so it is given up earlier.
                if now > give_up_at or child.restarts >= _MOST_STARTS:
                    since = f"after {limit_s:g} s" if now > give_up_at else f"and has exited {child.restarts} times"
                    raise OttlaError(
                        ErrorCode.BROKER_NOT_AVAILABLE,
                        f"{service.name} is not ready {since}: {reason}",
                        hint=f"see its log, {log}; if the service only needs more time, raise --ready-within",
                    )
                if now > tell_at:
                    tell_at = now + _TELL_S
                    _log.warning("%s is not ready yet: %s; its log is %s", service.name, reason, log)
                await asyncio.sleep(0.05)
        self._ready = True
        self._write_state()

    def _log_of(self, name: str) -> Path:
        return self.plan.directory / "logs" / f"{name}.log"

    def _start(self, *kinds: str) -> None:
        """Start the processes of these kinds, unless they were started before."""
        for child in [each for each in self._waiting if each.name.startswith(kinds)]:
            self._waiting.remove(child)
            child.start()

    async def _make_etcd_users(self, files: SecureFiles, give_up_at: float) -> None:
        """Wait for etcd, and make each service a user who may use only the keys of this cluster. Raises OttlaError."""
        # Imported here, because most stacks need no users, and gRPC takes a while to import.
        from ottla_stack.etcd_roles import ROOT, Wanted
        from ottla_stack.etcd_users import make_users

        while not await asyncio.to_thread(is_ready, self._etcd.health):
            self._check_etcd()
            if time.monotonic() > give_up_at:
                raise self._etcd_failure("in time")
            await asyncio.sleep(0.05)
        wanted = Wanted(keys.prefix(self.plan.cluster_id), self.plan.etcd_users)
        await asyncio.to_thread(make_users, self._etcd.endpoint, files.etcd_client(ROOT), wanted)

    def _check_etcd(self) -> None:
        """Raise OttlaError if etcd has ended so often that it is given up."""
        (restarts,) = (child.restarts for child in self._children if child.name == "etcd")
        if restarts >= _MOST_STARTS:
            raise self._etcd_failure(f"and has exited {restarts} times")

    def _etcd_failure(self, why: str) -> OttlaError:
        message, hint = f"etcd is not ready {why}", f"see its log, {self._log_of('etcd')}"
        return OttlaError(ErrorCode.BROKER_NOT_AVAILABLE, message, hint=hint)

    async def stop(self) -> None:
        """Stop all within STACK_STOP_LIMIT_S, coordinators first. Nothing of this stack runs afterwards."""
        for kind in _KINDS_AS_STOPPED:
            stopping = [c.stop(limit_s=_SERVICE_STOP_LIMIT_S) for c in self._children if c.name.startswith(kind)]
            # Each kind has stopped before the next begins to: a broker hands its leaderships over with the help of a
            # controller.
            await asyncio.gather(*stopping)
        await end_task(self._trimming)
        if self._again is not None:
            self._again.cancel()

    def state(self) -> StackState:
        running = [
            RunningProcess(c.name, c.identity, port, admin_port, c.restarts, kafka_port)
            for c in self._children
            if c.identity is not None
            for port, admin_port, kafka_port in [self._ports(c.name)]
        ]
        return StackState(self._me, self.plan.port_base, self.plan.bootstrap, self._ready, running)

    def _write_state(self) -> None:
        try:
            self.state().write(self.plan.directory)
        # A full disk must not end supervision. But the next supervisor finds the processes by this file, so it is
        # written again later.
        except OSError as error:
            _log.error("state.json could not be written, retrying: %s", error)
            if self._again is not None:
                self._again.cancel()
            self._again = asyncio.get_running_loop().call_later(_WRITE_AGAIN_S, self._write_state)

    def _ports(self, name: str) -> tuple[int, int, int]:
        service = self._services.get(name)
        if service is None:
            return self.plan.etcd_port, 0, 0
        return service.port, service.admin_port, service.kafka_port


def not_ready(admin: HostPort, token: str = "") -> str | None:
    """Return None if the service with that admin port is ready, or else the reason why not. A service that has a token
    tells the reason only to clients that send it."""
    connection = HTTPConnection(*admin, timeout=2.0)
    try:
        connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        message = response.read().decode().strip()
    except (OSError, HTTPException) as error:
        return f"no answer on port {admin.port} ({error})"
    else:
        return None if response.status == 200 else message
    finally:
        connection.close()


def check_ports(plan: StackPlan) -> None:
    """Raise, naming the port, if another process listens on one that this stack needs."""
    for name, address in plan.addresses():
        if not is_free(address):
            raise OttlaError(
                ErrorCode.INVALID_REQUEST,
                f"port {address.port} ({name}) is in use",
                hint="stop the process that listens there, or move all ports with --port-base",
            )


def check_disk(directory: Path) -> None:
    """Raise if a new stack would fill the disk: etcd alone reserves 128 MB when it starts."""
    free = shutil.disk_usage(directory).free
    if free < LEAST_FREE_BYTES:
        raise OttlaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{directory} has {free >> 20} MiB of free space, and a new stack needs {LEAST_FREE_BYTES >> 20} MiB",
            hint="free some space, or choose a directory on another disk",
        )


def end_orphans(directory: Path) -> int:
    """End the processes that the last supervisor of this directory left running, by pid and start. Return how many."""
    state = StackState.read(directory)
    orphans = [p.identity for p in state.processes if p.identity.alive] if state else []
    # SIGTERM first, so that brokers close their logs in order. A killed one would have to recover them.
    for number in (signal.SIGTERM, signal.SIGKILL):
        for orphan in orphans:
            orphan.send(number)
        give_up_at = time.monotonic() + _ORPHAN_LIMIT_S
        while any(o.alive for o in orphans) and time.monotonic() < give_up_at:
            time.sleep(0.05)
    return len(orphans)
