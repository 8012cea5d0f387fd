"""The Kafka listeners of a broker: what its settings may say, and in which words a mistake is refused."""

from __future__ import annotations

import sys

import pytest

from ottla_broker.__main__ import main
from ottla_broker.config import BrokerConfig
from ottla_broker.listener_settings import KafkaListener
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.host_port import HostPort
from ottla_core.process import lifecycle, service_config
from ottla_core.security.tls_settings import ClientAuth


def settings(**environment: str) -> BrokerConfig:
    return service_config.load(
        BrokerConfig, "broker", [], {f"OTTLA_BROKER__{k.upper()}": v for k, v in environment.items()}
    )


@pytest.mark.feature(135)
def test_listeners_are_spelled_as_in_kafka() -> None:
    told = settings(
        kafka_listeners="internal://0.0.0.0:19092, external://:9092",
        kafka_advertised="external://localhost:9092,INTERNAL://broker-0:19092",
        host="10.0.0.7",
    )
    assert told.kafka == (
        KafkaListener("INTERNAL", HostPort("0.0.0.0", 19092), HostPort("broker-0", 19092)),
        KafkaListener("EXTERNAL", HostPort("10.0.0.7", 9092), HostPort("localhost", 9092)),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, KafkaListener("PLAINTEXT", HostPort("127.0.0.1", 9092))),
        ({"kafka_port": "0", "host": "h"}, KafkaListener("PLAINTEXT", HostPort("h", 0))),
        (
            {"kafka_advertised": "kafka.example:19092"},
            KafkaListener("PLAINTEXT", HostPort("127.0.0.1", 9092), HostPort("kafka.example", 19092)),
        ),
        (
            {"kafka_advertised": "PLAINTEXT://[2001:db8::7]:0"},
            KafkaListener("PLAINTEXT", HostPort("127.0.0.1", 9092), HostPort("2001:db8::7", 0)),
        ),
        (
            {"kafka_listeners": "OUT://[::1]:9092", "kafka_advertised": "localhost:9092"},
            KafkaListener("OUT", HostPort("::1", 9092), HostPort("localhost", 9092)),
        ),
    ],
)
def test_one_listener_needs_no_name(given: dict[str, str], expected: KafkaListener) -> None:
    assert settings(**given).kafka == (expected,)


