"""What is kept of a password: derivation, bounds, and that none of it is shown."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import replace
from typing import Any

import pytest

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.scram import MECHANISMS, Mechanism, ScramCredential

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
PENCIL = ScramCredential.of_password("SCRAM-SHA-256", "pencil", salt=SALT)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("iterations", [4096, 16_384])
def test_keys_are_those_of_the_formulas_of_rfc_5802(mechanism: Mechanism, iterations: int) -> None:
    name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    salted = hashlib.pbkdf2_hmac(name, b"pencil", SALT, iterations)
    client_key = hmac.new(salted, b"Client Key", name).digest()
    credential = ScramCredential.of_password(mechanism, "pencil", salt=SALT, iterations=iterations)
    assert credential.stored_key == hashlib.new(name, client_key).digest()
    assert credential.server_key == hmac.new(salted, b"Server Key", name).digest()
    assert credential.salted(b"pencil") == salted
    assert credential.is_of(salted)
    assert not credential.is_of(credential.salted(b"Pencil"))


def test_secrets_are_not_shown() -> None:
    assert repr(PENCIL) == "ScramCredential(mechanism='SCRAM-SHA-256', iterations=4096)"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_text_is_kafkas_and_is_read_again(mechanism: Mechanism) -> None:
    credential = ScramCredential.of_password(mechanism, "pencil", salt=SALT, iterations=5000)
    text = credential.text()
    assert text.startswith("salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=")
    assert text.endswith(",iterations=5000")
    assert ScramCredential.of_text(mechanism, text) == credential


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pencil",
        PENCIL.text().replace("salt=", "salt=="),
        PENCIL.text().replace("iterations=4096", "iterations=many"),
        PENCIL.text().replace("iterations=4096", "iterations=" + "9" * 5000),
        PENCIL.text() + ",more=1",
        PENCIL.text().replace("=,", ","),
        PENCIL.text().replace(",server_key=", ",other="),
    ],
)
def test_a_text_that_is_none_is_not_repeated(text: str) -> None:
    with pytest.raises(OttlaError, match=r"a credential for SCRAM-SHA-256 can't be read") as caught:
        ScramCredential.of_text("SCRAM-SHA-256", text)
    assert base64.b64encode(PENCIL.stored_key).decode() not in str(caught.value)
    assert "pencil" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"iterations": 4095}, "has 4095 iterations"),
        ({"iterations": 16_385}, "has 16385 iterations"),
        ({"salt": b""}, "a salt of 0 bytes"),
        ({"salt": bytes(1025)}, "a salt of 1025 bytes"),
        ({"stored_key": bytes(31)}, "does not have 32 bytes"),
        ({"server_key": bytes(64)}, "does not have 32 bytes"),
        ({"mechanism": "SCRAM-SHA-512"}, "does not have 64 bytes"),
        ({"mechanism": "SCRAM-SHA-1"}, "'SCRAM-SHA-1' is not a mechanism of SCRAM"),
    ],
)
def test_a_credential_that_can_not_be_is_rejected(change: dict[str, Any], words: str) -> None:
    with pytest.raises(OttlaError, match=words) as caught:
        replace(PENCIL, **change)
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    assert caught.value.hint


@pytest.mark.parametrize("password", ["", "\u2168", "tab\t", "\u00a0", "\ud800"])
def test_a_password_that_clients_read_in_different_ways_is_rejected(password: str) -> None:
    with pytest.raises(OttlaError, match="a password is empty, or has characters"):
        ScramCredential.of_password("SCRAM-SHA-256", password, salt=SALT)


@pytest.mark.parametrize("iterations", [0, 4095, 16_385])
def test_nothing_is_derived_with_other_iterations(iterations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("hashlib.pbkdf2_hmac")
    with pytest.raises(OttlaError, match="iterations"):
        ScramCredential.of_password("SCRAM-SHA-256", "pencil", salt=SALT, iterations=iterations)


def test_a_proof_of_another_size_is_none() -> None:
    assert not PENCIL.is_proved(b"", b"messages")
    assert not PENCIL.is_proved(bytes(64), b"messages")
