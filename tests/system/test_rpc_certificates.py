"""gRPC with certificates: who gets in, what each role may call, and what a rotation leaves alone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from rpc_stack import Stack, answer_of, listing
from service_certificates import ServiceCertificates
from waiting import LIMIT_S, until

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc import internal_tls, transport
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.client import Peer
from ottla_core.rpc.context import PRINCIPAL
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.status import MAX_CONNECTIONS, SERVER_OPTIONS, TransportError
from ottla_core.security.service_identity import Role
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker
from ottla_stack.ca.subject import Subject


@pytest.fixture
def services(tmp_path: Path) -> ServiceCertificates:
    return ServiceCertificates(tmp_path / "ca")


@pytest.fixture
async def stack(services: ServiceCertificates) -> AsyncIterator[Stack]:
    stack = Stack(services.of(Role.BROKER))
    await stack.server.start()
    yield stack
    await stack.server.stop(grace_s=0)


async def listed(stack: Stack, tls: InternalTls | None, principal: str = "") -> pb.ListOffsetsResponse:
    """Make a call that is for group-coordinators."""
    peer = AioPeer(stack.address, tls=tls)
    try:
        return await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S, principal=principal)
    finally:
        await peer.close()


async def test_a_service_of_the_methods_role_gets_a_response_on_every_kind_of_call(
    stack: Stack, services: ServiceCertificates
) -> None:
    group = services.of(Role.GROUP_COORDINATOR)
    peer = AioPeer(stack.address, tls=group)
    assert await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
    stack.service.open_gate(5)
    stream = peer.open_stream(Broker.FETCH)
    request = pb.FetchRequest(max_wait_ms=5)
    assert answer_of(await stream.exchange(request, timeout_ms=10_000, timeout=LIMIT_S)) == 5
    await stream.close()
    with pytest.raises(OttlaError) as scripted:
        await peer.gathered(Broker.CALLS).call(Broker.CHECK_FENCE, pb.CheckFenceRequest(), timeout=LIMIT_S)
    assert scripted.value.code == ErrorCode.NOT_CONTROLLER, "it is the script's answer"
    await peer.close()
    assert {context.principal for context in stack.service.contexts} == {"Service:group-coordinator/0"}


async def test_a_service_of_another_role_is_refused_on_every_kind_of_call(
    stack: Stack, services: ServiceCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    peer = AioPeer(stack.address, tls=services.of(Role.MIRROR))
    stream = peer.open_stream(Broker.FETCH)
    calls: list[tuple[str, Any]] = [
        ("Broker.ListOffsets", peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)),
        ("Broker.Fetch", stream.exchange(pb.FetchRequest(), timeout_ms=10_000, timeout=LIMIT_S)),
        (
            "Broker.CheckFence",
            peer.gathered(Broker.CALLS).call(Broker.CHECK_FENCE, pb.CheckFenceRequest(), timeout=LIMIT_S),
        ),
    ]
    for name, call in calls:
        with pytest.raises(OttlaError, match=f"{name} is for .*coordinators.*, and the caller is mirror/0") as refused:
            await call
        assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not stack.service.contexts
    assert "refused calls: 1; the last one came from 127.0.0.1: Broker.ListOffsets is for" in caplog.text
    assert sum("refused calls" in line for line in caplog.messages) == 1, "the log has one a second"
    await stream.close()
    await peer.close()


async def test_only_a_broker_may_call_in_a_clients_name(stack: Stack, services: ServiceCertificates) -> None:
    with pytest.raises(OttlaError, match="in a client's name by group-coordinator/0, and only brokers may") as refused:
        await listed(stack, services.of(Role.GROUP_COORDINATOR), principal="User:admin")
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not stack.service.contexts


async def test_a_principal_in_the_metadata_of_a_stream_is_no_way_around(
    stack: Stack, services: ServiceCertificates
) -> None:
    material = services.of(Role.GROUP_COORDINATOR).recent()
    async with grpc.aio.secure_channel(stack.address, material.channel_credentials) as channel:
        call: Any = channel.stream_stream(
            Broker.FETCH.path,
            request_serializer=pb.FetchFrame.SerializeToString,
            response_deserializer=pb.FetchResponseFrame.FromString,
        )(metadata=((PRINCIPAL, "User:admin"),))
        await call.write(pb.FetchFrame(correlation_id=1, timeout_ms=10_000))
        response = await asyncio.wait_for(call.read(), LIMIT_S)
        assert response.body.error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        call.cancel()


async def test_a_caller_without_a_certificate_of_the_authority_gets_no_connection(
    stack: Stack, services: ServiceCertificates, tmp_path: Path
) -> None:
    """TLS 1.3 lets a client send before it hears of the refusal, and then only that the connection is closed."""
    subject = Subject(Role.GROUP_COORDINATOR, "0", ("localhost",))
    foreign = ServiceCertificates(tmp_path / "foreign")
    peer = AioPeer(stack.address, tls=services.of(Role.GROUP_COORDINATOR))
    assert await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
    for tls in (
        None,
        services.channel_tls(None),
        services.channel_tls(foreign.issued(subject)),
        services.channel_tls(services.issued(subject, timedelta(minutes=-1))),
    ):
        with pytest.raises(TransportError, match="the other side closed the new connection") as refused:
            await listed(stack, tls)
        assert refused.value.code == ErrorCode.NETWORK_EXCEPTION
        assert "it may not accept this side's certificate" in refused.value.hint
    assert len(stack.service.contexts) == 1
    assert await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S), "others are undisturbed"
    await peer.close()


async def test_a_kafka_clients_certificate_opens_nothing_between_services(
    stack: Stack, services: ServiceCertificates
) -> None:
    with pytest.raises(OttlaError, match="the caller's certificate names no role") as refused:
        await listed(stack, services.channel_tls(services.issued(Subject("client", "alice"))))
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_caller_says_what_is_wrong_with_the_certificate_of_a_server(
    services: ServiceCertificates, tmp_path: Path
) -> None:
    foreign = ServiceCertificates(tmp_path / "foreign")
    group = services.of(Role.GROUP_COORDINATOR)
    elsewhere = services.issued(Subject(Role.BROKER, "0", ("elsewhere.example",)))
    expired = services.issued(Subject(Role.BROKER, "0", ("127.0.0.1",)), timedelta(minutes=-1))
    credentials = {
        "no authority in internal_tls_ca has signed the certificate": foreign.of(Role.BROKER).server_credentials(),
        "is not for this host": _server_credentials(services, elsewhere),
        "has expired": _server_credentials(services, expired),
    }
    for said, server_credentials in credentials.items():
        server = grpc.aio.server()
        port = server.add_secure_port("127.0.0.1:0", server_credentials)
        await server.start()
        peer = AioPeer(f"127.0.0.1:{port}", tls=group)
        with pytest.raises(TransportError, match=said):
            await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
        await peer.close()
        await server.stop(None)


def _server_credentials(services: ServiceCertificates, issued: Any) -> Any:
    ca = services.directory.authorities_path.read_bytes()
    return grpc.ssl_server_credentials([(issued.key, issued.certificate)], ca, require_client_auth=True)


async def test_a_service_without_certificates_is_told_from_one_that_rejects(services: ServiceCertificates) -> None:
    plain = Stack()
    await plain.server.start()
    with pytest.raises(TransportError, match="the other side does not speak TLS"):
        await listed(plain, services.of(Role.GROUP_COORDINATOR))
    await plain.server.stop(grace_s=0)


async def test_a_program_of_an_operator_is_served_from_threads(stack: Stack, services: ServiceCertificates) -> None:
    peer = Peer(stack.address, tls=services.of(Role.GROUP_COORDINATOR))
    response = await asyncio.to_thread(peer.call, Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
    assert response.partitions[0].offset == 7
    peer.close()


async def test_garbage_and_half_a_handshake_disturb_nobody(stack: Stack, services: ServiceCertificates) -> None:
    peer = AioPeer(stack.address, tls=services.of(Role.GROUP_COORDINATOR))
    connections = []
    for opening in (
        b"",
        b"\x16\x03\x01",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\xff" * 4096,
    ):
        for _ in range(10):
            connection = socket.create_connection(("127.0.0.1", stack.server.port), timeout=LIMIT_S)
            connection.sendall(opening)
            connections.append(connection)
    for _ in range(20):
        assert await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
    for connection in connections:
        connection.close()
    await peer.close()


@pytest.mark.parametrize("certified", [True, False])
async def test_connections_beyond_the_limit_are_closed_and_open_ones_go_on(
    services: ServiceCertificates, monkeypatch: pytest.MonkeyPatch, *, certified: bool
) -> None:
    options = tuple((name, 5 if value == MAX_CONNECTIONS else value) for name, value in SERVER_OPTIONS)
    monkeypatch.setattr(transport, "SERVER_OPTIONS", options)
    stack = Stack(services.of(Role.BROKER) if certified else None)
    await stack.server.start()
    tls = services.of(Role.GROUP_COORDINATOR) if certified else None
    peer = AioPeer(stack.address, tls=tls)
    assert await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
    strangers = [await asyncio.open_connection("127.0.0.1", stack.server.port) for _ in range(20)]
    ended = [asyncio.create_task(until_closed(reader)) for reader, _ in strangers]
    await until(lambda: sum(task.done() for task in ended) == 20 - 4)
    assert await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
    for _, writer in strangers:
        writer.close()
    await asyncio.wait_for(asyncio.gather(*ended), LIMIT_S)
    async with asyncio.timeout(LIMIT_S):  # the server notices one after the other that they have left
        while not await is_served(stack, tls):
            await asyncio.sleep(0.01)
    await peer.close()
    await stack.server.stop(grace_s=0)


async def is_served(stack: Stack, tls: InternalTls | None) -> bool:
    """Return whether a call by a new connection gets a response."""
    with suppress(TransportError):
        return bool(await listed(stack, tls))
    return False


async def until_closed(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await reader.read()


# ---- rotation --------------------------------------------------------------------------------------------------------


async def test_a_rotation_reaches_new_connections_and_leaves_open_streams_alone(
    stack: Stack, services: ServiceCertificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authority itself is replaced and retired, so nothing but the new files can open a connection."""
    monkeypatch.setattr(internal_tls, "LOOK_INTERVAL_S", 0.0)
    group = services.of(Role.GROUP_COORDINATOR)
    peer = AioPeer(stack.address, tls=group)
    stream, calls = peer.open_stream(Broker.FETCH), peer.gathered(Broker.CALLS)

    async def exchanged(number: int) -> None:
        stack.service.open_gate(number)
        request = pb.FetchRequest(max_wait_ms=number)
        assert answer_of(await stream.exchange(request, timeout_ms=10_000, timeout=LIMIT_S)) == number

    async def gathered() -> None:
        with pytest.raises(OttlaError, match="not here"):
            await calls.call(Broker.CHECK_FENCE, pb.CheckFenceRequest(), timeout=LIMIT_S)

    await exchanged(1)
    await gathered()
    waiting = await stream.send(pb.FetchRequest(max_wait_ms=2), timeout_ms=10_000)
    await until(lambda: 2 in stack.service.seen)
    before = group.expires_at
    for step in (
        lambda: services.directory.replace_authority(timedelta(days=100)),
        lambda: services.directory.rotate(timedelta(days=50), timedelta(0)),
        services.directory.retire_authorities,
    ):
        step()
        assert await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
        assert await listed(stack, group)
        await gathered()
    assert group.expires_at < before, "the new certificate is in use"
    stack.service.open_gate(2)
    assert answer_of(await stream.response_to(waiting, timeout=LIMIT_S)) == 2, "the stream was not cut"
    await exchanged(3)
    await stream.close()
    await peer.close()


