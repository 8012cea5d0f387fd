"""The Kafka listeners of a broker: what its settings may say, and in which words a mistake is refused."""

from __future__ import annotations

import sys

import pytest

from ottla_broker.__main__ import main
from ottla_broker.config import BrokerConfig
from ottla_broker.listener_settings import Address, KafkaListener
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.process import lifecycle, service_config


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
        KafkaListener("INTERNAL", Address("0.0.0.0", 19092), Address("broker-0", 19092)),
        KafkaListener("EXTERNAL", Address("10.0.0.7", 9092), Address("localhost", 9092)),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, KafkaListener("PLAINTEXT", Address("127.0.0.1", 9092))),
        ({"kafka_port": "0", "host": "h"}, KafkaListener("PLAINTEXT", Address("h", 0))),
        (
            {"kafka_advertised": "kafka.example:19092"},
            KafkaListener("PLAINTEXT", Address("127.0.0.1", 9092), Address("kafka.example", 19092)),
        ),
        (
            {"kafka_advertised": "PLAINTEXT://[2001:db8::7]:0"},
            KafkaListener("PLAINTEXT", Address("127.0.0.1", 9092), Address("2001:db8::7", 0)),
        ),
        (
            {"kafka_listeners": "OUT://[::1]:9092", "kafka_advertised": "localhost:9092"},
            KafkaListener("OUT", Address("::1", 9092), Address("localhost", 9092)),
        ),
    ],
)
def test_one_listener_needs_no_name(given: dict[str, str], expected: KafkaListener) -> None:
    assert settings(**given).kafka == (expected,)


LOGINS = {"kafka_listeners": "SASL_PLAINTEXT://:9092", "sasl_credentials_file": "users.toml"}
TWO = "INTERNAL://0.0.0.0:19092,EXTERNAL://0.0.0.0:9092"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kafka_listeners": "0.0.0.0:9092"}, "'0.0.0.0:9092' has no name"),
        ({"kafka_listeners": "://0.0.0.0:9092"}, "begins with no name"),
        ({"kafka_listeners": "MY LISTENER://h:9092"}, "begins with no name"),
        ({"kafka_listeners": "SSL://0.0.0.0:9093"}, "asks for SSL, and listeners serve no TLS yet"),
        ({"kafka_listeners": "sasl_ssl://:9092"}, "asks for SASL_SSL, and listeners serve no TLS yet"),
        (
            {"kafka_listeners": "A://:9092", "kafka_listener_protocols": "A:SSL"},
            "A has SSL, and listeners serve no TLS",
        ),
        ({"kafka_listeners": "A://:9092", "kafka_listener_protocols": "A:TCP"}, "A has TCP, and it is no protocol"),
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
        ({"kafka_listeners": "A://h"}, "'A://h' has no port"),
        ({"kafka_listeners": "A://[::1]"}, "has no port"),
        ({"kafka_listeners": "A://h:"}, "has no port"),
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
    monkeypatch.setattr(sys, "argv", ["ottla-broker", "--kafka-listeners", "SSL://:9093"])
    assert main() == 2
    assert "listeners serve no TLS yet (INVALID_CONFIG); use SASL_PLAINTEXT, or PLAINTEXT or" in capsys.readouterr().err


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
