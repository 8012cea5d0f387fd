"""Logins at a broker's own process: what clients can do, what a wrong password gets, and what comes before a login."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import aiokafka
import kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from one_record import by_aiokafka, by_confluent, by_kafka_python, by_ottla
from tests.fuzz.kafka_wire import KafkaWire
from tests.fuzz.stack import Stack
from users import PASSWORDS, Users
from waiting import LIMIT_S, wait_until

import ottla
from ottla.client.kafka.sasl.scram import ScramConversation
from ottla_core.errors import ErrorCode
from ottla_core.security import scram

Mechanism = scram.Mechanism | Literal["PLAIN"]
MECHANISMS: tuple[Mechanism, ...] = (*scram.MECHANISMS, "PLAIN")
DELAY_MS = 300
LEAST_DELAY_S = 0.99 * DELAY_MS / 1000
"""The clocks of a loop and of a test differ by a fraction of a millisecond."""
ILLEGAL, REJECTED, UNSUPPORTED = (
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
)
SASL_KEYS = {17: (0, 1), 36: (0, 2)}
_names = (f"logins-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("secured")
    settings = {
        "kafka-listener-protocols": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl-enabled-mechanisms": ",".join(MECHANISMS),
        "sasl-plain-without-tls": True,
        "sasl-credentials-file": Users().write(folder / "users.toml"),
        "connection-failed-authentication-delay-ms": DELAY_MS,
    }
    with Stack(folder, broker=settings) as stack:
        yield stack
        logged = "".join(log.read_text() for log in stack.logs)
    assert not [word for word in (*PASSWORDS.values(), "not-hers") if word in logged]
    assert "the password of user 'alice' is wrong" in logged
    assert "Traceback" not in logged


@pytest.fixture
def address(secured: Stack) -> str:
    return f"127.0.0.1:{secured.kafka_port}"


@pytest.fixture
def wire(address: str) -> Iterator[KafkaWire]:
    with KafkaWire(address) as connection:
        yield connection


def login(mechanism: Mechanism, user: str = "alice", password: str = "") -> ottla.Plain | ottla.Scram:
    password = password or PASSWORDS[user]
    return ottla.Plain(user, password) if mechanism == "PLAIN" else ottla.Scram(user, password, mechanism)


# ---- clients --------------------------------------------------------------------------------------------------------


def use_ottla(address: str, mechanism: Mechanism, topic: str) -> list[bytes]:
    return by_ottla(topic, address, login=login(mechanism))


def use_confluent(address: str, mechanism: Mechanism, topic: str) -> list[bytes | None]:
    return by_confluent(topic, confluent(address, mechanism))


def confluent(address: str, mechanism: str, password: str = "") -> dict[str, Any]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password or PASSWORDS["alice"],
    }


def python_settings(address: str, mechanism: str, password: str = "") -> dict[str, Any]:
    """Those of kafka-python and of aiokafka."""
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password or PASSWORDS["alice"],
    }


def use_kafka_python(address: str, mechanism: Mechanism, topic: str) -> list[bytes]:
    return by_kafka_python(topic, python_settings(address, mechanism))


def use_aiokafka(address: str, mechanism: Mechanism, topic: str) -> list[bytes]:
    return by_aiokafka(topic, python_settings(address, mechanism))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("use", [use_ottla, use_confluent, use_kafka_python, use_aiokafka])
def test_clients_log_in_write_and_read(
    address: str, mechanism: Mechanism, use: Callable[[str, Mechanism, str], list[bytes | None]]
) -> None:
    topic = next(_names)
    with ottla.Admin(address, login=login("SCRAM-SHA-512", "bob")) as admin:
        admin.topics.create(topic, partitions=1)
    assert use(address, mechanism, topic) == [b"v"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_an_authentication_error_to_each_client(address: str, mechanism: Mechanism) -> None:
    with pytest.raises(ottla.AuthenticationError, match="the user name or the password is wrong"):
        ottla.Admin(address, login=login(mechanism, password="not-hers")).topics.list()

    errors: list[KafkaError] = []
    told: dict[str, Any] = {**confluent(address, mechanism, "not-hers"), "error_cb": errors.append}
    client = AdminClient(told)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)
    wait_until(lambda: client.poll(0.1) and errors)
    assert {error.code() for error in errors} <= {KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN}
    assert "the user name or the password is wrong" in errors[0].str()

    settings: dict[str, Any] = {**python_settings(address, mechanism, "not-hers"), "api_version_auto_timeout_ms": 3000}
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaAdminClient(**settings)

    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(**python_settings(address, mechanism, "not-hers"))
        try:
            with pytest.raises(aiokafka.errors.KafkaError):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(start())


def test_a_client_without_a_login_is_told_what_the_port_expects(address: str) -> None:
    with pytest.raises(ottla.OttlaError, match=r"expects a login \(SASL\)"):
        ottla.Admin(address).topics.list()


# ---- requests -------------------------------------------------------------------------------------------------------


def versions(wire: KafkaWire) -> dict[int, tuple[int, int]]:
    response = wire.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


def handshake(wire: KafkaWire, mechanism: str = "PLAIN", version: int = 1) -> tuple[int, list[str]]:
    response = wire.ask(SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)
    return response.error_code, response.mechanisms


def authenticate(wire: KafkaWire, message: bytes, version: int = 1) -> Any:
    return wire.ask(SaslAuthenticateRequest(auth_bytes=message), version, SaslAuthenticateResponse)


def metadata(wire: KafkaWire) -> int:
    return len(wire.ask(MetadataRequest(topics=[]), 1, MetadataResponse).brokers)


PLAIN = b"\0alice\0" + PASSWORDS["alice"].encode()


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("asks_for_versions", [True, False])
def test_a_login_with_and_without_api_versions_first(wire: KafkaWire, version: int, asks_for_versions: bool) -> None:
    if asks_for_versions:
        shown = versions(wire)
        assert {key: shown[key] for key in SASL_KEYS} == SASL_KEYS
    assert handshake(wire) == (0, list(MECHANISMS))
    response = authenticate(wire, PLAIN, version)
    assert (response.error_code, response.error_message, response.auth_bytes) == (0, None, b"")
    if version:
        assert response.session_lifetime_ms == 0
    assert metadata(wire) == 1


def token(wire: KafkaWire, message: bytes, piece_bytes: int = 1000) -> bytes:
    framed = struct.pack(">i", len(message)) + message
    for at in range(0, len(framed), piece_bytes):
        wire.socket.sendall(framed[at : at + piece_bytes])
    return wire.frame()


@pytest.mark.parametrize("piece_bytes", [1, 5, 1000])
def test_tokens_without_headers_follow_a_handshake_of_version_0(wire: KafkaWire, piece_bytes: int) -> None:
    wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert handshake(wire, "SCRAM-SHA-512", 0) == (0, list(MECHANISMS))
    client = ScramConversation("SCRAM-SHA-512", "bob", PASSWORDS["bob"], "nonce")
    final = client.answer(token(wire, client.first(), piece_bytes))
    assert final is not None
    assert client.answer(token(wire, final, piece_bytes)) is None
    assert metadata(wire) == 1


def test_a_token_of_plain_is_answered_with_an_empty_one(wire: KafkaWire) -> None:
    handshake(wire, "PLAIN", 0)
    assert token(wire, PLAIN) == b""
    assert metadata(wire) == 1


@pytest.mark.parametrize("message", [b"", b"\0", PLAIN[:-1], b"\0mallory\0x"])
def test_a_token_that_is_rejected_has_no_answer_but_the_end(wire: KafkaWire, message: bytes) -> None:
    handshake(wire, "PLAIN", 0)
    begun_at = time.monotonic()
    wire.socket.sendall(struct.pack(">i", len(message)) + message)
    assert wire.is_closed()
    assert time.monotonic() - begun_at >= LEAST_DELAY_S


def test_a_mechanism_that_is_not_enabled_is_told_those_that_are(wire: KafkaWire) -> None:
    begun_at = time.monotonic()
    assert handshake(wire, "GSSAPI") == (UNSUPPORTED, list(MECHANISMS))
    assert wire.is_closed()
    assert time.monotonic() - begun_at >= LEAST_DELAY_S


def log_in_by_scram(
    address: str, mechanism: scram.Mechanism, user: str, password: str
) -> tuple[list[tuple[int, str | None, int]], float]:
    """Log in. Return the code, the text and the number of bytes of each answer, and the time of the last."""
    with KafkaWire(address) as wire:
        handshake(wire, mechanism)
        client = ScramConversation(mechanism, user, password, "nonce")
        message: bytes | None = client.first()
        answers, took_s = [], 0.0
        while message is not None:
            begun_at = time.monotonic()
            response = authenticate(wire, message)
            took_s = time.monotonic() - begun_at
            answers.append((response.error_code, response.error_message, len(response.auth_bytes)))
            message = None if response.error_code else client.answer(response.auth_bytes)
        assert wire.is_closed() or not answers[-1][0]
        return answers, took_s


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
def test_an_unknown_user_is_answered_as_a_wrong_password_is(address: str, mechanism: scram.Mechanism) -> None:
    wrong, wrong_s = log_in_by_scram(address, mechanism, "alice", "not-hers")
    unknown, unknown_s = log_in_by_scram(address, mechanism, "mallo", "not-hers")
    assert wrong == unknown
    assert [code for code, *_ in wrong] == [0, REJECTED]
    assert wrong[-1][1] == "the user name or the password is wrong"
    assert min(wrong_s, unknown_s) >= LEAST_DELAY_S


def test_so_it_is_by_plain(address: str) -> None:
    answers = []
    for user in (b"alice", b"mallory"):
        with KafkaWire(address) as wire:
            handshake(wire)
            response = authenticate(wire, b"\0%s\0not-hers" % user)
            answers.append((response.error_code, response.error_message, response.auth_bytes))
            assert wire.is_closed()
    assert answers == [(REJECTED, "the user name or the password is wrong", b"")] * 2


@pytest.mark.parametrize("steps", [[], [versions], [versions, handshake], [handshake]])
def test_any_other_api_before_the_login_ends_the_connection(
    wire: KafkaWire, steps: list[Callable[[KafkaWire], Any]]
) -> None:
    for step in steps:
        step(wire)
    wire.send(MetadataRequest(topics=[]), 1)
    assert wire.is_closed()


def test_api_versions_is_served_once_before_the_login(wire: KafkaWire) -> None:
    versions(wire)
    wire.send(ApiVersionsRequest(), 0)
    assert wire.is_closed()


def test_a_version_of_api_versions_that_is_not_served_may_be_asked_again(wire: KafkaWire) -> None:
    wire.socket.sendall(struct.pack(">ihhih", 10, 18, 99, 1, -1))
    assert struct.unpack_from(">ih", wire.frame()) == (1, ErrorCode.UNSUPPORTED_VERSION)
    assert versions(wire)
    assert handshake(wire)[0] == 0


def test_a_message_before_the_handshake_ends_the_connection(wire: KafkaWire) -> None:
    wire.send(SaslAuthenticateRequest(auth_bytes=PLAIN), 1)
    assert wire.is_closed()


def test_a_second_handshake_in_an_exchange_ends_the_login(wire: KafkaWire) -> None:
    handshake(wire)
    assert handshake(wire) == (ILLEGAL, [])
    assert wire.is_closed()


def test_a_client_that_is_logged_in_can_not_log_in_again_and_goes_on(wire: KafkaWire) -> None:
    handshake(wire)
    authenticate(wire, PLAIN)
    for _ in range(2):
        assert handshake(wire) == (ILLEGAL, [])
        response = authenticate(wire, PLAIN)
        assert (response.error_code, response.error_message) == (ILLEGAL, "the client is logged in already")
        assert metadata(wire) == 1
        assert versions(wire)


@pytest.mark.parametrize("version", [0, 1])
def test_frames_before_the_login_are_short(address: str, version: int) -> None:
    with KafkaWire(address) as wire:
        versions(wire)
        handshake(wire, "PLAIN", version)
        head = struct.pack(">ihhih", 600 * 1024, 36, 1, 1, -1)
        wire.socket.sendall(head if version else head[:4])
        assert wire.is_closed()
    with KafkaWire(address) as wire:
        handshake(wire)
        authenticate(wire, PLAIN)
        wire.socket.sendall(struct.pack(">ihhih", 600 * 1024, 3, 1, 1, -1) + bytes(600 * 1024 - 10))
        wire.frame()


def test_two_hundred_logins_at_once(address: str) -> None:
    """Each of them has its answer, whether its password is right or wrong, and a client beside them is served."""

    async def log_in(number: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        password = b"not-hers" if number % 4 == 0 else PASSWORDS["alice"].encode()
        message = b"\0alice\0" + password
        body = struct.pack(">i", len(message)) + message
        try:
            for key, content in ((17, struct.pack(">h", 5) + b"PLAIN"), (36, body)):
                writer.write(struct.pack(">ihhih", 10 + len(content), key, 1, number, -1) + content)
                (size_bytes,) = struct.unpack(">i", await reader.readexactly(4))
                answer = await reader.readexactly(size_bytes)
            return int(struct.unpack_from(">h", answer, 4)[0])
        finally:
            writer.close()

    async def log_in_all() -> list[int]:
        async with asyncio.timeout(LIMIT_S):
            return await asyncio.gather(*(log_in(number) for number in range(200)))

    with KafkaWire(address) as beside:
        handshake(beside)
        authenticate(beside, PLAIN)
        codes = asyncio.run(log_in_all())
        assert metadata(beside) == 1
    assert codes == [REJECTED if number % 4 == 0 else 0 for number in range(200)]


# ---- users of the cluster -------------------------------------------------------------------------------------------


def alter(admin: AdminClient, *changes: Any) -> None:
    for future in admin.alter_user_scram_credentials(list(changes)).values():
        future.result(LIMIT_S)


def can_log_in(address: str, password: str) -> bool:
    try:
        with ottla.Admin(address, login=ottla.Scram("carol", password, "SCRAM-SHA-256")) as admin:
            admin.cluster.describe()
    except ottla.OttlaError as error:
        if error.code != REJECTED:
            raise
        return False
    return True


def test_a_user_of_the_cluster_logs_in_until_the_password_is_changed_or_the_user_is_deleted(address: str) -> None:
    admin: Any = AdminClient(confluent(address, "SCRAM-SHA-512"))
    short = ScramMechanism.SCRAM_SHA_256
    alter(admin, UserScramCredentialUpsertion("carol", ScramCredentialInfo(short, 4096), b"first"))
    assert can_log_in(address, "first")
    infos = admin.describe_user_scram_credentials(["carol"])["carol"].result(LIMIT_S).scram_credential_infos
    assert [(info.mechanism, info.iterations) for info in infos] == [(short, 4096)]
    alter(admin, UserScramCredentialUpsertion("carol", ScramCredentialInfo(short, 4096), b"second"))
    assert can_log_in(address, "second")
    assert not can_log_in(address, "first")
    alter(admin, UserScramCredentialDeletion("carol", short))
    assert not can_log_in(address, "second")
