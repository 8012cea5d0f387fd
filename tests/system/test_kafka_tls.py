"""TLS at a broker's own process: what clients can do, who they are, and what becomes of those that misbehave."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from certificates import Authority, Certificate
from confluent_kafka.admin import AdminClient, ConfigResource
from one_record import by_aiokafka, by_confluent, by_kafka_python, by_ottla
from secured_kafka import private_file
from tests.fuzz.stack import Stack
from users import PASSWORDS, Users
from waiting import LIMIT_S, wait_until

import ottla

KEY_PASSWORD = "planted-key-password"
HALF_OPEN = 1_200
MAX_HANDSHAKES = 1_000


class Secured(NamedTuple):
    """A broker with TLS: `client` is a super user, and `other` may do nothing."""

    stack: Stack
    authority: Authority
    client: Certificate
    other: Certificate
    keystore: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.stack.kafka_port}"

    def tls(self, certificate: Certificate | None = None) -> ottla.Tls:
        if certificate is None:
            return ottla.Tls(ca=self.authority.certificate)
        return ottla.Tls(ca=self.authority.certificate, certificate=certificate.certificate, key=certificate.key)


def secured(folder: Path, protocol: str, settings: dict[str, object]) -> Iterator[Secured]:
    authority = Authority(folder / "authority")
    broker, client, other = (authority.issue(name, "IP:127.0.0.1") for name in ("broker", "client", "other"))
    settings = {
        "kafka-listener-protocols": f"PLAINTEXT:{protocol}",
        "ssl-keystore-location": broker.both,
        "ssl-key-password-file": private_file(folder / "key.password", KEY_PASSWORD),
        **settings,
    }
    with Stack(folder / "stack", broker=settings) as stack:
        yield Secured(stack, authority, client, other, broker.both)
        assert not stack.ended
        logged = "".join(log.read_text() for log in stack.logs)
    assert "Traceback" not in logged
    assert not [word for word in (KEY_PASSWORD, *PASSWORDS.values(), "PRIVATE KEY") if word in logged]


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Clients show certificates, and ACLs say what their principals may do."""
    folder = tmp_path_factory.mktemp("mutual")
    settings = {
        "ssl-client-auth": "required",
        "ssl-truststore-location": folder / "authority/ca.pem",
        "ssl-principal-mapping-rules": "RULE:^CN=(.*)$/$1/, DEFAULT",
        "authorizer-class-name": "StandardAuthorizer",
        "super-users": "User:client",
    }
    yield from secured(folder, "SSL", settings)


