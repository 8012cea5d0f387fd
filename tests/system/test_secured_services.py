"""A cluster of real processes whose services all have certificates."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from service_certificates import ServiceCertificates
from waiting import LIMIT_S, wait_until

import ottla
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.status import HANDSHAKE_LIMIT_MS
from ottla_core.security.service_identity import Role
from ottla_proto import controller_pb2 as pb
from ottla_proto.broker_pb2 import ListOffsetsRequest
from ottla_proto.contracts import Broker, Controller, Group, Method, Mirror
from ottla_proto.group_pb2 import ListGroupsRequest
from ottla_proto.mirror_pb2 import MirrorStatusRequest
from ottla_stack.ca.subject import Subject
from ottla_stack.running import RunningStack

MIRROR_FILE = """
[clusters]
east = "{bootstrap}"
west = "{bootstrap}"

[[flows]]
source = "east"
target = "west"
topics = ["mirrored"]
"""
FLOW = "east->west"
OTHER_FILES = 30
"""After a while, a broker may have so many more files and connections in use than before."""

_names = (f"secured-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> ServiceCertificates:
    return ServiceCertificates(tmp_path_factory.mktemp("services") / "ca")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, services: ServiceCertificates) -> Iterator[RunningStack]:
    folder = tmp_path_factory.mktemp("stack")
    stack = RunningStack(
        folder / "s", controllers=2, txn_coordinators=1, mirror=folder / "mirror.toml", certificates=services.path
    )
    (folder / "mirror.toml").write_text(MIRROR_FILE.format(bootstrap=stack.bootstrap))
    with stack:
        yield stack


@pytest.fixture
def topic(stack: RunningStack) -> str:
    name = next(_names)
    with ottla.Admin(stack.bootstrap) as admin:
        admin.topics.create(name, partitions=3)
    return name


def log_of(stack: RunningStack, name: str) -> str:
    return (stack.directory / "logs" / f"{name}.log").read_text()


def address_of(stack: RunningStack, name: str) -> str:
    return next(f"127.0.0.1:{service.port}" for service in stack.plan.services() if service.name == name)


def elected(stack: RunningStack) -> str:
    with ottla.Admin(stack.bootstrap) as admin:
        return admin.cluster.describe().controller_address


def call(address: str, tls: InternalTls | None, method: Method[Any, Any], request: Any, principal: str = "") -> Any:
    """Make one call as the service with this certificate."""

    async def calling() -> Any:
        peer = AioPeer(address, tls=tls)
        try:
            return await peer.call(method, request, timeout=30, principal=principal)
        finally:
            await peer.close()

    return asyncio.run(calling())


def values(stack: RunningStack, topic: str) -> list[int]:
    config = {"isolation.level": "read_committed"}
    return sorted(record.value for record in ottla.read(topic, bootstrap=stack.bootstrap, config=config))


def test_everything_that_services_do_for_one_another_works(stack: RunningStack, topic: str) -> None:
    """Records reach all replicas, a group reads them and commits, a transaction ends, lag is measured, and a mirror is
    asked through a broker."""
    with ottla.Producer(stack.bootstrap, topic=topic) as producer:
        for n in range(300):
            producer.send(n, partition=n % 3)
    with ottla.Producer(stack.bootstrap, topic=topic, transactional_id=f"of-{topic}") as producer:
        with producer.transaction() as tx:
            tx.send(300)
        with producer.transaction() as tx:
            tx.send(301)
            producer.flush()
            producer.abort_transaction()
    assert values(stack, topic) == list(range(301))
    group = {"group": f"g-{topic}", "auto_offset_reset": "earliest", "stop": "end"}
    config = {"isolation.level": "read_committed"}
    read = 0
    with ottla.Consumer(topic, bootstrap=stack.bootstrap, config=config, **group) as consumer:  # type: ignore[arg-type]  # by name
        while not consumer.finished:
            read += len(consumer.poll(0.5))
    assert read == 301
    with ottla.Admin(stack.bootstrap) as admin:
        (described,) = admin.topics.describe(topic)
        assert all(len(partition.isr) == 3 for partition in described.partitions)
        wait_until(lambda: not any(each.records for each in admin.groups.lag(f"g-{topic}").partitions))
    with ottla.MirrorClient(bootstrap=stack.bootstrap) as mirror:
        assert [flow.name for flow in mirror.flows()] == [FLOW]


def test_the_controllers_log_says_for_whom_a_topic_was_created(stack: RunningStack, topic: str) -> None:
    logs = [log_of(stack, f"controller-{n}") for n in range(2)]
    assert any(f"CreateTopics for User:ANONYMOUS: {topic}" in log for log in logs)


def test_callers_that_are_no_brokers_can_not_create_a_topic(
    stack: RunningStack, services: ServiceCertificates, tmp_path: Path
) -> None:
    address = elected(stack)
    request = pb.CreateTopicsRequest(topics=[pb.NewTopic(name="stolen", partitions=1, replication_factor=1)])
    foreign = ServiceCertificates(tmp_path / "foreign")
    broker = Subject(Role.BROKER, "0", ("localhost",))
    no_connection = "the other side closed the new connection"
    for tls, said in (
        (None, no_connection),
        (services.channel_tls(None), no_connection),
        (services.channel_tls(foreign.issued(broker)), no_connection),
        (services.channel_tls(services.issued(broker, timedelta(minutes=-1))), no_connection),
        (services.channel_tls(services.issued(Subject("client", "admin"))), "names no role"),
        (services.of(Role.MIRROR), "is for brokers, and the caller is mirror/0"),
        (services.of(Role.ADMIN, "ops"), "is for brokers, and the caller is admin/ops"),
    ):
        with pytest.raises(OttlaError, match=said):
            call(address, tls, Controller.CREATE_TOPICS, request)
    with ottla.Admin(stack.bootstrap) as admin:
        assert "stolen" not in admin.topics.list()
    names = [service.name for service in stack.plan.services() if f"127.0.0.1:{service.port}" == address]
    assert "Controller.CreateTopics is for brokers, and the caller" in log_of(stack, *names)


def test_nobody_but_a_broker_speaks_for_a_client(stack: RunningStack, services: ServiceCertificates) -> None:
    """An operator's program may call the mirror, but not in the name of a client."""
    with pytest.raises(OttlaError, match="in a client's name by admin/ops, and only brokers may do that") as refused:
        call(
            address_of(stack, "mirror-0"),
            services.of(Role.ADMIN, "ops"),
            Mirror.MIRROR_STATUS,
            MirrorStatusRequest(),
            principal="User:root",
        )
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    group = address_of(stack, "group-coordinator-0")
    assert call(group, services.of(Role.BROKER, "0"), Group.LIST_GROUPS, ListGroupsRequest(), principal="User:alice")


