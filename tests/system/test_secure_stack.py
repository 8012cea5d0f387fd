"""`ottla up --secure`: nothing is open, the first user logs in by the profile, and a second start keeps the files."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path

import pytest
from etcd_refused import refused
from secured_etcd import etcdctl
from waiting import LIMIT_S

import ottla
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_core.errors import ErrorCode
from ottla_stack.etcd_roles import ROOT
from ottla_stack.running import RunningStack


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    folder = tmp_path_factory.mktemp("secure")
    with RunningStack(folder / "s", brokers=1, group_coordinators=1, txn_coordinators=1, secure=True) as running:
        yield running


def command(stack: RunningStack, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as whoever has exported the printed line."""
    assert stack.plan.secure is not None
    profile = {"OTTLA_CONFIG": str(stack.plan.secure.clients), "OTTLA_PROFILE": "secure"}
    return subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        env=os.environ | profile | more,
        input="v\n",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.feature(172)
def test_the_first_user_logs_in_by_the_profile_and_others_need_acls(stack: RunningStack, tmp_path: Path) -> None:
    secure = stack.plan.secure
    assert secure is not None
    for arguments in (("topic", "create", "orders"), ("produce", "orders")):
        done = command(stack, *arguments)
        assert done.returncode == 0, done.stderr
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text("alices-own-17\n")
    assert command(stack, "user", "add", "alice", "--password-file", str(password)).returncode == 0
    tls, alice = ottla.Tls(ca=secure.ca / "ca.pem"), ottla.Scram("alice", "alices-own-17", "SCRAM-SHA-512")
    with (
        ottla.Producer(stack.bootstrap, topic="orders", value="bytes", login=alice, tls=tls) as producer,
        pytest.raises(ottla.AuthorizationError),
    ):
        producer.send(b"v").result(LIMIT_S)
    assert command(stack, "acl", "add", "alice", "produce", "topic:orders").returncode == 0
    with ottla.Producer(stack.bootstrap, topic="orders", value="bytes", login=alice, tls=tls) as producer:
        assert producer.send(b"v").result(LIMIT_S).offset == 1
    wrong = ottla.Scram("admin", "not-the-password", "SCRAM-SHA-512")
    with pytest.raises(ottla.OttlaError) as refused, ottla.Admin(stack.bootstrap, login=wrong, tls=tls) as admin:
        admin.cluster.describe()
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_no_port_but_the_admin_ports_serves_plaintext(stack: RunningStack) -> None:
    """A service answers plaintext with nothing, or with an alert of TLS. Admin ports are on loopback."""
    admin = {service.admin_port for service in stack.plan.services()}
    ports = {address.port for _, address in stack.plan.addresses()} - admin
    assert len(ports) == 7
    for port in sorted(ports):
        for request in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff"):
            with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                answer = _received(connection)
            is_alert = answer[:2] == b"\x15\x03"
            assert is_alert or not answer or answer.startswith(b"HTTP/1.0 400 Bad Request"), (port, answer)
        assert _speaks_tls(port), port


@pytest.mark.story("service-owns-all-of-etcd")
async def test_a_service_uses_the_keys_of_its_cluster_in_etcd_and_no_others(stack: RunningStack) -> None:
    assert stack.plan.secure is not None
    etcd = stack.plan.etcd_address
    assert len(stack.plan.etcd_users) == 4
    for name in stack.plan.etcd_users:
        own = stack.plan.secure.etcd_client(name)
        for prefix in ("/ottla/another/", "/ottla/ottla0", "/ottla/", "/"):
            assert await refused(etcd, own, prefix) == ["read", "write"], (name, prefix)
        store = EtcdStore([etcd], own)
        found = await store.snapshot("/ottla/ottla/", timeout=LIMIT_S)
        await store.close()
        assert "/ottla/ottla/brokers/0" in {entry.key for entry in found.entries}
    nobody = EtcdSecurity(stack.plan.secure.etcd_ca / "ca.pem")
    assert await refused(etcd, nobody, "/ottla/ottla/") == ["read", "write"]


def test_no_certificate_of_a_service_opens_etcds_peer_port(stack: RunningStack) -> None:
    """A peer may read and write everything, because etcd checks no user at that port."""
    assert stack.plan.secure is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    own = stack.plan.secure.etcd_client("broker-0")
    context.load_cert_chain(own.certificate, own.key)
    connection = HTTPSConnection("127.0.0.1", stack.plan.etcd_peer_port, timeout=LIMIT_S, context=context)
    with closing(connection), pytest.raises((ssl.SSLError, ConnectionError)):
        _get(connection, "/members")


def _get(connection: HTTPConnection, path: str) -> HTTPResponse:
    connection.request("GET", path)
    return connection.getresponse()


