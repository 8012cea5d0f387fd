"""Tries the calls between services: each method of each contract, by each role, at services that run.

Requests are empty. So a call that is let in mostly fails, with another error than that of authorization. Two methods do
something even then, and are called only by those who may not.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from service_certificates import ServiceCertificates
from tests.security.matrix import Matrix

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.service_access import CALLERS, FORWARDERS
from ottla_core.rpc.status import TransportError
from ottla_core.security.service_identity import Role
from ottla_proto import contracts
from ottla_proto.contracts import Controller, GatheredCalls, Method
from ottla_stack.ca.subject import Subject
from ottla_stack.running import RunningStack

_LIMIT_S: Final = 5.0
_FRAME_LIMIT_MS: Final = 1_000
"""The first frame of a stream waits for the connection. With a shorter limit, a slow handshake would pass for a fetch
that was let in."""
_NO_ROLE: Final = ("no certificate", "a Kafka client's certificate", "another authority's certificate")
_ACTING: Final = (Controller.DECLARE_RESTORED, Controller.CONTROLLED_SHUTDOWN)
"""An empty request of these methods changes the cluster."""
_SERVICES: Final = {
    "Broker": "broker-0",
    "Controller": "controller-0",
    "Group": "group-coordinator-0",
    "Txn": "txn-coordinator-0",
    "Mirror": "mirror-0",
}
_TABLES: Final = [table for table in vars(contracts).values() if hasattr(table, "SERVICE")]
METHODS: Final = [each for table in _TABLES for each in vars(table).values() if isinstance(each, Method)]
_FLOW: Final = """
[clusters]
east = "{bootstrap}"
west = "{bootstrap}"

[[flows]]
source = "east"
target = "west"
topics = ["nothing-has-this-name"]
"""


@contextmanager
def secured_services(folder: Path) -> Iterator[tuple[RunningStack, ServiceCertificates]]:
    """Run a service of each kind, all of them with certificates."""
    certificates = ServiceCertificates(folder / "ca")
    stack = RunningStack(
        folder / "stack",
        brokers=1,
        group_coordinators=1,
        txn_coordinators=1,
        mirror=folder / "mirror.toml",
        certificates=certificates.path,
    )
    (folder / "mirror.toml").write_text(_FLOW.format(bootstrap=stack.bootstrap))
    with stack:
        yield stack, certificates


async def try_all(stack: RunningStack, certificates: ServiceCertificates) -> Matrix:
    """Try each method by each role, by callers without one, and in a client's name."""
    matrix = Matrix()
    ports = {service.name: service.port for service in stack.plan.services()}
    for name, tls in _callers(certificates):
        for service in _SERVICES:
            peer = AioPeer(f"127.0.0.1:{ports[_SERVICES[service]]}", tls=tls)
            try:
                for method in METHODS:
                    if method.service == service:
                        await _try(matrix, peer, method, name)
            finally:
                await peer.close()
    return matrix


def _callers(certificates: ServiceCertificates) -> Iterator[tuple[str, InternalTls]]:
    for role in Role:
        yield role, certificates.of(role, "tried")
    of_client = certificates.issued(Subject("client", "alice"))
    with tempfile.TemporaryDirectory() as folder:
        foreign = ServiceCertificates(Path(folder) / "ca", name="another CA")
        of_foreign = foreign.issued(Subject(Role.BROKER, "0", ("localhost",)))
    for name, issued in zip(_NO_ROLE, (None, of_client, of_foreign), strict=True):
        yield name, certificates.channel_tls(issued)


async def _try(matrix: Matrix, peer: AioPeer, method: Method[Any, Any], caller: str) -> None:
    matrix.methods.add(method.path)
    is_let_in = caller not in _NO_ROLE and Role(caller) in CALLERS[method.path]
    if not (is_let_in and method in _ACTING):
        await _try_once(matrix, peer, method, caller, "", is_let_in=is_let_in)
    if not (is_let_in and Role(caller) in FORWARDERS):
        await _try_once(matrix, peer, method, caller, "User:admin", is_let_in=False)


async def _try_once(
    matrix: Matrix, peer: AioPeer, method: Method[Any, Any], caller: str, principal: str, *, is_let_in: bool
) -> None:
    if principal and _gathered_or_streamed(method) is not None:
        return  # no principal goes with calls of this kind
    matrix.cells += 1
    was_let_in = await _was_let_in(peer, method, principal)
    if was_let_in != is_let_in:
        did = "was let in" if was_let_in else "was refused"
        in_whose_name = f" in the name of {principal}" if principal else ""
        matrix.wrong.append(f"{method.path} by {caller}{in_whose_name} {did}")


async def _was_let_in(peer: AioPeer, method: Method[Any, Any], principal: str) -> bool:
    request = method.request()
    try:
        match _gathered_or_streamed(method):
            case GatheredCalls() as calls:
                await peer.gathered(calls).call(method, request, timeout=_LIMIT_S)
            case Method():
                stream = peer.open_stream(method)
                try:
                    await stream.exchange(request, timeout_ms=_FRAME_LIMIT_MS, timeout=_LIMIT_S)
                finally:
                    await stream.close()
            case _:
                await peer.call(method, request, timeout=_LIMIT_S, principal=principal)
    except TransportError as error:
        return error.code == ErrorCode.REQUEST_TIMED_OUT  # it waits, as a fetch does
    except OttlaError as error:
        return error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return True


def _gathered_or_streamed(method: Method[Any, Any]) -> GatheredCalls | Method[Any, Any] | None:
    """Return how a method is called if it has no call of its own: in gathered calls, or in a stream of frames."""
    (table,) = (each for each in _TABLES if each.SERVICE.name == method.service)
    descriptor = table.SERVICE.methods_by_name.get(method.name)
    if descriptor is None:
        for calls in vars(table).values():
            if isinstance(calls, GatheredCalls) and _carries(calls, method):
                return calls
    return method if descriptor is not None and descriptor.client_streaming else None


def _carries(calls: GatheredCalls, method: Method[Any, Any]) -> bool:
    bodies = calls.call.DESCRIPTOR.fields
    return any(f.message_type is not None and f.message_type == method.request.DESCRIPTOR for f in bodies)


def run(folder: Path) -> Matrix:
    with secured_services(folder) as (stack, certificates):
        return asyncio.run(try_all(stack, certificates))
