"""How errors describe what is at an address that is no broker's."""

from __future__ import annotations

import pytest

from ottla.client import diagnose
from ottla.client.cluster import ClusterClient
from ottla.client.diagnose import CORRELATION_ID, diagnose_address
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.security.security import Security
from ottla.client.security.tls import Tls
from ottla.errors import NotABrokerError

OF_KAFKA = b"\0\0\0\x06" + CORRELATION_ID.to_bytes(4, "big") + b"\0\0"
OF_HTTP = b"HTTP/1.1 400 Bad Request"
OF_TLS = b"\x15\x03\x03\0\x02\x02\x46"
OF_GRPC = b"\0\0\x12\x04" + bytes(10)


@pytest.mark.parametrize(
    ("response", "words", "hopeless"),
    [
        (OF_KAFKA, "accepts connections but did not answer in time", False),
        (OF_HTTP, "is an HTTP port, not a broker's Kafka port (usually 9092)", True),
        (OF_TLS, "expects TLS: pass tls=True, or set security.protocol", True),
        (OF_GRPC, "is a gRPC port, not a broker's Kafka port (usually 9092)", True),
        (b"", "accepts connections but did not answer in time", False),
    ],
)
def test_another_port_is_named(response: bytes, words: str, hopeless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnose, "_first_bytes", lambda *_: response)
    monkeypatch.setattr(diagnose, "_hangs_up", lambda *_: False)
    found = diagnose_address("b:1")
    assert (found.message, found.hopeless) == (f"b:1 {words}", hopeless)


def test_a_port_that_hangs_up_on_a_request_expects_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnose, "_first_bytes", lambda *_: OF_KAFKA)
    monkeypatch.setattr(diagnose, "_hangs_up", lambda *_: True)
    found = diagnose_address("b:1")
    assert found.hopeless
    assert found.message == "b:1 expects a login (SASL): pass login=, or set security.protocol"


def test_a_port_that_hangs_up_on_a_client_with_a_certificate_may_not_accept_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In TLS 1.3 a broker may refuse a certificate after the client has finished the handshake."""
    monkeypatch.setattr(diagnose, "_first_bytes", lambda *_: OF_TLS)
    monkeypatch.setattr(diagnose, "_hangs_up", lambda *_: True)
    found = diagnose_address("b:1", Security(tls=Tls(certificate="client.pem")))
    words = "b:1 does not accept this client's certificate, or expects a login (SASL): see the broker's log"
    assert (found.message, found.hopeless) == (words, True)


def test_a_broker_that_is_going_down_does_not_expect_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    met = iter([OF_KAFKA])

    def first_bytes(*_: object) -> bytes:
        if (response := next(met, None)) is None:
            raise ConnectionRefusedError
        return response

    monkeypatch.setattr(diagnose, "_first_bytes", first_bytes)
    monkeypatch.setattr(diagnose, "_hangs_up", lambda *_: True)
    assert diagnose_address("b:1") == ("nothing listens at b:1", False, False)


def test_the_first_contact_names_the_port_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnose, "_first_bytes", lambda *_: OF_HTTP)
    cluster = ClusterClient(["127.0.0.1:1"], KafkaTransport("me"), connect_timeout=0.5)
    with pytest.raises(NotABrokerError) as caught:
        cluster.fetch_metadata(timeout=0.5)
    assert caught.value.message.endswith("127.0.0.1:1 is an HTTP port, not a broker's Kafka port (usually 9092)")
    assert "to the address of a running broker, such as localhost:9092" in caught.value.hint
    cluster.close()