@pytest.mark.story("secured-stack-names-topics-to-everybody")
def test_the_admin_ports_need_the_token(stack: RunningStack) -> None:
    """Metrics name groups and topics. Whoever has no token learns whether a service is ready, and no more."""
    for service in stack.plan.services():
        of_service = partial(_page, service.admin_port)
        assert [of_service("/metrics"), of_service("/metrics", "wrong"), of_service("/readyz")] == [401, 401, 200]
        assert of_service("/metrics", stack.plan.admin_token) == 200


def _page(port: int, path: str, token: str = "") -> int:
    """The status of a page of an admin port."""
    connection = HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        return connection.getresponse().status
    finally:
        connection.close()


def _received(connection: socket.socket) -> bytes:
    answer = b""
    try:
        while more := connection.recv(4096):
            answer += more
    except ConnectionError:
        pass
    return answer


def _speaks_tls(port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(("127.0.0.1", port), LIMIT_S) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as connection,
        ):
            return connection.version() in ("TLSv1.2", "TLSv1.3")
    except ssl.SSLError as error:
        # It wants a certificate, and says so by an alert of TLS.
        return "ALERT" in str(error.reason)


def test_doctor_leaves_no_warning_in_the_brokers_log(stack: RunningStack) -> None:
    log = stack.directory / "logs" / "broker-0.log"
    before = log.read_text().count("closing a Kafka connection")
    done = command(stack, "doctor", "-o", "json")
    assert (done.returncode, [each["state"] for each in json.loads(done.stdout)["items"]]) == (0, ["ok"]), done.stderr
    assert log.read_text().count("closing a Kafka connection") == before


@pytest.mark.story("data-is-readable-by-every-user")
def test_no_other_user_can_read_data_logs_or_state(stack: RunningStack) -> None:
    found = [stack.directory, *stack.directory.rglob("*")]
    assert {"logs", "broker-0", "state.json", "broker-0.log", "up.log"} <= {path.name for path in found}
    others = [path for path in found if path.stat().st_mode & 0o077]
    assert {path.suffix for path in others} == {".pem"}, "certificates, which are no secrets"


def test_the_files_are_for_their_owner_alone_and_stay_as_they_are(stack: RunningStack) -> None:
    assert stack.plan.secure is not None
    folder = stack.plan.secure.directory
    assert folder.stat().st_mode & 0o077 == 0
    secret = [
        path
        for path in folder.rglob("*")
        if path.suffix in (".key", ".password", ".token", ".toml") or "keystore" in path.name
    ]
    assert len(secret) > 10
    assert [path for path in secret if path.stat().st_mode & 0o077] == []
    before = _digests(folder)
    stack.__exit__(None, None, None)
    stack.__enter__()
    assert _digests(folder) == before
    assert command(stack, "topic", "show", "orders").returncode == 0


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.story("secured-stack-starts-open")
def test_an_open_stack_is_secured_with_its_data_and_stays_secured(tmp_path: Path) -> None:
    """The stack is started open, then with --secure, and then by a plain `ottla up`."""
    directory = tmp_path / "s"
    start = partial(RunningStack, directory, brokers=1, group_coordinators=0)
    with (
        start() as stack,
        ottla.Producer(stack.bootstrap, topic="kept", value="bytes") as producer,
        ottla.Admin(stack.bootstrap) as admin,
    ):
        admin.topics.create("kept")
        producer.send(b"v").result(LIMIT_S)
    for secure, notice in ((True, "was open until now"), (False, "was secured before")):
        with start(secure=secure) as stack:
            assert notice in (directory / "up.log").read_text()
            assert command(stack, "consume", "kept", "--from", "start").stdout == "v\n"
            with pytest.raises(ottla.OttlaError, match="expects TLS"), ottla.Admin(stack.bootstrap) as admin:
                admin.topics.list()


async def test_a_stack_that_was_secured_without_users_of_etcd_gets_them_and_can_be_opened(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    start = partial(RunningStack, directory, brokers=1, group_coordinators=0)
    with start(secure=True) as stack:
        assert stack.plan.secure is not None
        assert command(stack, "topic", "create", "kept").returncode == 0
        authority = stack.plan.secure.etcd_ca
        root(stack, "auth", "disable")
        for user in ("root", *stack.plan.etcd_users):
            root(stack, "user", "delete", user)
    for path in authority.glob("client-*"):
        path.unlink()
    with start() as stack:
        assert stack.plan.secure is not None
        assert command(stack, "topic", "show", "kept").returncode == 0
        own = stack.plan.secure.etcd_client("broker-0")
        assert await refused(stack.plan.etcd_address, own, "/ottla/another/") == ["read", "write"]
        root(stack, "auth", "disable")
    (directory / "security").rename(tmp_path / "elsewhere")
    with start() as stack, ottla.Admin(stack.bootstrap) as admin:
        assert list(admin.topics.list()) == ["kept"]


def root(stack: RunningStack, *arguments: str) -> None:
    """Run etcdctl as the user who may do everything."""
    assert stack.plan.secure is not None
    etcdctl(stack.plan.etcd_address, stack.plan.secure.etcd_client(ROOT), *arguments)
