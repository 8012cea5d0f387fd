"""Logins and TLS of the SDK with Apache Kafka itself, whose authorizer decides what each user may do."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from group_members import Member
from secured_kafka import MECHANISMS, NOT_ENABLED, USERS, SecuredKafka, login
from tests.compat.cells import DIFFERS
from waiting import LIMIT_S, wait_until

import ottla
import ottla.aio
from ottla.client.kafka import connection as connection_module
from ottla.client.kafka.login import Login
from ottla.client.kafka.sockets.line import Line

PARTITIONS = 3
LOGIN_MS = 3000
"""Kafka ends a connection that has not logged in again by then, at its next request."""
SOON_S = 10.0
"""An error that comes later than this was retried."""
WAYS = [
    (listener, mechanism)
    for listener in ("SASL_PLAINTEXT", "SASL_SSL")
    for mechanism in MECHANISMS
    if (listener, mechanism) != NOT_ENABLED
]
_names = (f"logins-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    kafka = SecuredKafka(tmp_path_factory.mktemp("kafka"), reauthenticates_ms=LOGIN_MS)
    with kafka.server:
        kafka.allow("User:alice", "User:bob", "User:CN=client")
        yield kafka


@pytest.fixture
def topic(kafka: SecuredKafka) -> str:
    name = next(_names)
    with ottla.Admin(kafka.server.bootstrap) as admin:
        admin.topics.create(name, partitions=PARTITIONS)
    return name


@pytest.fixture(autouse=True)
def no_password_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield
    assert not [password for password in USERS.values() if password in caplog.text]


def write(topic: str, count: int, **arguments: Any) -> set[tuple[str, int, int]]:
    with ottla.Producer(topic=topic, value="int", **arguments) as producer:
        sent = [producer.send(n, partition=n % PARTITIONS) for n in range(count)]
        return {(topic, where.partition, where.offset) for where in (each.result(LIMIT_S) for each in sent)}


def values(topic: str, **arguments: Any) -> Counter[int]:
    """The committed records of the topic."""
    with ottla.Consumer(topic, start="earliest", stop="end", value="int", **arguments) as consumer:
        return Counter(record.value for record in consumer)


def refused(call: Callable[[], Any]) -> ottla.AuthenticationError:
    """The error of a call that fails at once because of its credentials, which are not in its message."""
    began_at = time.monotonic()
    with pytest.raises(ottla.AuthenticationError) as caught:
        call()
    assert time.monotonic() - began_at < SOON_S
    assert not [password for password in USERS.values() if password in str(caught.value)]
    assert caught.value.hint
    return caught.value


@DIFFERS.cell
@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_a_user_writes_reads_commits_and_has_transactions(
    kafka: SecuredKafka, topic: str, listener: str, mechanism: str
) -> None:
    arguments = kafka.arguments(listener, mechanism)
    places = write(topic, 60, **arguments)
    member = Member(
        ottla.Consumer(topic, group=topic, auto_offset_reset="earliest", heartbeat_interval=0.2, **arguments)
    )
    wait_until(lambda: len(member.got) >= 60)
    member.stop()
    assert member.error is None
    assert set(member.got) == places
    with ottla.Admin(**arguments) as admin:
        assert admin.groups.committed(topic) == {(topic, n): 20 for n in range(PARTITIONS)}
    with ottla.Producer(topic=topic, value="int", transactional_id=topic, **arguments) as producer:
        with producer.transaction():
            producer.send(1000)
        producer.begin_transaction()
        producer.send(2000)
        producer.abort_transaction()
    # Kafka acknowledges a commit before its markers are in the log, and a reader ends before an open transaction.
    wait_until(lambda: values(topic, **arguments) == Counter([*range(60), 1000]))


@DIFFERS.cell
def test_clients_for_asyncio_apps_and_tables_log_in(kafka: SecuredKafka, topic: str) -> None:
    arguments = kafka.arguments("SASL_SSL", "SCRAM-SHA-512")
    bootstrap, credentials = arguments["bootstrap"], {key: arguments[key] for key in ("login", "tls")}

    async def send() -> None:
        async with ottla.aio.Producer(topic=topic, **arguments) as producer:
            await producer.send({"n": 7}, key="seven")

    asyncio.run(send())
    with ottla.Table(topic, **arguments) as table:
        table.wait_until_caught_up()
        assert table.get("seven") == {"n": 7}
    assert [record.value for record in ottla.read(topic, start="earliest", **arguments)] == [{"n": 7}]
    app = ottla.App(f"app-{topic}", bootstrap, consumer={"auto_offset_reset": "earliest"}, **credentials)
    handled: list[Any] = []

    @app.on(topic)
    def handle(value: dict[str, int]) -> None:
        handled.append(value)
        app.stop()

    app.run()
    assert handled == [{"n": 7}]


@DIFFERS.cell
def test_kafkas_names_are_enough(kafka: SecuredKafka, topic: str) -> None:
    config = {
        "bootstrap.servers": kafka.server.bootstrap_of("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(kafka.authority.certificate),
    }
    write(topic, 3, config=config)
    assert values(topic, config=config) == Counter(range(3))


@DIFFERS.cell
def test_a_certificate_is_a_login_too(kafka: SecuredKafka, topic: str) -> None:
    bootstrap, ca = kafka.server.bootstrap_of("SSL"), kafka.authority.certificate
    tls = ottla.Tls(ca, kafka.client.certificate, kafka.client.key)
    write(topic, 3, bootstrap=bootstrap, tls=tls)
    assert values(topic, bootstrap=bootstrap, tls=tls) == Counter(range(3))
    foreign = kafka.stranger.issue("foreign")
    for other in (ottla.Tls(ca), ottla.Tls(ca, foreign.certificate, foreign.key)):
        error = refused(lambda tls=other: write(topic, 1, bootstrap=bootstrap, tls=tls))
        assert "the broker ended TLS with" in error.message


@DIFFERS.cell
@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_wrong_credentials_are_one_error(kafka: SecuredKafka, topic: str, listener: str, mechanism: str) -> None:
    wrong = login(mechanism, password=USERS["eve"]) if mechanism != "OAUTHBEARER" else ottla.OAuthBearer(lambda: "x.y.")
    arguments = kafka.arguments(listener, mechanism) | {"login": wrong}
    with ottla.Admin(**arguments) as admin:
        error = refused(admin.cluster.describe)
    assert error.code == ottla.ErrorCode.SASL_AUTHENTICATION_FAILED
    assert f"the broker rejected the login by {mechanism}: " in error.message
    refused(lambda: write(topic, 1, **arguments))
    refused(lambda: values(topic, **arguments))
    with ottla.Consumer(topic, group=topic, **arguments) as consumer:
        refused(lambda: next(iter(consumer)))


@DIFFERS.cell
def test_a_mechanism_that_is_not_enabled_is_named_with_those_that_are(kafka: SecuredKafka) -> None:
    with ottla.Admin(**kafka.arguments(*NOT_ENABLED)) as admin:
        error = refused(admin.cluster.describe)
    assert error.code == ottla.ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert "has not enabled the mechanism SCRAM-SHA-512 (it has " in error.message
    assert "SCRAM-SHA-256" in error.message


@DIFFERS.cell
def test_a_broker_that_is_not_trusted_gets_no_credentials(kafka: SecuredKafka, topic: str) -> None:
    arguments = kafka.arguments("SASL_SSL", "PLAIN")
    elsewhere = kafka.server.bootstrap_of("SASL_SSL", "localhost")
    for change, words in (
        ({"tls": True}, "the broker's certificate is not trusted"),
        ({"tls": ottla.Tls(ca=kafka.stranger.certificate)}, "the broker's certificate is not trusted"),
        ({"bootstrap": elsewhere}, "the broker's certificate is for another host name than 'localhost'"),
    ):
        error = refused(lambda change=change: write(topic, 1, **arguments | change))
        assert words in error.message
        assert error.code == ottla.ErrorCode.TLS_HANDSHAKE_FAILED
    unverified = ottla.Tls(ca=kafka.authority.certificate, verify_hostname=False)
    with ottla.Admin(elsewhere, login=arguments["login"], tls=unverified) as admin:
        assert admin.cluster.describe().brokers


@DIFFERS.cell
@pytest.mark.parametrize(
    ("listener", "client", "words"),
    [
        ("SASL_PLAINTEXT", "PLAINTEXT", "expects a login (SASL): pass login="),
        ("SASL_SSL", "SSL", "expects a login (SASL): pass login="),
        ("SASL_SSL", "SASL_PLAINTEXT", "expects TLS: pass tls=True"),
        ("SASL_SSL", "PLAINTEXT", "expects TLS: pass tls=True"),
        ("SASL_PLAINTEXT", "SASL_SSL", "speaks Kafka's protocol without TLS, but tls= is set"),
        ("PLAINTEXT", "SSL", "speaks Kafka's protocol without TLS, but tls= is set"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "the port expects no login (SASL), but login= is set"),
    ],
)
def test_a_listener_with_another_protocol_is_named(kafka: SecuredKafka, listener: str, client: str, words: str) -> None:
    bootstrap = kafka.server.bootstrap if listener == "PLAINTEXT" else kafka.server.bootstrap_of(listener)
    arguments = kafka.arguments("SASL_SSL", "PLAIN") | {"bootstrap": bootstrap}
    arguments["login"] = arguments["login"] if "SASL" in client else None
    arguments["tls"] = arguments["tls"] if "SSL" in client else None
    began_at = time.monotonic()
    with ottla.Admin(**arguments) as admin, pytest.raises(ottla.FatalError) as caught:
        admin.cluster.describe()
    assert time.monotonic() - began_at < SOON_S
    assert words in caught.value.message


@DIFFERS.cell
def test_a_user_without_rights_is_told_so(kafka: SecuredKafka, topic: str) -> None:
    arguments = kafka.arguments("SASL_SSL", "SCRAM-SHA-256", "eve")
    with pytest.raises(ottla.AuthorizationError) as caught:
        write(topic, 1, **arguments)
    assert caught.value.code == ottla.ErrorCode.TOPIC_AUTHORIZATION_FAILED


# ---- a login ends (KIP-368) ------------------------------------------------------------------------------------------


@DIFFERS.cell
@pytest.mark.parametrize(("listener", "mechanism"), [("SASL_SSL", "SCRAM-SHA-512"), ("SASL_PLAINTEXT", "OAUTHBEARER")])
def test_connections_log_in_again_and_nothing_is_lost(
    kafka: SecuredKafka, topic: str, listener: str, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins: list[Login] = []
    lines: list[Line] = []

    def counted(*given: Any) -> Login:
        logins.append(Login(*given))
        return logins[-1]

    init = Line.__init__

    def noted(line: Line, *given: Any) -> None:
        lines.append(line)
        init(line, *given)

    monkeypatch.setattr(connection_module, "Login", counted)
    monkeypatch.setattr(Line, "__init__", noted)
    arguments = kafka.arguments(listener, mechanism)
    member = Member(
        ottla.Consumer(topic, group=topic, auto_offset_reset="earliest", heartbeat_interval=0.2, **arguments)
    )
    wait_until(lambda: len(member.owned) == PARTITIONS)
    sent: list[ottla.Delivery] = []
    with ottla.Producer(topic=topic, value="int", **arguments) as producer:
        until = time.monotonic() + 3 * LOGIN_MS / 1000
        while time.monotonic() < until:
            sent.append(producer.send(len(sent), partition=len(sent) % PARTITIONS))
            time.sleep(0.001)
        places = [(topic, where.partition, where.offset) for where in (each.result(LIMIT_S) for each in sent)]
        assert producer.metrics["record-retry-total"] == 0
    wait_until(lambda: len(member.got) >= len(places))
    assert [str(line.ended) for line in lines if line.ended is not None and not line.was_closed] == []
    member.stop()
    assert member.error is None
    assert Counter(member.got) == Counter(places)
    assert len(logins) >= 2 * len(lines), "those that work have logged in three times or more"


@DIFFERS.cell
def test_a_password_that_was_changed_ends_a_producer_with_one_error(kafka: SecuredKafka, topic: str) -> None:
    with ottla.Producer(topic=topic, **kafka.arguments("SASL_SSL", "SCRAM-SHA-256", "bob")) as producer:
        producer.send("before").result(LIMIT_S)
        change = UserScramCredentialUpsertion(
            "bob", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"another-password"
        )
        admin = AdminClient({"bootstrap.servers": kafka.server.bootstrap})
        for changed in admin.alter_user_scram_credentials([change]).values():
            changed.result()
        errors: list[ottla.OttlaError] = []

        def fails() -> bool:
            try:
                producer.send("after").result(LIMIT_S)
            except ottla.OttlaError as error:
                errors.append(error)
            return bool(errors)

        wait_until(fails)
        assert isinstance(errors[0], ottla.AuthenticationError)
        assert "the broker rejected the login by SCRAM-SHA-256" in errors[0].message