LOGINS = {"kafka_listeners": "SASL_PLAINTEXT://:9092", "sasl_credentials_file": "users.toml"}
TLS = {"kafka_listeners": "SSL://:9092", "ssl_keystore_location": "broker.pem"}
OF_TLS12 = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
TWO = "INTERNAL://0.0.0.0:19092,EXTERNAL://0.0.0.0:9092"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kafka_listeners": "0.0.0.0:9092"}, "'0.0.0.0:9092' has no name"),
        ({"kafka_listeners": "://0.0.0.0:9092"}, "begins with no name"),
        ({"kafka_listeners": "MY LISTENER://h:9092"}, "begins with no name"),
        ({"kafka_listeners": "TLS://0.0.0.0:9093"}, "asks for TLS, which is no protocol of Kafka's"),
        ({"kafka_listeners": "SSL://0.0.0.0:9093"}, "a listener has TLS, and there is no certificate"),
        ({"kafka_listeners": "A://:9092", "kafka_listener_protocols": "A:SSL"}, "and there is no certificate"),
        ({**TLS, "ssl_keystore_type": "JKS"}, "ssl_keystore_type is 'JKS', and the broker reads PEM alone"),
        ({**TLS, "ssl_truststore_type": "PKCS12"}, "ssl_truststore_type is 'PKCS12'"),
        ({**TLS, "ssl_client_auth": "maybe"}, "'maybe' is no way to ask for certificates"),
        ({**TLS, "ssl_client_auth": "OTHER:required"}, "there is no listener OTHER with TLS"),
        ({**TLS, "ssl_client_auth": "required"}, "SSL asks for certificates (ssl_client_auth), and none would be"),
        ({**TLS, "ssl_enabled_protocols": "TLSv1.2,TLSv1.1"}, "ssl_enabled_protocols has 'TLSv1.1'"),
        ({**TLS, "ssl_enabled_protocols": ","}, "ssl_enabled_protocols is empty"),
        ({**TLS, "ssl_cipher_suites": "TLS_RSA_WITH_AES_128_CBC_SHA"}, "which is not served"),
        ({**TLS, "ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, "some ciphers of TLS 1.3"),
        (
            {**TLS, "ssl_cipher_suites": OF_TLS12, "ssl_enabled_protocols": "TLSv1.3"},
            "has no cipher for ssl_enabled_protocols",
        ),
        ({**TLS, "ssl_principal_mapping_rules": "RULE:a"}, "ssl_principal_mapping_rules has 'RULE:a': it is no rule"),
        (
            {**LOGINS, "kafka_listeners": "SASL_SSL://:1,SASL_PLAINTEXT://:2", "sasl_enabled_mechanisms": "PLAIN"},
            "PLAIN, which sends passwords in clear, and a listener has SASL_PLAINTEXT",
        ),
        ({"kafka_listeners": "A://:9092", "kafka_listener_protocols": "A:TCP"}, "A has TCP, which is no protocol"),
        ({"kafka_listeners": "A://:9092", "kafka_listener_protocols": "A"}, "'A' is not NAME:PROTOCOL"),
        ({"kafka_listeners": "A://:9092", "kafka_listener_protocols": "a:PLAINTEXT,A:SASL_PLAINTEXT"}, "has A twice"),
        (
            {"kafka_listeners": TWO, "kafka_listener_protocols": "EXTERNLA:SASL_PLAINTEXT"},
            "no protocol for the listener",
        ),
        ({**LOGINS, "sasl_credentials_file": ""}, "a listener expects a login, and there are no credentials"),
        ({**LOGINS, "sasl_enabled_mechanisms": "GSSAPI"}, "'GSSAPI' is not served"),
        ({**LOGINS, "sasl_enabled_mechanisms": ","}, "sasl_enabled_mechanisms is empty"),
        ({**LOGINS, "sasl_enabled_mechanisms": "SCRAM-SHA-256,SCRAM-SHA-256"}, "or has a mechanism twice"),
        ({**LOGINS, "sasl_enabled_mechanisms": "SCRAM-SHA-256,PLAIN"}, "PLAIN, which sends passwords in clear"),
        ({**LOGINS, "connection_failed_authentication_delay_ms": "-1"}, "is less than 0"),
        ({"kafka_listeners": "A://h"}, "kafka_listeners: 'h' is not an address: it has no port"),
        ({"kafka_listeners": "A://[::1]"}, "has no port"),
        ({"kafka_listeners": "A://h:"}, "has no port"),
        ({"kafka_listeners": "A://2001:db8::1"}, "'2001:db8::1' is not an address"),
        ({"kafka_listeners": "A://h:kafka"}, "has no port but 'kafka'"),
        ({"kafka_listeners": "A://h:65536"}, "has no port but '65536'"),
        ({"kafka_listeners": "A://h:9092,a://h:9093"}, "kafka_listeners has A twice"),
        ({"kafka_listeners": "A://h:9092,B://i:9092"}, "listener A and the Kafka listener B have the same port 9092"),
        ({"kafka_listeners": "A://h:9650"}, "port, for gRPC, and the Kafka listener A have the same port 9650"),
        ({"kafka_port": "9750"}, "admin_port and the Kafka listener PLAINTEXT have the same port 9750"),
        ({"kafka_listeners": TWO, "kafka_port": "9093"}, "kafka_port=9093 can't be set together with kafka_listeners"),
        ({"kafka_listeners": TWO, "kafka_advertised": "localhost:9092"}, "names no listener"),
        ({"kafka_listeners": TWO, "kafka_advertised": "OUTSIDE://h:9092"}, "there is no listener OUTSIDE"),
        ({"kafka_advertised": "EXTERNAL://h:9092"}, "there is no listener EXTERNAL"),
        ({"kafka_advertised": "0.0.0.0:9092"}, "PLAINTEXT://0.0.0.0:9092 names no host that clients can connect to"),
        ({"kafka_advertised": "[::]:9092"}, "names no host that clients can connect to"),
        ({"kafka_advertised": ":9092"}, "names no host that clients can connect to"),
        ({"kafka_advertised": "kafka.example"}, "has no port"),
        ({"kafka_advertised": "h:1,i:2"}, "kafka_advertised has PLAINTEXT twice"),
    ],
)
def test_a_mistake_is_named_before_the_broker_starts(given: dict[str, str], words: str) -> None:
    with pytest.raises(OttlaError) as refused:
        settings(**given)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert words in refused.value.message
    assert refused.value.hint


