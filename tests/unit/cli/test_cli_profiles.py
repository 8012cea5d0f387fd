"""`ottla --profile NAME`: where a command goes, how it logs in, and what counts if it is told twice."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

import ottla
from ottla.admin import admin as admin_module
from ottla.client.security.names import merged_security
from ottla.client.security.security import Security
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_cli import connection, settings
from ottla_cli.completion import complete_topic
from ottla_cli.connection import open_admin
from ottla_cli.failures import sentence
from ottla_cli.main import run
from ottla_cli.settings import Settings

PASSWORD = "open-sesame-17"
FILE = f"""
[profiles.prod]
bootstrap.servers = "prod:9093"
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "PLAIN"
sasl.username = "alice"
sasl.password = "{PASSWORD}"

[profiles.test]
bootstrap.servers = "test:9092"
"""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "config.toml"
    file.touch(0o600)
    file.write_text(FILE)
    monkeypatch.setenv("OTTLA_CONFIG", str(file))
    monkeypatch.delenv("OTTLA_PROFILE", raising=False)
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    settings.profile_config.cache_clear()
    return file


@pytest.fixture
def admins(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, dict[str, Any]]]:
    """What each Admin was made with. None of them gets anywhere."""
    made: list[tuple[str | None, dict[str, Any]]] = []

    def make(bootstrap: str | None, config: dict[str, Any]) -> SimpleNamespace:
        made.append((bootstrap, config))
        raise error_from_code(ErrorCode.NETWORK_EXCEPTION, "that is enough")

    monkeypatch.setattr(connection, "_refuses", lambda address: False)
    monkeypatch.setattr(admin_module, "Admin", make)
    return made


def security(config: dict[str, Any]) -> Security:
    return merged_security(None, None, {name: v for name, v in config.items() if name.startswith(("s", "ssl"))})


def test_a_profile_is_on_either_side_of_the_command_or_in_the_environment(
    admins: list[tuple[str | None, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(shlex.split("--profile prod topic ls"))
    run(shlex.split("--profile test topic ls --profile prod"))
    monkeypatch.setenv("OTTLA_PROFILE", "prod")
    run(shlex.split("topic ls"))
    assert [config["bootstrap.servers"] for _, config in admins] == ["prod:9093"] * 3
    run(shlex.split("--profile test topic ls"))
    assert admins[-1][1]["bootstrap.servers"] == "test:9092"
    for bootstrap, config in admins[:3]:
        assert bootstrap is None
        assert security(config).login == ottla.Plain("alice", PASSWORD)


def test_a_profile_counts_more_than_the_default_address_and_options_count_more_than_it(
    admins: list[tuple[str | None, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "elsewhere:9092")
    monkeypatch.setenv("KAFKA_PASSWORD", "another")
    assert Settings(profile="prod").addresses == "prod:9093"
    run(shlex.split("--profile prod -b near:1 topic ls"))
    bootstrap, config = admins[0]
    assert bootstrap == "near:1"
    assert "bootstrap.servers" not in config
    assert security(config).login == ottla.Plain("alice", PASSWORD)
    run(shlex.split("--profile prod topic ls -X sasl.username=bob -X sasl.password.env=KAFKA_PASSWORD"))
    assert security(admins[1][1]).login == ottla.Plain("bob", "another")


def test_a_password_that_an_option_replaces_is_not_looked_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSET", raising=False)
    file.write_text(FILE.replace(f'password = "{PASSWORD}"', 'password.env = "UNSET"'))
    found = Settings(profile="prod", client_config={"sasl.password": "mine"})
    assert found.security.login == ottla.Plain("alice", "mine")
    file.write_text(FILE.replace(f'password = "{PASSWORD}"', "password.command = 'false'"))
    found = Settings(profile="prod", client_config={"sasl.password": "yours"})
    assert found.security.login == ottla.Plain("alice", "yours")
    file.write_text(FILE.replace('sasl.username = "alice"', ""))
    found = Settings(profile="prod", client_config={"sasl.username": "bob"})
    assert found.security.login == ottla.Plain("bob", PASSWORD)


def test_the_profile_of_the_environment_is_for_its_own_addresses_and_can_be_turned_off(
    admins: list[tuple[str | None, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_PROFILE", "prod")
    run(shlex.split("-b near:1 topic ls"))
    run(shlex.split("--profile '' topic ls"))
    assert admins == [("near:1", {"request.timeout.ms": 10_000.0}), (None, {"request.timeout.ms": 10_000.0})]


@pytest.mark.story("password-for-another-address")
def test_an_address_in_a_setting_does_not_get_the_password_of_the_environment(
    admins: list[tuple[str | None, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_PROFILE", "prod")
    run(shlex.split("-X bootstrap.servers=other:1 topic ls"))
    ((_, config),) = admins
    assert config == {"bootstrap.servers": "other:1", "request.timeout.ms": 10_000.0}


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.password"])
def test_a_password_in_the_command_line_is_warned_of(
    admins: list[tuple[str | None, dict[str, Any]]], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["-X", f"{name}=hunter2", "topic", "ls"])
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert f"can read {name} in the list of processes" in warning
    assert f"-X {name}.file=FILE or -X {name}.env=VARIABLE" in warning
    assert "hunter2" not in warning
    run(["-X", f"{name}.file=/nowhere", "topic", "ls"])
    assert "warning" not in capsys.readouterr().err


def test_a_mistyped_setting_is_not_shown_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-X", "sasl.password:hunter2", "topic", "ls"]) == 2
    said = capsys.readouterr().err
    assert "'sasl.password'… is not of the form name=value" in said
    assert "hunter2" not in said


def test_the_clients_of_every_command_log_in(
    admins: list[tuple[str | None, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command may leave out settings of another client, but not those of the login."""
    with pytest.raises(OttlaError):
        open_admin(Settings(profile="prod", client_config={"linger.ms": "5"}), strict=False)
    config = admins[0][1]
    assert "linger.ms" not in config
    assert security(config).login == ottla.Plain("alice", PASSWORD)
    mirrors: list[dict[str, Any]] = []

    def client(*_: Any, **arguments: Any) -> None:
        mirrors.append(arguments)
        raise error_from_code(ErrorCode.NETWORK_EXCEPTION, "that is enough")

    monkeypatch.delenv("OTTLA_MIRROR", raising=False)
    monkeypatch.setattr("ottla.mirror.client.MirrorClient", client)
    run(shlex.split("mirror status --profile prod"))
    assert (mirrors[0]["bootstrap"], mirrors[0]["login"]) == ("prod:9093", ottla.Plain("alice", PASSWORD))


