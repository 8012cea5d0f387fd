"""Profiles: a file with clusters under names, whose mistakes are told with the place and without the passwords."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import LIMIT_S

import ottla
from ottla.client.security import password_commands
from ottla.client.security.names import merged_security
from ottla.client.security.passwords import MOST_BYTES
from ottla.client.security.profiles import load_profile, profiles_file
from ottla.errors import ConfigError, ErrorCode

PASSWORD = "open-sesame-17"
LOGIN = """
security.protocol = "SASL_SSL"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "alice"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.touch(0o600)
    return file


def failed(file: Path, name: str = "prod") -> str:
    """Return the message of the error, which has a remedy and no password."""
    with pytest.raises(ConfigError) as caught:
        load_profile(name, file).config()
    error = caught.value
    assert error.code == ErrorCode.INVALID_CONFIG
    assert error.hint
    assert PASSWORD not in f"{error}{error!r}{error.__cause__}"
    assert error.__suppress_context__ or error.__context__ is None
    return error.message


def printing(code: str) -> str:
    """Return the command, in TOML, that runs this code of Python."""
    return f"sasl.password.command = '''{sys.executable} -c \"{code}\"'''"


def test_a_profile_has_addresses_and_a_login(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    file.write_text(
        f"""
        [profiles.prod]
        "bootstrap.servers" = "kafka.example:9093"
        {LOGIN}
        sasl.password.env = "KAFKA_PASSWORD"
        ssl.truststore.location = "ca.pem"
        ssl.keystore.location = "/etc/client.pem"
        [profiles."other one"]
        bootstrap.servers = "localhost:9092"
        """
    )
    config = load_profile("prod", file).config()
    assert config.pop("bootstrap.servers") == "kafka.example:9093"
    security = merged_security(None, None, config)
    assert security.login == ottla.Scram("alice", PASSWORD)
    assert security.tls == ottla.Tls(ca=str(file.parent / "ca.pem"), certificate="/etc/client.pem")
    assert load_profile("other one", file).config() == {"bootstrap.servers": "localhost:9092"}


def test_a_file_of_services_may_have_profiles_too(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('[broker]\ndata_dir = "/data"\n[profiles.prod]\nbootstrap.servers = "k:1"\n')
    monkeypatch.setenv("OTTLA_CONFIG", str(file))
    assert load_profile("prod").settings == {"bootstrap.servers": "k:1"}
    monkeypatch.delenv("OTTLA_CONFIG")
    monkeypatch.setenv("HOME", "/home/alice")
    assert profiles_file() == Path("/home/alice/.config/ottla/config.toml")


def test_passwords_in_the_file_are_shown_nowhere(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(f'[profiles.prod]{LOGIN}sasl.password = "{PASSWORD}"')
    with caplog.at_level(logging.DEBUG, "ottla"):
        profile = load_profile("prod", file)
        assert profile.config()["sasl.password"] == ottla.Secret(PASSWORD)
        assert not caplog.messages
        file.chmod(0o644)
        load_profile("prod", file)
    assert PASSWORD not in f"{profile!r}{profile.config()!r}{caplog.text}"
    assert "other users can read it" in caplog.text


def test_a_file_without_a_password_may_be_read_by_all(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(f'[profiles.prod]{LOGIN}sasl.password.env = "KAFKA_PASSWORD"')
    file.chmod(0o644)
    load_profile("prod", file)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[profiles.prod", "is not valid TOML: "),
        ("[profile.prod]", "'profile' is unknown"),
        ('profiles = "prod"', "profiles is not a table"),
        ('[profiles]\nprod = "kafka:9092"', "the profile 'prod' is not a table"),
        ("[profiles.pord]", "has no profile 'prod'"),
        ("", "has no profile 'prod'"),
        ('[profiles.prod]\nsasl.usernam = "alice"', "profile 'prod': the setting 'sasl.usernam' is unknown"),
        ('[profiles.prod]\nlinger.ms = "5"', "profile 'prod': the setting 'linger.ms' is unknown"),
        ("[profiles.prod]\nsasl.password = 17", "profile 'prod': sasl.password is not a string"),
        (
            f"[profiles.prod]\nsasl.jaas.config = '{PASSWORD}'",
            "profile 'prod': sasl.jaas.config can't be set: set sasl.username and sasl.password instead",
        ),
        (f"[profiles.prod]{LOGIN}", "profile 'prod': SCRAM-SHA-512 needs sasl.password"),
        (f'[profiles.prod]{LOGIN}sasl.password.env = "NOT_SET_17"', "variable NOT_SET_17 is not set"),
        (f'[profiles.prod]\nsasl.password = "{PASSWORD}"', "config sasl.password and security.protocol=PLAINTEXT"),
        (
            f'[profiles.prod]\nsasl.password.env = "A"\nsasl.password.command = "{PASSWORD}"',
            "sasl.password.command and sasl.password.env contradict each other",
        ),
    ],
)
def test_a_mistake_in_the_file_is_one_error(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    message = failed(file)
    assert str(file) in message
    assert words in message


def test_a_near_name_is_suggested(file: Path) -> None:
    file.write_text("[profiles.production]\n[profiles.test]")
    with pytest.raises(ConfigError) as caught:
        load_profile("prodution", file)
    assert caught.value.hint == "did you mean production?"
    with pytest.raises(ConfigError) as caught:
        load_profile("x", file)
    assert caught.value.hint == "it has 'production', 'test'"


def test_a_file_that_can_not_be_read_is_one_error(tmp_path: Path) -> None:
    assert failed(tmp_path / "missing.toml").startswith(f"the profiles file {tmp_path}/missing.toml")
    assert failed(tmp_path) == f"{tmp_path} can't be read: Is a directory"
    (tmp_path / "binary.toml").write_bytes(b"\xff")
    assert failed(tmp_path / "binary.toml").endswith("is not valid TOML: it is not UTF-8")


# ---- commands --------------------------------------------------------------------------------------------------------


def test_a_command_prints_the_password(file: Path) -> None:
    file.write_text(f"[profiles.prod]{LOGIN}{printing(f'print(chr(111)+{PASSWORD[1:]!r})')}")
    profile = load_profile("prod", file)
    assert profile.runs_commands
    assert profile.config()["sasl.password"] == ottla.Secret(PASSWORD)
    assert PASSWORD not in repr(profile.config())


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sasl.password.command = '/no/such/program open-sesame-17'", "/no/such/program can't be run: No such file"),
        ("sasl.password.command = 'TOKEN=open-sesame-17 vault'", "begins with a variable, which only a shell"),
        ("sasl.password.command = ''", "the command can't be run: it is empty"),
        ("""sasl.password.command = 'pass "open-sesame-17'""", "can't be split into words: No closing quotation"),
        (printing(f"print({PASSWORD!r}); exit(3)"), "failed with exit code 3"),
        (printing("pass"), "the output of "),
        (printing(f"print({PASSWORD!r}); print(1)"), "has more than one line"),
        (printing(f"print({PASSWORD!r} * {MOST_BYTES})"), f"has more than {MOST_BYTES} bytes"),
    ],
)
def test_a_command_that_fails_is_one_error(file: Path, command: str, words: str) -> None:
    file.write_text(f"[profiles.prod]{LOGIN}{command}")
    assert words in failed(file)


def test_a_command_gets_nothing_of_the_programs_input(file: Path) -> None:
    """`ottla produce` reads its records there."""
    file.write_text(f"[profiles.prod]{LOGIN}sasl.password.command = \"sh -c 'cat; echo {PASSWORD}'\"")
    reads = f"load_profile('prod', Path({str(file)!r})).config(); print(sys.stdin.read())"
    program = f"import sys; from pathlib import Path; from ottla.connect import load_profile; {reads}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input="a record", capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.stdout, done.returncode) == ("a record\n", 0), done.stderr


def test_a_command_does_not_outlive_an_interruption(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[subprocess.Popen[bytes]] = []

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *arguments: object, **more: object) -> None:
            super().__init__(*arguments, **more)  # type: ignore[call-overload]  # as they came
            processes.append(self)

    monkeypatch.setattr(password_commands, "_read", interrupted)
    monkeypatch.setattr(subprocess, "Popen", Recorded)
    file.write_text(f"[profiles.prod]{LOGIN}sasl.password.command = 'sleep 300'")
    with pytest.raises(KeyboardInterrupt):
        load_profile("prod", file).config()
    with processes[0] as process:
        assert process.returncode == -signal.SIGKILL


def test_a_command_has_a_deadline_and_does_not_outlive_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its child keeps the pipe open, and is not waited for."""
    processes: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *arguments: object, **more: object) -> None:
            super().__init__(*arguments, start_new_session=True, **more)  # type: ignore[call-overload]  # as they came
            processes.append(self)

    monkeypatch.setattr(password_commands, "LIMIT_S", 0.5)
    monkeypatch.setattr(subprocess, "Popen", Recorded)
    file.write_text(f"[profiles.prod]{LOGIN}sasl.password.command = \"sh -c 'sleep 30 & wait'\"")
    began_at = time.monotonic()
    assert "sh did not finish within 0.5 s" in failed(file)
    assert time.monotonic() - began_at < LIMIT_S
    assert processes[0].returncode == -signal.SIGKILL
    os.killpg(processes[0].pid, signal.SIGKILL)  # the child
