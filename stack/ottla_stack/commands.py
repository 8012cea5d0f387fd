"""`ottla up`, `ottla down`, `ottla status`: the stack as processes of this machine.

`up` stays in the foreground, with a live view on a terminal and log lines elsewhere. `-d` leaves it running. `down`
signals the supervisor only: the supervisor, which started the processes, stops them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.live import Live

from ottla.errors import config_error
from ottla_cli.output import write, write_table
from ottla_cli.settings import Settings
from ottla_core.errors import OttlaError
from ottla_core.files.private_files import private_files, warning_of
from ottla_core.host_port import HostPort
from ottla_core.plural import counted
from ottla_mirror import mirror_file
from ottla_stack.embedded_etcd import has_data
from ottla_stack.plan import DEFAULT_PORT_BASE, StackPlan
from ottla_stack.ports import LOOPBACK
from ottla_stack.private_files import check_not_planted, check_owner
from ottla_stack.secure_files import PROFILE, SecureFiles, files_of
from ottla_stack.state import ProcessIdentity, StackState, is_locked, lock, unreadable_state
from ottla_stack.supervisor import READY_LIMIT_S, STACK_STOP_LIMIT_S, Supervisor, end_orphans
from ottla_stack.user_listeners import read_user_listeners
from ottla_stack.view import stack_listing, stack_table

Directory = Annotated[Path, typer.Option("--dir", help="The directory for data, logs and state.", envvar="OTTLA_DIR")]
DEFAULT_DIRECTORY: Final = Path(".ottla")
_LAST_PORT: Final = 65_535
_DOWN_LIMIT_S: Final = STACK_STOP_LIMIT_S + 5.0

_out = Console()
_err = Console(stderr=True)


def up(
    directory: Directory = DEFAULT_DIRECTORY,
    port_base: Annotated[
        int,
        typer.Option(help="The port of etcd. The other ports follow from it: broker 0's Kafka port is 508 lower."),
    ] = DEFAULT_PORT_BASE,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The loopback address on which all processes listen, such as ::1.")
    ] = LOOPBACK,
    brokers: Annotated[int, typer.Option(min=1, max=40)] = 3,
    controllers: Annotated[int, typer.Option(min=1, max=9)] = 1,
    group_coordinators: Annotated[int, typer.Option(min=0, max=9)] = 2,
    txn_coordinators: Annotated[int, typer.Option(min=0, max=9)] = 2,
    mirror: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also run a mirror with the flows in this file.")
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Have services prove to each other who they are, by certificates of `ottla ca` in this directory. "
            "Missing ones are issued.",
        ),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="TLS on all connections, a first user with a new password, and ACLs for all others. "
            "Later starts in the directory stay secured.",
        ),
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Run in the background; return once the stack is ready.")
    ] = False,
    ready_within: Annotated[
        float,
        typer.Option(
            min=1.0,
            metavar="SECONDS",
            help="Stop the stack if it is not ready within this time. Brokers that recover large logs may need longer.",
        ),
    ] = READY_LIMIT_S,
) -> None:
    """Start a real cluster on this machine: etcd, a controller, brokers and coordinators, each in its own process."""
    files = files_of(directory.absolute(), secure=secure)
    if files is not None and ca is not None:
        what = "--secure and --ca" if secure else f"--ca and the secured cluster in {directory}"
        raise config_error(f"{what} exclude each other", hint="leave --ca out: a secured cluster has its own authority")
    plan = StackPlan(
        directory.absolute(),
        port_base,
        "ottla",
        controllers,
        brokers,
        group_coordinators,
        txn_coordinators,
        _checked(mirror),
        files.ca if files else ca and ca.absolute(),
        files,
        _checked_host(host),
        read_user_listeners(secure=files is not None),
    )
    _check_ports(plan)
    _check_place(plan)
    with private_files():
        raise typer.Exit(_up(plan, ready_within, detach=detach, secure=secure))


def _up(plan: StackPlan, ready_within: float, *, detach: bool, secure: bool) -> int:
    files = plan.secure
    if files is not None and (notice := _notice(files, plan, secure=secure)):
        _err.print(f"ottla up: {notice}", soft_wrap=True)
    if warning := warning_of(plan.directory):
        _err.print(f"ottla up: {warning}", soft_wrap=True)
    if detach:
        return _detach(plan, ready_within)
    held = lock(plan.directory)
    try:
        # Another stack may run in the directory, whose files stay as they are.
        _make_missing(plan)
        return asyncio.run(_supervise(plan, ready_within))
    finally:
        held.close()


def _notice(files: SecureFiles, plan: StackPlan, *, secure: bool) -> str:
    """Return what a user may not expect of a secured start, or ""."""
    if files.exist and not secure:
        return f"the cluster in {plan.directory} was secured before, so it starts with --secure"
    if not files.exist and has_data(plan.etcd_directory):
        return (
            f"the cluster in {plan.directory} was open until now, and keeps the users and ACLs that anyone may have "
            "added; check them with `ottla user ls` and `ottla acl ls`"
        )
    return ""


def _make_missing(plan: StackPlan) -> None:
    """Make the certificates, the first user and the profile that the stack needs and lacks. Raises ConfigError."""
    from ottla_stack import secure  # here, because most stacks need no certificates

    if plan.secure is not None:
        secure.make_missing(plan, plan.secure)
    elif plan.certificates is not None:
        secure.issue_missing(plan.certificates, secure.services_of(plan))


def _check_place(plan: StackPlan) -> None:
    """Raise ConfigError if another user may have made the directory, or the files that secure the stack."""
    check_owner(plan.directory)
    if plan.secure is not None:
        check_not_planted(plan.secure.directory)


def _check_ports(plan: StackPlan) -> None:
    """Raise ConfigError if the stack's ports would be out of range, or if two listeners would have one address."""
    most = _LAST_PORT - (max(address.port for _, address in plan.addresses()) - plan.port_base)
    if not 0 < plan.port_base <= most:
        raise config_error(
            f"--port-base {plan.port_base} leaves no room for the stack's ports", hint=f"use 1 to {most}"
        )
    names: dict[HostPort, str] = {}
    for name, address in plan.addresses():
        other = names.setdefault(address, name)
        if other != name:
            raise config_error(
                f"{other} and {name} would both listen on {address}",
                hint="each further broker uses the next ports, so leave room between the ports in kafka_listeners",
            )