@pytest.mark.parametrize(
    ("line", "text", "words"),
    [
        ("--profile pord topic ls", FILE, "has no profile 'pord'; did you mean prod?"),
        ("--profile prod topic ls", None, "does not exist"),
        ("--profile prod topic ls", "[profiles", "is not valid TOML"),
        (
            "--profile prod topic ls",
            "[profiles.prod]\nsasl.user='alice'",
            "'sasl.user' is unknown; the closest name is ",
        ),
    ],
)
def test_a_mistake_is_one_line_and_a_usage_error(
    line: str, text: str | None, words: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.unlink() if text is None else file.write_text(text)
    assert run(shlex.split(line)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error
    assert PASSWORD not in error


def test_a_command_that_needs_no_cluster_needs_no_profile(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file.write_text("[profiles")
    monkeypatch.setenv("OTTLA_PROFILE", "prod")
    monkeypatch.setenv("OTTLA_DIR", str(tmp_path))
    assert run(["status"]) == 4, "nothing runs there"


def test_a_command_for_the_password_runs_once_and_not_for_a_completion(
    file: Path, tmp_path: Path, admins: list[tuple[str | None, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"import pathlib; pathlib.Path({str(tmp_path / 'runs')!r}).open('a').write('x'); print({PASSWORD!r})"
    command = f'{sys.executable} -c "{code}"'
    file.write_text(FILE.replace(f'password = "{PASSWORD}"', f"password.command = '''{command}'''"))
    monkeypatch.setenv("OTTLA_PROFILE", "prod")
    assert complete_topic(typer.Context(typer.main.get_command(typer.Typer(callback=lambda: None))), "") == []
    assert not (tmp_path / "runs").exists()
    found = Settings(profile="prod")
    assert found.config == found.config
    assert found.config["sasl.password"] == ottla.Secret(PASSWORD)
    assert (tmp_path / "runs").read_text() == "x"


def test_errors_of_logins_are_told_in_the_words_of_the_command_line() -> None:
    """A user of the command line has no arguments `login=` and `tls=`."""
    for code in (ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.TLS_HANDSHAKE_FAILED):
        for message in (
            "a:1 expects a login (SASL): pass login=, or set security.protocol",
            "a:1 expects TLS: pass tls=True, or set security.protocol",
            "the port expects no login (SASL), but login= is set",
            "a:1 speaks Kafka's protocol without TLS, but tls= is set",
        ):
            said = sentence(error_from_code(code, message))
            assert "login=" not in said
            assert "tls=" not in said


def test_a_verification_reads_each_cluster_by_its_own_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[dict[str, Any]] = []

    class Client:
        def __enter__(self) -> Client:
            return self

        def __exit__(self, *error: object) -> None: ...

        def verify(self, flow: str, topics: list[str], **arguments: Any) -> list[Any]:
            called.append(arguments)
            return []

    monkeypatch.setattr("ottla_cli.commands.mirror._client", lambda settings, address: Client())
    assert run(shlex.split("mirror verify 'east->west' --source-profile prod --target-profile test")) == 0
    assert security(called[0]["source"]).login == ottla.Plain("alice", PASSWORD)
    assert called[0]["target"] == {"bootstrap.servers": "test:9092"}
    assert run(shlex.split("mirror verify 'east->west'")) == 0
    assert called[1]["source"] == called[1]["target"] == {}