async def test_a_stream_that_is_opened_again_takes_the_new_certificate(
    stack: Stack, services: ServiceCertificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_tls, "LOOK_INTERVAL_S", 0.0)
    peer = AioPeer(stack.address, tls=services.of(Role.GROUP_COORDINATOR))

    async def is_served() -> bool:
        try:
            await peer.gathered(Broker.CALLS).call(Broker.CHECK_FENCE, pb.CheckFenceRequest(), timeout=LIMIT_S)
        except OttlaError as error:
            return error.code == ErrorCode.NOT_CONTROLLER  # it is the script's answer
        return False

    assert await is_served()
    services.directory.replace_authority(timedelta(days=100))
    services.directory.rotate(timedelta(days=50), timedelta(0))
    services.directory.retire_authorities()
    await stack.server.stop(grace_s=0)
    restarted = Stack(services.of(Role.BROKER), port=stack.server.port)
    await restarted.server.start()
    async with asyncio.timeout(LIMIT_S):
        while not await is_served():
            await asyncio.sleep(0.01)
    await peer.close()
    await restarted.server.stop(grace_s=0)


async def test_the_former_authority_opens_nothing_after_it_has_retired(
    stack: Stack, services: ServiceCertificates
) -> None:
    former = services.issued(Subject(Role.GROUP_COORDINATOR, "0"))
    services.directory.replace_authority(timedelta(days=100))
    assert await listed(stack, services.channel_tls(former)), "it is trusted until then"
    services.directory.rotate(timedelta(days=50), timedelta(0))
    services.directory.retire_authorities()
    with pytest.raises(TransportError, match="closed the new connection"):
        await listed(stack, services.channel_tls(former))


async def test_a_channel_of_a_former_certificate_ends_with_its_last_call(
    stack: Stack, services: ServiceCertificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_tls, "LOOK_INTERVAL_S", 0.0)
    peer = AioPeer(stack.address, tls=services.of(Role.GROUP_COORDINATOR))
    stream = peer.open_stream(Broker.FETCH)
    stack.service.open_gate(1)
    await stream.exchange(pb.FetchRequest(max_wait_ms=1), timeout_ms=10_000, timeout=LIMIT_S)
    for days in (50, 51, 52):
        services.directory.rotate(timedelta(days=days), timedelta(days=1000))
        await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
    await until(lambda: _connections(stack.server.port) == 2)
    await stream.close()
    del stream
    await until(lambda: _connections(stack.server.port) == 1)
    await peer.close()


def _connections(port: int) -> int:
    """Return how many connections of this machine to the port are open, as the kernel says."""
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)