def test_an_operators_program_calls_a_mirror_at_its_own_port(
    stack: RunningStack, services: ServiceCertificates
) -> None:
    address, files = address_of(stack, "mirror-0"), services.files(Role.ADMIN, "ops")
    services.of(Role.ADMIN, "ops")
    tls = ottla.Tls(ca=files.ca, certificate=files.certificate, key=files.key)
    with ottla.MirrorClient(address, tls=tls) as mirror:
        assert [flow.name for flow in mirror.flows()] == [FLOW]
    with ottla.MirrorClient(address) as mirror, pytest.raises(ottla.ConnectError, match="closed the new connection"):
        mirror.flows()
    of_broker = services.files(Role.BROKER, "0")
    tls = ottla.Tls(ca=of_broker.ca, certificate=of_broker.certificate, key=of_broker.key)
    with pytest.raises(ottla.ConfigError, match="is of broker/0, and the role has to be admin"):
        ottla.MirrorClient(address, tls=tls)
    with pytest.raises(ottla.ConfigError, match="needs a certificate of the role admin"):
        ottla.MirrorClient(address, tls=True)
    options = {
        "security.protocol": "SSL",
        "ssl.truststore.location": files.ca,
        "ssl.keystore.location": files.certificate,
        "ssl.key.location": files.key,
    }
    command = [sys.executable, "-m", "ottla", "mirror", "status", "--mirror", address]
    command += [word for name, value in options.items() for word in ("-X", f"{name}={value}")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_service_with_the_wrong_certificate_does_not_start(
    stack: RunningStack, services: ServiceCertificates, tmp_path: Path
) -> None:
    files = services.files(Role.CONTROLLER, "0")
    settings = {
        "etcd": f"127.0.0.1:{stack.plan.etcd_port}",
        "data-dir": tmp_path / "data",
        "internal-tls-certificate": files.certificate,
        "internal-tls-key": files.key,
    }
    for more, said in (
        ({}, "belong together, and not all are set"),
        ({"internal-tls-ca": files.ca}, "is of controller/0, and the role has to be broker"),
    ):
        command = [sys.executable, "-m", "ottla_broker"]
        command += [f"--{name}={value}" for name, value in {**settings, **more}.items()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, said in done.stderr) == (1, True), done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.story("silent-connections-of-services")
def test_handshakes_that_stop_disturb_nobody_and_end_within_their_limit(
    stack: RunningStack, services: ServiceCertificates, topic: str
) -> None:
    """500 connections say nothing, and 50 stop in the middle of their first message."""
    name = "broker-0"
    group, address, files = services.of(Role.GROUP_COORDINATOR), address_of(stack, name), open_files(stack, name)
    host, _, port = address.rpartition(":")

    def serves() -> None:
        """Call by a new connection, and write by those that brokers have."""
        assert call(address, group, Broker.LIST_OFFSETS, ListOffsetsRequest())
        producer.send(0).result(timeout=LIMIT_S)

    with ExitStack() as opened:
        producer = opened.enter_context(ottla.Producer(stack.bootstrap, topic=topic))
        serves()
        began_at = time.monotonic()
        for opening in [b""] * 500 + [client_hello()[:100]] * 50:
            connection = opened.enter_context(socket.create_connection((host, int(port)), LIMIT_S))
            connection.sendall(opening)
        wait_until(lambda: open_files(stack, name) >= files + 550)
        while open_files(stack, name) > files + OTHER_FILES:
            serves()
            assert time.monotonic() - began_at < 3 * HANDSHAKE_LIMIT_MS / 1000, "they end when their time is over"
        serves()


def open_files(stack: RunningStack, name: str) -> int:
    return len(os.listdir(f"/proc/{stack.pid(name)}/fd"))


def client_hello() -> bytes:
    """Return the first message of a TLS client."""
    said = ssl.MemoryBIO()
    session = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return said.read()


def test_rotation_of_the_authority_and_of_all_certificates_under_traffic(
    stack: RunningStack, services: ServiceCertificates, topic: str
) -> None:
    """Nothing is lost and nothing fails, whether connections are old, or new because a process was restarted."""
    stopping, failures, sent = threading.Event(), list[BaseException](), list[int]()

    def produce() -> None:
        try:
            with ottla.Producer(stack.bootstrap, topic=topic) as producer:
                while not stopping.is_set():
                    producer.send(len(sent)).result(timeout=LIMIT_S)
                    sent.append(len(sent))
        except BaseException as error:
            failures.append(error)

    def has_moved_on() -> None:
        reached = len(sent) + 20
        wait_until(lambda: failures or len(sent) > reached)
        assert not failures

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        has_moved_on()
        services.directory.replace_authority(timedelta(days=100))
        stack.restart("broker-0")  # a process with an old certificate, which trusts both authorities
        has_moved_on()
        services.directory.rotate(timedelta(days=50), timedelta(0))
        stack.restart("broker-1", "group-coordinator-0")  # and processes with new ones
        has_moved_on()
        services.directory.retire_authorities()
        stack.restart("broker-2", "controller-0", "controller-1")
        has_moved_on()
        with ottla.Admin(stack.bootstrap) as admin:
            wait_until(lambda: all(len(p.isr) == 3 for each in admin.topics.describe(topic) for p in each.partitions))
    finally:
        stopping.set()
        thread.join(LIMIT_S)
    assert not failures
    assert values(stack, topic) == sent
    broker = log_of(stack, "broker-1")
    assert "new connections to and from other services use another certificate of broker/1" in broker