def _checked_host(host: str) -> str:
    """Return the host. Raises ConfigError unless it is an address of loopback, because etcd listens on no name."""
    if not HostPort(host, 0).is_loopback or host.lower() == "localhost":
        raise config_error(
            f"--host {host} is not an address of loopback",
            hint="use 127.0.0.1 or ::1; to serve clients of other hosts, set kafka_listeners",
        )
    return host


def _checked(mirror: Path | None) -> Path | None:
    if mirror is None:
        return None
    try:
        mirror_file.load(mirror)
    except OttlaError as error:
        _err.print(f"ottla up: {error}")
        raise typer.Exit(1) from None
    return mirror.absolute()


def down(directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop the stack in the directory, and keep its data."""
    directory = directory.absolute()
    check_owner(directory)  # its state.json says which processes to end
    state, is_running = StackState.read(directory), is_locked(directory)
    if state is None and is_running:
        _err.print(f"ottla down: {unreadable_state(directory)}")
        raise typer.Exit(1)
    if state is None or not is_running:
        left = end_orphans(directory)
        processes = f"{left} process{'' if left == 1 else 'es'}"
        _err.print(f"ended {processes} of a supervisor that was killed" if left else f"nothing runs in {directory}")
        return
    state.supervisor.send(signal.SIGTERM)
    give_up_at = time.monotonic() + _DOWN_LIMIT_S
    while is_locked(directory) or state.supervisor.alive:
        if time.monotonic() > give_up_at:
            _err.print(f"the supervisor (process {state.supervisor.pid}) still runs after {_DOWN_LIMIT_S:g} s")
            raise typer.Exit(1)
        time.sleep(0.05)
    _err.print("stopped; the data stays in", str(directory))


def status(ctx: typer.Context, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Show the processes of the stack in the directory. Exits with code 4 if none is running."""
    directory = directory.absolute()
    is_running = is_locked(directory)
    state = StackState.read(directory) if is_running else None
    if state is None and is_running:
        _err.print(f"ottla status: {unreadable_state(directory)}")
        raise typer.Exit(1)
    if state is None:
        _err.print(f"nothing runs in {directory}; start it with: {_command('up', directory)}")
        raise typer.Exit(4)
    write(stack_listing(state), Settings.of(ctx).output)


async def _supervise(plan: StackPlan, ready_within_s: float) -> int:
    me = ProcessIdentity.of(os.getpid())
    assert me is not None, "this process runs"
    supervisor = Supervisor(plan, me)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    if _out.is_terminal:
        _out.print(f"starting etcd and {_described(plan)}; logs are in {plan.directory / 'logs'}", soft_wrap=True)
    else:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        await supervisor.start()
        stopped = asyncio.create_task(stopping.wait())
        becoming_ready = asyncio.create_task(supervisor.until_ready(ready_within_s))
        await asyncio.wait({stopped, becoming_ready}, return_when=asyncio.FIRST_COMPLETED)
        if not becoming_ready.done():
            becoming_ready.cancel()
        elif (failure := becoming_ready.exception()) is not None:
            raise failure
        else:
            await _show_until(stopped, supervisor)
        stopped.cancel()
    except OttlaError as error:
        _err.print(f"ottla up: {error}")
        return 1
    finally:
        await supervisor.stop()
    return 0


async def _show_until(stopped: asyncio.Task[bool], supervisor: Supervisor) -> None:
    plan = supervisor.plan
    addresses = f"bootstrap {plan.bootstrap}"
    stop = f"stop with Ctrl-C or `{_command('down', plan.directory)}`"
    message = f"ready: {counted(plan.brokers, 'broker')}, {addresses}; {stop}{_for_clients(plan)}"
    if not _out.is_terminal:
        print(message, flush=True)
        await stopped
        return
    _out.print(message)
    with Live(_live_view(supervisor), console=_out, refresh_per_second=2) as live:
        while not stopped.done():
            await asyncio.wait({stopped}, timeout=1.0)
            live.update(_live_view(supervisor))


def _for_clients(plan: StackPlan) -> str:
    """Return a line that says how to log in, or "" for a stack that nobody logs in to."""
    if plan.secure is None:
        return ""
    file = shlex.quote(str(plan.secure.clients))
    return f"\nto log in as its first user: export OTTLA_CONFIG={file} OTTLA_PROFILE={PROFILE}"


def _secured_by(plan: StackPlan) -> tuple[str, ...]:
    """Return the options that secure the stack."""
    if plan.secure is not None:
        return ("--secure",)
    return () if plan.certificates is None else ("--ca", str(plan.certificates))


def _live_view(supervisor: Supervisor) -> Group:
    """Return the view. It ends with an empty line for the terminal's ^C, which would break the last line of the table
    and shift it all."""
    return Group(stack_table(supervisor.state()), "")


def _described(plan: StackPlan) -> str:
    kinds = {
        "controller": plan.controllers,
        "broker": plan.brokers,
        "group-coordinator": plan.group_coordinators,
        "txn-coordinator": plan.txn_coordinators,
        "mirror": int(plan.mirror is not None),
    }
    return ", ".join(counted(number, kind) for kind, number in kinds.items() if number)


def _command(name: str, directory: Path) -> str:
    """Return the command line of another command for this stack."""
    is_default = directory == DEFAULT_DIRECTORY.absolute()
    return f"ottla {name}" if is_default else f"ottla {name} --dir {shlex.quote(str(directory))}"


def _detach(plan: StackPlan, ready_within_s: float) -> int:
    """Start `ottla up` as a session of its own, and wait until it is ready, or has ended with a message in its log."""
    lock(plan.directory).close()
    log = plan.directory / "logs" / "supervisor.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "ottla", "up", "--dir", str(plan.directory), "--port-base", str(plan.port_base)),
        *("--host", plan.host, "--brokers", str(plan.brokers), "--controllers", str(plan.controllers)),
        *("--group-coordinators", str(plan.group_coordinators), "--txn-coordinators", str(plan.txn_coordinators)),
        *(("--mirror", str(plan.mirror)) if plan.mirror else ()),
        *_secured_by(plan),
        *("--ready-within", str(ready_within_s)),
    ]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    give_up_at = time.monotonic() + ready_within_s + 5
    while process.poll() is None and time.monotonic() < give_up_at:
        state = StackState.read(plan.directory)
        if state is not None and state.ready and state.supervisor.pid == process.pid:
            write_table(stack_listing(state))
            _out.print(f"ready; bootstrap {plan.bootstrap}{_for_clients(plan)}", soft_wrap=True)
            _out.print(f"stop with: {_command('down', plan.directory)}")
            return 0
        time.sleep(0.05)
    _err.print(log.read_text().strip() or f"the supervisor ended with {process.poll()}")
    process.terminate()
    return 1
