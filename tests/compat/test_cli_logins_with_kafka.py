"""`ottla --profile` with Apache Kafka that expects TLS and a login: every kind of command, and no password anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from secured_kafka import USERS, SecuredKafka, private_file
from tests.compat.cells import DIFFERS
from waiting import LIMIT_S

TOPIC = "orders"


class Ran(NamedTuple):
    code: int
    output: str
    messages: str


Ottla = Callable[..., Ran]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    kafka = SecuredKafka(tmp_path_factory.mktemp("kafka"), settings={"super.users": "User:ANONYMOUS;User:alice"})
    with kafka.server:
        yield kafka


@pytest.fixture(scope="module")
def ottla(kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Ottla:
    """Runs `ottla` in a process with a file of profiles."""
    folder = tmp_path_factory.mktemp("config")
    file = folder / "config.toml"
    private_file(folder / "password", USERS["alice"])
    bootstrap = kafka.server.bootstrap_of("SASL_SSL")
    file.write_text(
        f"""
        [profiles.prod]
        bootstrap.servers = "{bootstrap}"
        security.protocol = "SASL_SSL"
        sasl.mechanism = "SCRAM-SHA-512"
        sasl.username = "alice"
        sasl.password.file = "password"
        ssl.truststore.location = "{kafka.authority.certificate}"
        [profiles.wrong]
        bootstrap.servers = "{bootstrap}"
        security.protocol = "SASL_SSL"
        sasl.mechanism = "PLAIN"
        sasl.username = "alice"
        sasl.password.env = "WRONG"
        ssl.truststore.location = "{kafka.authority.certificate}"
        [profiles.without-login]
        bootstrap.servers = "{bootstrap}"
        security.protocol = "SSL"
        ssl.truststore.location = "{kafka.authority.certificate}"
        [profiles.without-tls]
        bootstrap.servers = "{bootstrap}"
        """
    )
    environment = {**os.environ, "OTTLA_CONFIG": str(file), "WRONG": USERS["eve"], "OTTLA_DEBUG": ""}

    def run(*arguments: str, profile: str = "prod", typed: str = "", debug: str = "") -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", "--profile", profile, *arguments],
            env=environment | {"OTTLA_DEBUG": debug},
            input=typed,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert not [secret for secret in USERS.values() if secret in done.stdout + done.stderr]
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@DIFFERS.cell
def test_every_kind_of_command_works_with_a_profile(ottla: Ottla) -> None:
    assert ottla("topic", "create", TOPIC, "-p", "2").code == 0
    assert ottla("produce", TOPIC, typed="a\nb\n").messages.endswith("2 records to orders\n")
    assert ottla("consume", TOPIC).output.split() == ["a", "b"]
    assert ottla("consume", TOPIC, "--group", "readers", "--from", "start", "-n", "2").output.split() == ["a", "b"]
    for arguments in (
        ("topic", "show", TOPIC),
        ("topic", "ls"),
        ("partition", "ls"),
        ("config", "get", "-t", TOPIC),
        ("group", "show", "readers"),
        ("txn", "ls"),
        ("cluster", "brokers"),
        ("bench", "produce", TOPIC, "-n", "10"),
        ("bench", "consume", TOPIC, "-n", "10"),
    ):
        ran = ottla(*arguments)
        assert ran.code == 0, (arguments, ran)
        assert "Traceback" not in ran.messages


@DIFFERS.cell
def test_doctor_dials_as_the_profile_says(ottla: Ottla) -> None:
    found = ottla("doctor", "-o", "json")
    assert found.code == 0, found
    assert [item["state"] for item in json.loads(found.output)["items"]] == ["ok"]
    address = json.loads(found.output)["items"][0]["address"]
    wrong = ottla("doctor", address, profile="wrong")
    assert wrong.code == 1
    assert "the broker rejected the login by PLAIN" in wrong.messages
    without = ottla("doctor", address, profile="without-tls")
    assert f"{address} requires TLS; use a --profile with TLS" in without.messages


@DIFFERS.cell
@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("wrong", "the broker rejected the login by PLAIN: "),
        ("without-login", "expects a login (SASL): use a --profile that logs in"),
        ("without-tls", "expects TLS: use a --profile with TLS"),
    ],
)
def test_a_profile_that_does_not_fit_is_one_error(ottla: Ottla, profile: str, words: str) -> None:
    for arguments in (("topic", "ls"), ("consume", TOPIC), ("produce", TOPIC)):
        ran = ottla(*arguments, profile=profile)
        assert ran.code == 1, ran
        assert words in ran.messages
        assert ran.messages.count("\n") == 1, ran.messages
        assert "login=" not in ran.messages
        assert "tls=" not in ran.messages


@DIFFERS.cell
def test_not_even_the_sdks_whole_log_has_the_password(ottla: Ottla) -> None:
    ran = ottla("topic", "ls", debug="1")
    assert ran.code == 0
    assert ottla("topic", "ls", profile="wrong", debug="1").code == 1
