"""What another container gets out of the secured stack's ports: nothing, unless it has a certificate or the token.

The ports are those that are open, by the kernel's own list in each container, not those that ought to be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.compose.project import Project
from tests.compose.visitor import KEYS, run_python, visit
from tests.hosts.shell import ProofError, say

from ottla_stack.plan import ServicePlan, StackPlan

ETCD: Final = "etcd"
ETCD_PORT: Final = 2379
INSIDE_PORT: Final = 19092
"""The port of each broker's listener for clients in containers."""
_SERVICE_CERTIFICATE, _ETCD_CERTIFICATE = (
    [f"{KEYS}/{name}.pem", f"{KEYS}/{name}.key"] for name in ("service", "etcd-client")
)
_STRANGER: Final = Path(__file__).with_name("stranger.py")

_LISTENING: Final = """
for version in ("tcp", "tcp6"):
    for line in open(f"/proc/net/{version}").readlines()[1:]:
        place, state = line.split()[1], line.split()[3]
        address, _, port = place.partition(":")
        on_loopback = address.endswith("7F") or address == "0" * 24 + "01000000"
        if state == "0A" and not on_loopback:
            print(int(port, 16))
"""
"""Prints the ports on which the processes of a network namespace listen, except on loopback."""

_REFUSALS: Final = ("\x15\x03", "HTTP/1.0 4", "HTTP/1.1 4")
"""An alert of TLS, and the errors of HTTP that blame the client."""
_OPEN: Final = "ApiVersions over TLS"
"""A broker serves it before a login."""
_ERROR_PAGE: Final = "<title>Error response</title>"
"""Python's HTTP server answers with it, and without a status line, to a version that it does not speak."""

Open = dict[str, list[int]]
"""The open ports of each service."""


def open_ports(project: Project, plan: StackPlan) -> Open:
    """Return the ports that other containers reach. Raises ProofError if they are not those of the plan."""
    found = {
        name: sorted({int(port) for port in run_python(_LISTENING, network=f"container:{container.id}").split()})
        for name, container in sorted(project.containers().items())
        if container.status == "running"
    }
    wanted = {ETCD: [ETCD_PORT], **{each.name: sorted(_ports_of(each)) for each in plan.services()}}
    if found != wanted:
        raise ProofError(f"containers listen on {found}, and the plan has {wanted}")
    return found


def _ports_of(service: ServicePlan) -> Iterable[int]:
    return [service.port, service.admin_port, *([service.kafka_port, INSIDE_PORT] if service.kafka_port else [])]


def try_as_a_stranger(ports: Open) -> dict[str, str]:
    """Try each port without a certificate and without the token. Return the fingerprints of the certificates that they
    show to strangers, by their addresses. Raises ProofError if one says anything."""
    visited = _visit([{"host": host, "port": port} for host, each in ports.items() for port in each])
    answered = [f"{_address(each)}: {_answers(each)}" for each in visited if _answers(each)]
    if answered:
        raise ProofError(f"a container without a certificate gets answers: {'; '.join(answered)}")
    return {_address(each): each["fingerprint"] for each in visited if each["fingerprint"]}


def etcd_fingerprint() -> str:
    """Return the fingerprint of etcd's certificate, which only those see who have one themselves."""
    visit = {"host": ETCD, "port": ETCD_PORT, "certificate": _ETCD_CERTIFICATE}
    (visited,) = _visit([visit], keys_of="broker-0")
    return str(visited["fingerprint"])


def try_with_keys(plan: StackPlan) -> int:
    """Try ports with the keys of broker-0, and return how many visits were tried. Raises ProofError if a certificate
    opens the wrong door, or if the right one opens none."""
    service, etcd = _SERVICE_CERTIFICATE, _ETCD_CERTIFICATE
    admin, grpc = plan.services()[0].admin_port, plan.services()[0].port
    controller = plan.services()[0].name
    token = run_python(f"print(open('{KEYS}/admin.token').read())", keys_of="broker-0").strip()
    visits: list[tuple[dict[str, Any], bool]] = [
        ({"host": controller, "port": grpc, "certificate": service}, True),
        ({"host": controller, "port": grpc, "certificate": etcd}, False),
        ({"host": ETCD, "port": ETCD_PORT, "certificate": etcd}, True),
        ({"host": ETCD, "port": ETCD_PORT, "certificate": service}, False),
        ({"host": controller, "port": admin, "token": token}, True),
        ({"host": controller, "port": admin, "token": f"{token}x"}, False),
    ]
    for visited, (_, wanted) in zip(_visit([each for each, _ in visits], keys_of="broker-0"), visits, strict=True):
        if bool(_answers(visited)) != wanted:
            raise ProofError(f"{visited} {'gets no answer' if wanted else 'gets an answer'}")
    say(f"{len(visits)} visits with keys of broker-0: each certificate and the token open their own door alone")
    return len(visits)


def check_keys_are_private() -> None:
    """Raise ProofError if another user than the service's own reads a key, or if the service's user can replace one."""
    read = f"import os; [print(n) for n in os.listdir('{KEYS}') if os.access(f'{KEYS}/{{n}}', os.R_OK)]"
    write = f"import os; [print(n) for n in ['.', *os.listdir('{KEYS}')] if os.access(f'{KEYS}/{{n}}', os.W_OK)]"
    if read_by_another := run_python(read, keys_of="broker-0", user="65534:65534"):
        raise ProofError(f"another user reads {read_by_another.split()} of broker-0")
    if not run_python(read, keys_of="broker-0"):
        raise ProofError("broker-0 can't read its own keys")
    if written := run_python(write, keys_of="broker-0"):
        raise ProofError(f"broker-0 can replace {written.split()}")
    say("nobody but broker-0's user reads its keys, and not even that user can replace them")


def _visit(visits: Sequence[Mapping[str, Any]], keys_of: str | None = None) -> list[dict[str, Any]]:
    visited: list[dict[str, Any]] = json.loads(visit(_STRANGER, json.dumps(visits), keys_of=keys_of))
    return visited


def _answers(visited: Mapping[str, Any]) -> dict[str, str]:
    """Return what a port said by what it was asked, without refusals, and without what is served before a login."""
    said: dict[str, str] = visited["said"]
    return {name: words for name, words in said.items() if words and not (name == _OPEN or _is_refusal(words))}


def _is_refusal(words: str) -> bool:
    return words.startswith(_REFUSALS) or _ERROR_PAGE in words


def _address(visited: Mapping[str, Any]) -> str:
    return f"{visited['host']}:{visited['port']}"
