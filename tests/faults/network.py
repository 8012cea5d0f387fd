"""A network of our own to cut: every node in a network namespace, all on one bridge.

The whole fault run lives in namespaces of its own (`enter`), so that nothing of it outlives it: no process, no
interface. It needs no root where the kernel lets users make namespaces.

A cut is silent, as a cable's is: packets to a neighbour go to a hardware address that nobody has. That works in one
direction too. Reconnecting forgets the false address; connections that waited go on by their own retransmissions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

_NOBODY: Final = "02:00:00:00:00:99"
_INSIDE: Final = "OTTLA_FAULTS_INSIDE"
_PREFIX: Final = "10.77.0."
_BRIDGE: Final = "faults"
_TOOLS: Final = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "mount": "mount"}


def why_not() -> str | None:
    """What keeps this machine from having such a network, in words; None where nothing does."""
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            return f"cutting the network needs `{tool}`: apt-get install {package}"
    if subprocess.run([*_unshare(), "true"], capture_output=True, check=False).returncode != 0:
        return "this kernel lets this user make no network namespaces: run it as root"
    return None


def enter(arguments: Sequence[str]) -> None:
    """Run `python -m tests.faults` again with these arguments, in namespaces of its own; returns only once inside.

    Raises RuntimeError naming what is missing.
    """
    if os.environ.get(_INSIDE):
        return
    if (why := why_not()) is not None:
        raise RuntimeError(why)
    os.environ[_INSIDE] = "1"
    os.execvp("unshare", [*_unshare(), sys.executable, "-m", "tests.faults", *arguments])


def raise_loopback() -> None:
    """Let processes inside reach one another by 127.0.0.1, also where no network was started."""
    _batch("link set lo up")


def _unshare() -> list[str]:
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return command if os.geteuid() == 0 else [*command, "--user", "--map-root-user"]


class Nodes(Protocol):
    """The nodes of a cluster, in a network of its own or beside another one."""

    def address(self, name: str) -> str: ...
    def command(self, name: str, command: Sequence[str]) -> list[str]: ...
    def cut(self, *, from_: str, to: str) -> None: ...
    def unplug(self, name: str) -> None: ...
    def heal(self) -> None: ...
    def replace(self, name: str) -> None: ...


class Network:
    """Nodes by name. Every cut stays until `heal`."""

    def __init__(self, names: Iterable[str]) -> None:
        self._addresses: Final = {name: f"{_PREFIX}{n}" for n, name in enumerate(names, start=2)}
        self._cuts: set[tuple[str, str]] = set()
        self._unplugged: set[str] = set()

    def start(self) -> None:
        """Bridge, namespaces and addresses. Call inside (`enter`) only."""
        _run("mount", "-t", "tmpfs", "tmpfs", "/run")
        _batch("link set lo up", f"link add {_BRIDGE} type bridge", f"link set {_BRIDGE} up")
        _batch(f"addr add {_PREFIX}1/24 dev {_BRIDGE}")
        for name in self._addresses:
            self._add(name)

    def stop(self) -> None:
        """Take it all down again, so that another one can start."""
        for name in self._addresses:
            self._remove(name)
        _batch(f"link del {_BRIDGE}")
        _run("umount", "--recursive", "/run")

    def _add(self, name: str) -> None:
        address = self._addresses[name]
        _batch(f"netns add {name}", f"link add {_port(address)} type veth peer name eth0 netns {name}")
        _batch(f"link set {_port(address)} master {_BRIDGE} up")
        _batch(f"addr add {address}/24 dev eth0", "link set eth0 up", "link set lo up", inside=name)

    def _remove(self, name: str) -> None:
        _batch(f"link del {_port(self._addresses[name])}", f"netns del {name}")

    def replace(self, name: str) -> None:
        """Put another node in the place of this one, whose processes are dead.

        What the kernel of the former node would still have sent is lost: it goes on with the connections of a process
        that was killed.
        """
        self._remove(name)
        self._add(name)
        self._cuts = {(from_, to) for from_, to in self._cuts if from_ != name}

    def address(self, name: str) -> str:
        return self._addresses[name]

    def command(self, name: str, command: Sequence[str]) -> list[str]:
        """`command` as a process of that node; its pid is the command's own."""
        return ["nsenter", f"--net=/run/netns/{name}", "--", *command]

    def cut(self, *, from_: str, to: str) -> None:
        """Let nothing that `from_` sends arrive at `to`; what `to` sends arrives."""
        address = self._addresses[to]
        _batch(f"neigh replace {address} lladdr {_NOBODY} dev eth0 nud permanent", inside=from_)
        self._cuts.add((from_, to))

    def cut_both(self, one: str, others: Iterable[str]) -> None:
        """Nothing passes between `one` and any of the others."""
        for other in others:
            self.cut(from_=one, to=other)
            self.cut(from_=other, to=one)

    def unplug(self, name: str) -> None:
        """Cut a node from everything."""
        _batch(f"link set {_port(self._addresses[name])} down")
        self._unplugged.add(name)

    def heal(self) -> None:
        """Undo every cut."""
        for from_, to in self._cuts:
            _batch(f"neigh del {self._addresses[to]} dev eth0", inside=from_)
        for name in self._unplugged:
            _batch(f"link set {_port(self._addresses[name])} up")
        self._cuts.clear()
        self._unplugged.clear()


class Part:
    """Those nodes of a network whose names begin with `prefix`, by what follows it."""

    def __init__(self, network: Network, prefix: str) -> None:
        self._network, self._prefix = network, prefix

    def address(self, name: str) -> str:
        return self._network.address(self._prefix + name)

    def command(self, name: str, command: Sequence[str]) -> list[str]:
        return self._network.command(self._prefix + name, command)

    def cut(self, *, from_: str, to: str) -> None:
        self._network.cut(from_=self._prefix + from_, to=self._prefix + to)

    def unplug(self, name: str) -> None:
        self._network.unplug(self._prefix + name)

    def heal(self) -> None:
        """Undo every cut of the whole network."""
        self._network.heal()

    def replace(self, name: str) -> None:
        self._network.replace(self._prefix + name)


def _port(address: str) -> str:
    return f"port{address.rpartition('.')[2]}"


def _batch(*lines: str, inside: str = "") -> None:
    prefix = ["nsenter", f"--net=/run/netns/{inside}", "--"] if inside else []
    _run(*prefix, "ip", "-batch", "-", text="\n".join(lines) + "\n")


def _run(*command: str, text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} {text!r} failed: {done.stderr.strip()}")
