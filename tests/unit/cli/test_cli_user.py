"""`ottla user`, over a fake Admin: where passwords come from, and what is asked and warned of."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from cli_fakes import ottla, sit

from ottla.admin.users import UserInfo
from ottla.errors import ErrorCode, error_from_code
from ottla_cli.commands import user

BOTH = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class FakeAdmin:
    """`passwords` are by user and mechanism. The brokers have no settings that anybody may see."""

    def __init__(self) -> None:
        self.passwords: dict[tuple[str, Any], str] = {}
        self.users = self.cluster = self.acls = self

    def __enter__(self) -> FakeAdmin:
        return self

    def __exit__(self, *error: object) -> None: ...

    def exists(self, name: str) -> bool:
        return any(known == name for known, _ in self.passwords)

    def set_password(self, name: str, password: Any, *, mechanisms: Any, iterations: int) -> None:
        assert iterations == 4096
        self.passwords |= {(name, mechanism): password.reveal() for mechanism in mechanisms}

    def list(self, *_: object) -> list[Any]:
        names = dict.fromkeys(name for name, _ in self.passwords)
        return [UserInfo(name, {m: 4096 for known, m in self.passwords if known == name}) for name in names]

    def describe(self, *names: str) -> Any:
        if not names:
            raise error_from_code(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not yours")
        found = {each.name: each for each in self.list()}
        return [found[name] for name in names]

    def delete(self, name: str, *, mechanisms: Any, if_missing: str) -> None:
        for mechanism in mechanisms or BOTH:
            self.passwords.pop((name, mechanism), None)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    admin = FakeAdmin()
    monkeypatch.setattr(user, "open_admin", lambda settings: admin)
    return admin


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False, buffer=io.BytesIO(data)))


def test_a_listing_without_the_calling_user_says_where_that_user_is(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECRET", "s")
    as_admin = "user ls -X security.protocol=SASL_SSL -X sasl.mechanism=SCRAM-SHA-256 -X sasl.username=admin"
    as_admin += " -X sasl.password.env=SECRET"
    where = "you are admin, who is in a broker's sasl_credentials_file and therefore not listed"
    assert ottla(as_admin) == 0
    none = "the cluster keeps no users yet; create one with `ottla user add`"
    assert capsys.readouterr().err.splitlines() == [none, where]
    admin.passwords = {("carol", BOTH[0]): "p"}
    assert ottla(as_admin) == 0
    assert capsys.readouterr().err.splitlines() == [where]
    admin.passwords |= {("admin", BOTH[0]): "p"}
    assert ottla(as_admin) == ottla("user ls") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("data", [b"a secret of mine", b"a secret of mine\n", b"a secret of mine\r\n"])
def test_a_password_comes_from_one_line_of_standard_input(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    pipe(monkeypatch, data)
    assert ottla("user add carol --password-stdin") == 0
    assert admin.passwords == dict.fromkeys((("carol", mechanism) for mechanism in BOTH), "a secret of mine")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "standard input is empty"),
        (b"one\ntwo\n", "standard input has more than one line"),
        (b"\xff", "standard input is not UTF-8"),
        (b"x" * 70_000, "standard input has more than 65536 bytes"),
    ],
)
def test_what_is_no_password_is_refused(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: bytes, words: str
) -> None:
    pipe(monkeypatch, data)
    assert ottla("user add carol --password-stdin") == 2
    assert words in capsys.readouterr().err
    assert not admin.passwords


def test_a_file_of_a_password_should_be_private(
    admin: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "password"
    file.write_text("a secret of mine\n")
    file.chmod(0o644)
    assert ottla(f"user add erin --password-file {file}") == 0
    assert f"{file} has a password, and other users can read it" in caplog.text
    admin.passwords.clear()
    assert ottla(f"user add carol --password-file {file} --mechanism scram-sha-512") == 0
    assert list(admin.passwords) == [("carol", "SCRAM-SHA-512")]
    assert ottla(f"user add dora --password-file {file} --password-stdin") == 2
    assert ottla(f"user add dora --password-file {tmp_path / 'missing'}") == 2
    assert ottla(f"user add dora --password-file {file} --mechanism plain") == 2
    assert "--mechanism 'plain' is not a mechanism of SCRAM" in capsys.readouterr().err


def test_a_password_is_prompted_for_hidden_and_twice(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    sit(monkeypatch, True)
    asked: list[dict[str, Any]] = []

    def prompt(text: str, **options: Any) -> str:
        asked.append({"text": text, **options})
        return "typed"

    monkeypatch.setattr(typer, "prompt", prompt)
    assert ottla("user add carol") == 0
    (options,) = asked
    assert (options["hide_input"], bool(options["confirmation_prompt"]), options["err"]) == (True, True, True)


def test_rm_asks_and_takes_one_mechanism_or_all(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.passwords = {(name, mechanism): "p" for name in ("carol", "dora") for mechanism in BOTH}
    asked = sit(monkeypatch, True)
    assert ottla("user rm carol --mechanism SHA-256") == 0
    assert asked == ["Remove these passwords of this user?"]
    assert ("carol", "SCRAM-SHA-512") in admin.passwords
    assert ottla("user rm carol dora eve --if-exists -y -o json") == 0
    assert [item["name"] for item in json.loads(capsys.readouterr().out)["items"]] == ["carol", "dora"]
    assert not admin.passwords
