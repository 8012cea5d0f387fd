"""Passwords that settings refer to: found in files and variables, and shown neither in errors nor in warnings."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.client.security.names import merged_security
from ottla.client.security.passwords import MOST_BYTES, with_passwords
from ottla.errors import ConfigError

PASSWORD = "open-sesame-17"
SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    file.chmod(0o600)
    return file


def failed(config: dict[str, Any]) -> ConfigError:
    """Return the error, which has a remedy and no password."""
    with pytest.raises(ConfigError) as caught:
        merged_security(None, None, config)
    error = caught.value
    assert (
        PASSWORD
        not in f"{error} {error!r} {error.__cause__} {error.__context__ if not error.__suppress_context__ else ''}"
    )
    assert error.hint
    return error


def test_a_password_comes_from_a_file_or_a_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    for reference in ({"sasl.password.file": str(file)}, {"sasl.password.env": "KAFKA_PASSWORD"}):
        assert merged_security(None, None, SCRAM | reference).login == ottla.Scram("alice", PASSWORD)
    tls = {"ssl.keystore.location": "c.pem", "ssl.key.password.env": "KAFKA_PASSWORD"}
    assert merged_security(None, None, {"security.protocol": "SSL", **tls}).tls == ottla.Tls(
        certificate="c.pem", key_password=PASSWORD
    )


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_only_the_end_of_the_line_is_no_part_of_the_password(file: Path, end: str) -> None:
    file.write_bytes(f" {PASSWORD} {end}".encode())
    found = with_passwords({"sasl.password.file": str(file), "sasl.username": "alice"})
    assert found == {"sasl.username": "alice", "sasl.password": ottla.Secret(f" {PASSWORD} ")}


def test_a_configuration_without_references_is_as_it_was() -> None:
    config = {"sasl.password": PASSWORD, "sasl.username": "alice"}
    assert with_passwords(config) == config
    assert with_passwords({"sasl.password.file": None}) == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (PASSWORD.encode() + b"\nuser: alice\n", "has more than one line"),
        (PASSWORD.encode() + b"\xff", "is not UTF-8"),
        (PASSWORD.encode() + b"x" * MOST_BYTES, f"has more than {MOST_BYTES} bytes"),
    ],
)
def test_a_file_with_something_else_is_an_error(file: Path, content: bytes, words: str) -> None:
    file.write_bytes(content)
    assert failed(SCRAM | {"sasl.password.file": str(file)}).message == f"sasl.password.file: {file} {words}"


def test_a_file_or_variable_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    missing = failed(SCRAM | {"sasl.password.file": str(tmp_path / "missing")})
    assert "missing can't be read: No such file or directory" in missing.message
    unset = failed(SCRAM | {"sasl.password.env": "KAFKA_PASSWORD"})
    assert unset.message == "sasl.password.env: the environment variable KAFKA_PASSWORD is not set"


def test_a_path_that_can_not_be_is_an_error() -> None:
    assert failed(SCRAM | {"sasl.password.file": "a\0b"}).message == "sasl.password.file has a NUL"


def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    error = failed(SCRAM | {"sasl.password.file": str(tmp_path / "pipe")})
    assert "is not a regular file" in error.message


def test_a_password_has_one_place(file: Path) -> None:
    twice = failed(SCRAM | {"sasl.password.file": str(file), "sasl.password": PASSWORD})
    assert twice.message == "sasl.password and sasl.password.file contradict each other"
    twice = failed(SCRAM | {"sasl.password.file": str(file), "sasl.password.env": "X"})
    assert twice.message == "sasl.password.file and sasl.password.env contradict each other"
    with pytest.raises(ConfigError, match=r"login= and config sasl\.password"):
        merged_security(ottla.Scram("alice", PASSWORD), None, {"sasl.password.file": str(file)})
    with pytest.raises(ConfigError, match=r"config sasl\.password\.file and security\.protocol=SSL contradict"):
        merged_security(None, None, {"security.protocol": "SSL", "sasl.password.file": str(file)})


@pytest.mark.parametrize(
    ("mode", "owner", "warns"),
    [(0o600, 1000, False), (0o640, 1000, True), (0o604, 1000, True), (0o640, 0, False), (0o644, 0, True)],
)
def test_a_file_that_others_can_read_is_a_warning(
    file: Path, mode: int, owner: int, warns: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = os.stat_result([mode | 0o100000, 0, 0, 1, owner, owner, 15, 0, 0, 0])
    monkeypatch.setattr(Path, "stat", lambda *_, **__: status)
    with caplog.at_level(logging.WARNING, "ottla"):
        for _ in range(2):
            with_passwords({"sasl.password.file": str(file)})
    assert len(caplog.messages) == warns
    if warns:
        private = "640" if owner == 0 else "600"
        assert caplog.messages[0] == (
            f"{file} has a password, and other users can read it; run `chmod {private} {file}`"
        )
