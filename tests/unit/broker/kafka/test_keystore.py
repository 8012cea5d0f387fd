"""The certificates of the listeners: which files can be used, and what becomes of files that are replaced."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, Certificate, encrypted
from waiting import until

from ottla_broker.kafka.keystore import Keystore
from ottla_broker.listener_settings import KafkaListener
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.clock import SystemClock
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.host_port import HostPort
from ottla_core.security.principal import NoPrincipalError
from ottla_core.security.tls_settings import ClientAuth, TlsSettings, read_tls

LOOK_S = 0.01
PASSWORD = "planted-password"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Certificate:
    return authority.issue("broker", "DNS:localhost")


@pytest.fixture
async def threads() -> AsyncIterator[DiskThreads]:
    threads = DiskThreads()
    yield threads
    await threads.stop()


class CountingThreads(DiskThreads):
    """Counts what the keystore has read or made."""

    looks = 0

    def keep(self, *args: Any, **kwargs: Any) -> Any:
        self.looks += 1
        return super().keep(*args, **kwargs)


@pytest.fixture
def at(tmp_path: Path) -> Callable[..., Path]:
    """A function that puts the text of some files into the keystore."""
    path = tmp_path / "keystore.pem"

    def put(*parts: Path) -> Path:
        new = path.with_suffix(".new")
        new.touch(0o600)
        new.write_text("".join(part.read_text() for part in parts))
        return new.replace(path)

    return put


def settings(keystore: Path, truststore: Path | str = "", **changed: Any) -> TlsSettings:
    given: dict[str, Any] = {
        "keystore": (str(keystore), "PEM"),
        "truststore": (str(truststore), "PEM"),
        "key_password_file": "",
        "protocols": ("TLSv1.2", "TLSv1.3"),
        "cipher_suites": (),
        "mapping_rules": "DEFAULT",
    }
    return read_tls(**{**given, **changed})


def password_file(folder: Path, password: str) -> str:
    file = folder / "password"
    file.touch(0o600)
    file.write_text(password + "\n")
    return str(file)


def keystore(threads: DiskThreads, read: TlsSettings) -> Keystore:
    return Keystore(read, threads, SystemClock(), LOOK_S)


def subject(store: Keystore, authority: Authority) -> dict[str, str]:
    """Return what a client sees of the broker's certificate."""
    listener = KafkaListener("SSL", HostPort("h", 1), None, "SSL")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(authority.certificate)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server)
    server = store.identity(listener).context().wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    seen: Any = client.getpeercert()
    return {name: text for part in seen["subject"] for name, text in part}


async def refusal(threads: DiskThreads, read: TlsSettings) -> str:
    with pytest.raises(OttlaError) as refused:
        await keystore(threads, read).start()
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    return refused.value.message


async def test_a_keystore_without_what_it_needs_is_refused(
    threads: DiskThreads, at: Callable[..., Path], authority: Authority, certificate: Certificate, tmp_path: Path
) -> None:
    other = authority.issue("other")
    key = encrypted(certificate.key, PASSWORD)
    bad: list[tuple[list[Path], dict[str, Any], str]] = [
        ([certificate.certificate], {}, "it has no private key"),
        ([certificate.key], {}, "it has no certificate that can be read"),
        ([other.key, certificate.certificate], {}, "its private key is not that of its first certificate"),
        ([key, certificate.certificate], {}, "its private key is encrypted, and ssl_key_password_file"),
        ([key, certificate.certificate], {"key_password_file": password_file(tmp_path, "not-it")}, "does not open it"),
    ]
    for parts, changed, words in bad:
        message = await refusal(threads, settings(at(*parts), **changed))
        assert words in message
        assert "not-it" not in message
    assert "it can't be read (No such file" in await refusal(threads, settings(tmp_path / "absent"))
    open_to_others = at(certificate.key, certificate.certificate)
    open_to_others.chmod(0o644)
    assert "other users can read the private key" in await refusal(threads, settings(open_to_others))