@pytest.fixture(scope="module")
def with_logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Clients log in over TLS, and no setting allows passwords in clear."""
    folder = tmp_path_factory.mktemp("logins")
    settings = {
        "sasl-enabled-mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "sasl-credentials-file": Users().write(folder / "users.toml"),
        "authorizer-class-name": "StandardAuthorizer",
        "super-users": "User:alice",
    }
    yield from secured(folder, "SASL_SSL", settings)


# ---- clients --------------------------------------------------------------------------------------------------------


class Client(NamedTuple):
    """Where a client connects, and what it shows: a certificate, or a login by a mechanism."""

    secured: Secured
    mechanism: str

    def ottlas(self) -> dict[str, Any]:
        if not self.mechanism:
            return {"tls": self.secured.tls(self.secured.client)}
        password = PASSWORDS["alice"]
        login = (
            ottla.Plain("alice", password)
            if self.mechanism == "PLAIN"
            else ottla.Scram("alice", password, self.mechanism)  # type: ignore[arg-type]  # one of the mechanisms
        )
        return {"tls": self.secured.tls(), "login": login}

    def confluents(self) -> dict[str, Any]:
        settings = {
            "bootstrap.servers": self.secured.address,
            "security.protocol": "SASL_SSL" if self.mechanism else "SSL",
            "ssl.ca.location": str(self.secured.authority.certificate),
        }
        if not self.mechanism:
            shown = self.secured.client
            return {
                **settings,
                "ssl.certificate.location": str(shown.certificate),
                "ssl.key.location": str(shown.key),
            }
        return {
            **settings,
            "sasl.mechanism": self.mechanism,
            "sasl.username": "alice",
            "sasl.password": PASSWORDS["alice"],
        }

    def pythons(self) -> dict[str, Any]:
        """Return the settings of kafka-python and aiokafka, without those of TLS."""
        settings = {
            "bootstrap_servers": self.secured.address,
            "security_protocol": "SASL_SSL" if self.mechanism else "SSL",
        }
        if self.mechanism:
            login = {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORDS["alice"]}
            settings |= {"sasl_mechanism": self.mechanism, **login}
        return settings

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.secured.authority.certificate))
        context.load_cert_chain(self.secured.client.certificate, self.secured.client.key)
        return context


def use_ottla(client: Client, topic: str) -> list[bytes]:
    return by_ottla(topic, client.secured.address, **client.ottlas())


def use_confluent(client: Client, topic: str) -> list[bytes | None]:
    return by_confluent(topic, client.confluents())


def use_kafka_python(client: Client, topic: str) -> list[bytes]:
    return by_kafka_python(topic, {**client.pythons(), "ssl_context": client.context()})


def use_aiokafka(client: Client, topic: str) -> list[bytes]:
    return by_aiokafka(topic, {**client.pythons(), "ssl_context": client.context()})


USES = [use_ottla, use_confluent, use_kafka_python, use_aiokafka]


@pytest.mark.parametrize("use", USES)
def test_clients_with_certificates_write_and_read(
    mutual: Secured, use: Callable[[Client, str], list[bytes | None]]
) -> None:
    client, topic = Client(mutual, ""), f"mutual-{use.__name__}"
    with ottla.Admin(mutual.address, **client.ottlas()) as admin:
        admin.topics.create(topic, partitions=1)
    assert use(client, topic) == [b"v"]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
@pytest.mark.parametrize("use", USES)
def test_clients_log_in_over_tls_write_and_read(
    with_logins: Secured, mechanism: str, use: Callable[[Client, str], list[bytes | None]]
) -> None:
    client, topic = Client(with_logins, mechanism), f"{mechanism}-{use.__name__}"
    with ottla.Admin(with_logins.address, **client.ottlas()) as admin:
        admin.topics.create(topic, partitions=1)
    assert use(client, topic) == [b"v"]


def test_a_large_response_arrives_whole(mutual: Secured) -> None:
    settings = Client(mutual, "").ottlas()
    with ottla.Admin(mutual.address, **settings) as admin:
        admin.topics.create("large", partitions=1)
    values = [bytes([number]) * 300_000 for number in range(100)]
    with ottla.Producer(mutual.address, topic="large", value="bytes", **settings) as producer:
        for value in values:
            producer.send(value)
    read: dict[str, Any] = {"start": "earliest", "stop": "end", "value": "bytes", **settings}
    with ottla.Consumer("large", bootstrap=mutual.address, **read) as consumer:
        assert [record.value for record in consumer] == values


# ---- who the client is ----------------------------------------------------------------------------------------------


def test_the_name_in_the_certificate_is_the_principal_that_acls_decide_on(mutual: Secured) -> None:
    with ottla.Admin(mutual.address, tls=mutual.tls(mutual.client)) as admin:
        admin.topics.create("of-the-client", partitions=1)
    with (
        ottla.Producer(mutual.address, topic="of-the-client", value="bytes", tls=mutual.tls(mutual.other)) as producer,
        pytest.raises(ottla.OttlaError, match="TOPIC_AUTHORIZATION_FAILED"),
    ):
        producer.send(b"v").result(LIMIT_S)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (lambda mutual: None, "the client has shown no certificate"),
        (lambda mutual: mutual.authority.issue("late", days=-1), "the client's certificate has expired"),
        (
            lambda mutual: Authority(mutual.keystore.parent.parent / "strange", "Strange CA").issue("mallory"),
            "the client's certificate is signed by an authority that is not in ssl_truststore_location",
        ),
    ],
)
def test_a_client_whose_certificate_does_not_count_gets_an_alert_and_the_operator_a_sentence(
    mutual: Secured, shown: Callable[[Secured], Certificate | None], words: str
) -> None:
    with pytest.raises(ottla.OttlaError, match="TLS_HANDSHAKE_FAILED"):
        ottla.Admin(mutual.address, tls=mutual.tls(shown(mutual))).topics.list()
    wait_until(lambda: words in mutual.stack.logs[0].read_text())


@pytest.mark.story("service-as-a-kafka-client")
def test_the_certificate_of_a_service_does_not_open_a_listener(mutual: Secured) -> None:
    """The listener trusts the authority of that certificate."""
    of_a_service = mutual.authority.issue("0", "URI:ottla://broker/0")
    with pytest.raises(ottla.OttlaError, match="does not accept this client's certificate"):
        ottla.Admin(mutual.address, tls=mutual.tls(of_a_service)).topics.list()
    words = "the client has shown the certificate of a service, 'ottla://broker/0'"
    wait_until(lambda: words in mutual.stack.logs[0].read_text())


def test_a_client_without_tls_is_told_that_the_port_expects_it(mutual: Secured) -> None:
    with pytest.raises(ottla.OttlaError, match="expects TLS"):
        ottla.Admin(mutual.address).topics.list()
    wait_until(lambda: "the client does not speak TLS" in mutual.stack.logs[0].read_text())


# ---- time -----------------------------------------------------------------------------------------------------------


def seen_subject(mutual: Secured) -> str:
    """Return the name in the certificate that a new connection gets."""
    context = Client(mutual, "").context()
    with (
        socket.create_connection(("127.0.0.1", mutual.stack.kafka_port), LIMIT_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        found: Any = connection.getpeercert()
        return str(dict(part[0] for part in found["subject"])["commonName"])


def test_a_renewed_certificate_is_used_while_clients_go_on(mutual: Secured) -> None:
    settings = Client(mutual, "").ottlas()
    with ottla.Admin(mutual.address, **settings) as admin:
        admin.topics.create("rotation", partitions=1)
    former = mutual.keystore.read_text()
    stop, sent = threading.Event(), list[Any]()

    def write() -> None:
        with ottla.Producer(mutual.address, topic="rotation", value="bytes", **settings) as producer:
            while not stop.is_set():
                sent.append(producer.send(b"%d" % len(sent)).result(LIMIT_S))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wait_until(lambda: len(sent) > 10)
        mutual.keystore.write_text("half a file")
        wait_until(lambda: "the former certificate stays in use" in mutual.stack.logs[0].read_text())
        assert seen_subject(mutual) == "broker"
        mutual.keystore.write_text(mutual.authority.issue("renewed", "IP:127.0.0.1").both.read_text())
        wait_until(lambda: seen_subject(mutual) == "renewed")
        before = len(sent)
        wait_until(lambda: len(sent) > before + 10)
    finally:
        stop.set()
        writer.join(LIMIT_S)
    mutual.keystore.write_text(former)
    wait_until(lambda: seen_subject(mutual) == "broker")
    read: dict[str, Any] = {"start": "earliest", "stop": "end", "value": "bytes", **settings}
    with ottla.Consumer("rotation", bootstrap=mutual.address, **read) as consumer:
        assert sum(1 for _ in consumer) == len(sent)


def test_thousands_of_half_open_handshakes_leave_other_connections_alone(mutual: Secured) -> None:
    context = Client(mutual, "").context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    hello = outgoing.read()
    with ottla.Admin(mutual.address, **Client(mutual, "").ottlas()) as admin:
        before_mb = mutual.stack.rss_mb
        stuck: list[socket.socket] = []
        try:
            for number in range(HALF_OPEN):
                stuck.append(socket.create_connection(("127.0.0.1", mutual.stack.kafka_port), LIMIT_S))
                stuck[-1].sendall(hello[: len(hello) if number % 2 else 20])
            wait_until(lambda: "and most of them from its address" in mutual.stack.logs[0].read_text())
            admin.topics.list()
            assert seen_subject(mutual) == "broker"  # a new client needs only a moment of the list
            assert mutual.stack.rss_mb - before_mb < MAX_HANDSHAKES * 0.1
        finally:
            for one in stuck:
                one.close()


# ---- what is described ----------------------------------------------------------------------------------------------


def test_the_settings_are_described_under_kafkas_names(mutual: Secured) -> None:
    admin = AdminClient(Client(mutual, "").confluents())
    node_id = next(iter(admin.list_topics(timeout=LIMIT_S).brokers))
    resource = ConfigResource(ConfigResource.Type.BROKER, str(node_id))
    described = admin.describe_configs([resource])[resource].result(LIMIT_S)
    found = {name: entry.value for name, entry in described.items() if name.startswith("ssl.")}
    assert found["ssl.keystore.location"] == str(mutual.keystore)
    assert found["ssl.client.auth"] == "required"
    assert found["ssl.enabled.protocols"] == "TLSv1.2,TLSv1.3"
    assert found["ssl.principal.mapping.rules"] == "RULE:^CN=(.*)$/$1/, DEFAULT"
    assert found["ssl.key.password"] is None
    assert described["ssl.key.password"].is_sensitive
    assert described["ssl.keystore.location"].is_read_only
    assert described["listener.security.protocol.map"].value == "PLAINTEXT:SSL"
    assert KEY_PASSWORD not in json.dumps(found)