def test_so_is_it_by_the_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(lifecycle, "run", lambda build: 0)
    monkeypatch.setattr(sys, "argv", ["ottla-broker", "--kafka-listeners", "HTTPS://:9093"])
    assert main() == 2
    assert "no protocol of Kafka's (INVALID_CONFIG); use SSL or SASL_SSL for TLS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("protocols", "client_auth", "expected"),
    [
        ("INTERNAL:SSL,EXTERNAL:SASL_SSL", "none", [ClientAuth.NONE, ClientAuth.NONE]),
        # As in Kafka, the login says who the client is, so only a listener's own entry counts there.
        ("INTERNAL:SSL,EXTERNAL:SASL_SSL", "required", [ClientAuth.REQUIRED, ClientAuth.NONE]),
        ("INTERNAL:SSL,EXTERNAL:SASL_SSL", "EXTERNAL:required", [ClientAuth.NONE, ClientAuth.REQUIRED]),
        ("INTERNAL:SSL,EXTERNAL:SSL", "required, external:REQUESTED", [ClientAuth.REQUIRED, ClientAuth.REQUESTED]),
        ("INTERNAL:PLAINTEXT,EXTERNAL:SSL", "required", [ClientAuth.NONE, ClientAuth.REQUIRED]),
    ],
)
def test_the_listener_decides_who_shows_a_certificate(
    protocols: str, client_auth: str, expected: list[ClientAuth]
) -> None:
    read = settings(
        **{**TLS, **LOGINS, "kafka_listeners": TWO},
        kafka_listener_protocols=protocols,
        ssl_client_auth=client_auth,
        ssl_truststore_location="ca.pem",
    )
    assert [listener.client_auth for listener in read.kafka] == expected


@pytest.mark.parametrize(
    ("given", "least", "most", "ciphers"),
    [
        ({}, "TLSv1.2", "TLSv1.3", ""),
        ({"ssl_enabled_protocols": "TLSv1.3"}, "TLSv1.3", "TLSv1.3", ""),
        (
            {"ssl_cipher_suites": OF_TLS12},  # Kafka's lists have the ciphers of all versions
            "TLSv1.2",
            "TLSv1.2",
            "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
    ],
)
def test_settings_limit_the_versions_and_the_ciphers(
    given: dict[str, str], least: str, most: str, ciphers: str
) -> None:
    tls = settings(**TLS, **given).tls
    assert tls is not None
    assert (tls.least_version, tls.most_version, tls.ciphers) == (least, most, ciphers)


def test_plain_needs_no_permission_where_every_login_has_tls() -> None:
    read = settings(**{**TLS, **LOGINS, "kafka_listeners": "SASL_SSL://:9092"}, sasl_enabled_mechanisms="PLAIN")
    assert [listener.has_tls and listener.expects_login for listener in read.kafka] == [True]


@pytest.mark.parametrize(
    ("given", "protocols"),
    [
        ({"kafka_listeners": TWO}, ["PLAINTEXT", "PLAINTEXT"]),
        ({"kafka_listeners": "sasl_plaintext://:9092,INTERNAL://:9093"}, ["SASL_PLAINTEXT", "PLAINTEXT"]),
        (
            {"kafka_listeners": TWO, "kafka_listener_protocols": "internal:plaintext, EXTERNAL:sasl_plaintext,X:SSL"},
            ["PLAINTEXT", "SASL_PLAINTEXT"],
        ),
        ({"kafka_listener_protocols": "PLAINTEXT:SASL_PLAINTEXT"}, ["SASL_PLAINTEXT"]),
        (
            {"kafka_listeners": "SASL_PLAINTEXT://:9092,A://:9093", "kafka_listener_protocols": "A:PLAINTEXT"},
            ["SASL_PLAINTEXT", "PLAINTEXT"],
        ),
    ],
)
def test_protocols_are_those_of_the_map_or_of_the_names(given: dict[str, str], protocols: list[str]) -> None:
    told = settings(**given, sasl_credentials_file="users.toml").kafka
    assert [listener.protocol for listener in told] == protocols
    assert [listener.expects_login for listener in told] == [protocol == "SASL_PLAINTEXT" for protocol in protocols]


def test_plain_without_tls_has_to_be_asked_for() -> None:
    enabled = settings(**LOGINS, sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-512", sasl_plain_without_tls="true")
    assert enabled.sasl_enabled_mechanisms == ("PLAIN", "SCRAM-SHA-512")


@pytest.mark.parametrize(
    ("listeners", "mechanisms", "warned_of"),
    [
        ("SASL_PLAINTEXT://:9092", "PLAIN,SCRAM-SHA-512", "SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT://:9092", "SCRAM-SHA-512", ""),
        ("SASL_SSL://:9092,PLAINTEXT://:9093", "PLAIN", ""),
        ("SASL_SSL://:9092,SASL_PLAINTEXT://:9093", "PLAIN", "SASL_PLAINTEXT"),
    ],
)
def test_passwords_in_clear_are_warned_of(listeners: str, mechanisms: str, warned_of: str) -> None:
    given = {**TLS, **LOGINS, "kafka_listeners": listeners, "sasl_enabled_mechanisms": mechanisms}
    warnings = settings(**given, sasl_plain_without_tls="true").warnings
    assert len(warnings) == bool(warned_of)
    assert all(f"at {warned_of}," in warning for warning in warnings)