async def test_an_encrypted_key_is_opened_by_its_password(
    threads: DiskThreads,
    at: Callable[..., Path],
    authority: Authority,
    certificate: Certificate,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    path = at(encrypted(certificate.key, PASSWORD), certificate.certificate)
    store = keystore(threads, settings(path, key_password_file=password_file(tmp_path, PASSWORD)))
    with caplog.at_level(logging.DEBUG):
        await store.start()
        assert subject(store, authority) == {"commonName": "broker"}
        await store.stop()
    assert PASSWORD not in caplog.text


async def test_a_truststore_that_has_no_certificate_is_refused(
    threads: DiskThreads, at: Callable[..., Path], certificate: Certificate, tmp_path: Path
) -> None:
    trust = tmp_path / "ca.pem"
    trust.write_text("nothing")
    read = settings(at(certificate.both), trust)
    assert f"{trust} can't be used for TLS: it has no certificate that can be read" in await refusal(threads, read)


async def test_new_connections_get_the_new_certificate(
    threads: DiskThreads, at: Callable[..., Path], authority: Authority, certificate: Certificate
) -> None:
    store = keystore(threads, settings(at(certificate.both)))
    await store.start()
    assert subject(store, authority) == {"commonName": "broker"}
    at(authority.issue("renewed", "DNS:localhost").both)
    await until(lambda: subject(store, authority) == {"commonName": "renewed"})
    await store.stop()


async def test_a_new_file_that_can_not_be_used_is_reported_once_and_the_former_stays(
    at: Callable[..., Path],
    authority: Authority,
    certificate: Certificate,
    caplog: pytest.LogCaptureFixture,
) -> None:
    threads = CountingThreads()
    store = keystore(threads, settings(at(certificate.both)))
    await store.start()
    first = store.contexts
    for bad, words in (
        ((certificate.certificate,), "it has no private key"),
        ((authority.issue("expired", days=-1).both,), "its certificate has expired"),
    ):
        at(*bad)
        await until(lambda words=words: words in caplog.text)
        looks = threads.looks
        await until(lambda looks=looks: threads.looks > looks + 6)
    assert store.contexts is first
    assert subject(store, authority) == {"commonName": "broker"}
    at(authority.issue("good", "DNS:localhost").both)
    await until(lambda: subject(store, authority) == {"commonName": "good"})
    await store.stop()
    await threads.stop()
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == ["ERROR", "ERROR"]
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(("days", "hosts", "words"), [(-1, ["DNS:a"], "has expired"), (1, [], "has no subject alt")])
async def test_a_certificate_that_clients_will_reject_is_reported_at_the_start(
    threads: DiskThreads,
    at: Callable[..., Path],
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    days: int,
    hosts: list[str],
    words: str,
) -> None:
    store = keystore(threads, settings(at(authority.issue("odd", *hosts, days=days).both)))
    await store.start()  # the clock may be wrong, and clients may be lenient
    await store.stop()
    assert words in caplog.text


async def test_contexts_ask_for_certificates_as_their_listener_does(
    threads: DiskThreads, at: Callable[..., Path], authority: Authority, certificate: Certificate
) -> None:
    store = keystore(threads, settings(at(certificate.both), authority.certificate))
    await store.start()
    modes = {auth: store.contexts[auth].verify_mode for auth in ClientAuth}
    await store.stop()
    assert modes == {
        ClientAuth.NONE: ssl.CERT_NONE,
        ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
        ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
    }


def test_a_certificate_is_mapped_to_a_principal(authority: Authority, certificate: Certificate) -> None:
    read = settings(Path("k"), mapping_rules="RULE:^CN=(bro.*)$/$1/U")
    identity = Keystore(read, DiskThreads(), SystemClock()).identity(KafkaListener("SSL", HostPort("h", 1)))
    assert identity.principal(None) == "User:ANONYMOUS"
    assert identity.principal(certificate.der) == "User:BROKER"
    with pytest.raises(NoPrincipalError, match="no rule of ssl_principal_mapping_rules matches"):
        identity.principal(authority.issue("stranger").der)
    with pytest.raises(NoPrincipalError, match="has a form that can't be read"):
        identity.principal(b"garbage")


@pytest.mark.story("service-as-a-kafka-client")
@pytest.mark.parametrize("uri", ["ottla://broker/0", "OTTLA://Admin/x", "ottla://a-role-of-tomorrow/1"])
def test_the_certificate_of_a_service_names_no_client(authority: Authority, uri: str) -> None:
    identity = Keystore(settings(Path("k")), DiskThreads(), SystemClock()).identity(
        KafkaListener("SSL", HostPort("h", 1))
    )
    with pytest.raises(NoPrincipalError, match=f"certificate of a service, '{uri}'"):
        identity.principal(authority.issue("0", "DNS:localhost", f"URI:{uri}").der)
    of_another_system = authority.issue("1", "URI:spiffe://example.org/0").der
    assert identity.principal(of_another_system) == "User:CN=1"


def test_a_certificate_names_nobody_where_clients_log_in(certificate: Certificate) -> None:
    """In Kafka, no rule has to map the certificate of a client that logs in."""
    listener = KafkaListener("A", HostPort("h", 1), protocol="SASL_SSL", client_auth=ClientAuth.REQUIRED)
    read = settings(Path("k"), mapping_rules="RULE:^CN=nobody$/$0/")
    store = Keystore(read, DiskThreads(), SystemClock())
    assert store.identity(listener).principal(certificate.der) == "User:ANONYMOUS"
    with pytest.raises(NoPrincipalError):
        store.identity(listener._replace(protocol="SSL")).principal(certificate.der)
