"""How a query's clients log in: each process finds the password itself, and nothing between them has it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.errors import ConfigError
from pyspark_ottla.access import Access
from pyspark_ottla.options import read_options, write_options
from pyspark_ottla.reading import RangeReader
from pyspark_ottla.source import COLUMNS

PASSWORD = "open-sesame-17"
LOGIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.username": "alice",
}
ALICE = ottla.Scram("alice", PASSWORD)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the password, and one with profiles that name it."""
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text(PASSWORD)
    login = "".join(f'{name.removeprefix("kafka.")} = "{value}"\n' for name, value in LOGIN.items())
    (tmp_path / "config.toml").write_text(
        f"""
[profiles.prod]
bootstrap.servers = "prod:9093"
{login}
sasl.password.file = "password"
[profiles.without-addresses]
{login}
sasl.password.file = "password"
[profiles.asking]
{login}
sasl.password.command = "pass show kafka"
"""
    )
    monkeypatch.setenv("OTTLA_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    return tmp_path


def access(**options: str) -> Access:
    """Return what both a source and a sink make of these options."""
    given = {name.replace("__", "."): value for name, value in options.items()}
    source = read_options({"subscribe": "t", **given}, streaming=False).access
    assert write_options({"topic": "t", **given}).access == source
    return source


def refused(**options: str) -> str:
    with pytest.raises(ConfigError) as caught:
        access(**options)
    assert caught.value.hint
    assert PASSWORD not in f"{caught.value}{caught.value.__cause__}"
    return str(caught.value)


def test_the_password_is_in_a_file_or_a_variable_of_each_process(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    for reference in (
        {"kafka.sasl.password.file": str(home / "password")},
        {"kafka.sasl.password.env": "KAFKA_PASSWORD"},
    ):
        found = access(**{"kafka.bootstrap.servers": "a:1"}, **LOGIN, **reference)
        assert found.arguments() == {"bootstrap": "a:1", "login": ALICE, "tls": None}
    monkeypatch.setenv("KAFKA_PASSWORD", "that of an executor")
    elsewhere = pickle.loads(pickle.dumps(found))
    assert elsewhere.security().login == ottla.Scram("alice", "that of an executor")
    monkeypatch.delenv("KAFKA_PASSWORD")
    with pytest.raises(ConfigError, match="the environment variable KAFKA_PASSWORD is not set"):
        elsewhere.arguments()


@pytest.mark.spark_option("profile")
def test_a_profile_has_it_all() -> None:
    found = access(profile="prod")
    assert found.arguments() == {"bootstrap": "prod:9093", "login": ALICE, "tls": None}
    assert access(profile="prod", kafka__bootstrap__servers=" prod:9093") == found
    assert access(profile="without-addresses", kafka__bootstrap__servers="a:1").bootstrap == "a:1"


def test_what_goes_to_executors_has_no_password(home: Path) -> None:
    password = str(home / "password")
    for options in (
        {"profile": "prod"},
        {"kafka.bootstrap.servers": "a:1", **LOGIN, "kafka.sasl.password.file": password},
    ):
        source: Any = read_options({"subscribe": "t", **options}, streaming=True)
        sink = write_options({"topic": "t", **options})
        for travelling in (RangeReader(source, COLUMNS), sink):
            assert travelling.__class__ is pickle.loads(pickle.dumps(travelling)).__class__
            assert PASSWORD.encode() not in pickle.dumps(travelling)
            assert PASSWORD not in repr(travelling)


@pytest.mark.parametrize(
    "name", ["kafka.sasl.password", "kafka.SASL.Password", "kafka.ssl.key.password", "kafka.sasl.jaas.config"]
)
def test_a_password_is_no_option(name: str) -> None:
    said = refused(**{"kafka.bootstrap.servers": "a:1", **LOGIN, name: PASSWORD})
    assert (
        f"{name.lower()} can't be an option, because Spark may write options to plans, event logs and checkpoints"
        in said
    )
    assert "password.file" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"profile": "prod", "kafka.bootstrap.servers": "evil:1"}, "profile and kafka.bootstrap.servers contradict"),
        ({"profile": "prod", **LOGIN}, "profile and kafka.security.protocol contradict each other"),
        ({"profile": "pord"}, "has no profile 'pord'"),
        ({"profile": "asking"}, "has a command for its password, which each of Spark's processes would run"),
        ({"profile": "without-addresses"}, "kafka.bootstrap.servers is missing"),
        ({"profile": ""}, "profile is empty"),
        ({"kafka.bootstrap.servers": "a:1", **LOGIN}, "SCRAM-SHA-512 needs sasl.password"),
        (
            {"kafka.bootstrap.servers": "a:1", **LOGIN, "kafka.sasl.password.file": "/missing"},
            "sasl.password.file: /missing can't be read",
        ),
        (
            {"kafka.bootstrap.servers": "a:1", **LOGIN, "kafka.sasl.password.command": "pass show kafka"},
            "config 'sasl.password.command' is unknown",
        ),
        ({"kafka.bootstrap.servers": "a:1", "kafka.sasl.username": "alice"}, "security.protocol=PLAINTEXT contradict"),
    ],
)
def test_what_can_not_work_is_said_before_any_task_runs(options: dict[str, str], words: str) -> None:
    assert words in refused(**options)
