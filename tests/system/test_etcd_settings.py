"""What a service refuses before it starts: settings of etcd that contradict each other, and unusable files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, encrypted

from ottla_controller.config import ControllerConfig
from ottla_core.cluster.etcd_security import has_tls, target
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.process.run import check_settings

HTTPS, REMOTE = "https://127.0.0.1:2379", "etcd.example.org:2379"
SECRET = "planted-secret-0815"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    authority = Authority(folder / "ca")
    own, other = authority.issue("ottla"), authority.issue("other")
    open_key, password, open_password = folder / "open.key", folder / "password", folder / "open-password"
    own.key.chmod(0o600)
    for path, text, mode in [
        (open_key, own.key.read_text(), 0o644),
        (password, SECRET, 0o600),
        (open_password, SECRET, 0o644),
        (folder / "garbage", "-----BEGIN CERTIFICATE-----\nx\n", 0o600),
    ]:
        path.write_text(text)
        path.chmod(mode)
    locked = encrypted(own.key, SECRET)
    locked.chmod(0o600)
    other.key.chmod(0o600)
    return {
        "CA": authority.certificate,
        "CERTIFICATE": own.certificate,
        "KEY": own.key,
        "OTHER_KEY": other.key,
        "OPEN_KEY": open_key,
        "LOCKED_KEY": locked,
        "PASSWORD": password,
        "OPEN_PASSWORD": open_password,
        "GARBAGE": folder / "garbage",
        "MISSING": folder / "missing",
    }


def check(files: dict[str, Path], settings: dict[str, Any]) -> None:
    given: dict[str, Any] = {name: files.get(str(value), value) for name, value in settings.items()}
    check_settings(dataclasses.replace(ControllerConfig(), **given))


TLS = {"etcd": (HTTPS,), "etcd_tls_ca": "CA"}
OWN = {**TLS, "etcd_tls_certificate": "CERTIFICATE", "etcd_tls_key": "KEY"}
LOGIN = {"etcd_user": "ottla", "etcd_password_file": "PASSWORD"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"etcd": ("http://127.0.0.1:2379", "[::1]:2379/")},
        {"etcd": (REMOTE,)},
        TLS,
        OWN,
        {**TLS, **LOGIN},
        {**OWN, **LOGIN, "etcd": (f"https://{REMOTE}", HTTPS)},
        LOGIN,
        {**LOGIN, "etcd": ("http://localhost:2379", "[::1]:2379")},
        {**LOGIN, "etcd": (REMOTE,), "insecure": True},
    ],
)
def test_settings_that_fit_together_are_accepted(files: dict[str, Path], settings: dict[str, Any]) -> None:
    check(files, settings)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({**TLS, "etcd": (HTTPS, "127.0.0.1:2380")}, "both http and https addresses"),
        ({"etcd": (HTTPS,)}, "etcd has an https address, and etcd_tls_ca is not set"),
        ({"etcd_tls_ca": "CA"}, "is set, and etcd has no https address"),
        ({"etcd_tls_certificate": "CERTIFICATE", "etcd_tls_key": "KEY"}, "is set, and etcd has no https address"),
        ({**TLS, "etcd_tls_key": "KEY"}, "only one of etcd_tls_certificate and etcd_tls_key is set"),
        ({**TLS, "etcd_tls_certificate": "CERTIFICATE"}, "only one of etcd_tls_certificate and etcd_tls_key is set"),
        ({"etcd_user": "ottla"}, "only one of etcd_user and etcd_password_file is set"),
        ({"etcd_password_file": "PASSWORD"}, "only one of etcd_user and etcd_password_file is set"),
        ({"etcd": (f"https://root:{SECRET}@127.0.0.1:2379",)}, "an address of etcd has an @"),
        ({"etcd": (f"root:{SECRET}@127.0.0.1:2379",)}, "an address of etcd has an @"),
        ({"etcd": ("unix:///run/etcd.sock",)}, "begins with unix://"),
        ({"etcd": ("http://etcd",)}, "etcd: 'etcd' is not an address: it has no port"),
        ({"etcd": ("HTTPS://127.0.0.1:2379",)}, "begins with HTTPS://"),
        ({**LOGIN, "etcd": ("127.0.0.1:2379", REMOTE)}, f"the password of etcd_user would go to {REMOTE} in plaintext"),
        ({**LOGIN, "etcd_password_file": "OPEN_PASSWORD"}, "of etcd_password_file can be read by other users"),
        ({**LOGIN, "etcd_password_file": "MISSING"}, "of etcd_password_file can't be read"),
        ({**TLS, "etcd_tls_ca": "MISSING"}, "of etcd_tls_ca can't be read"),
        ({**TLS, "etcd_tls_ca": "GARBAGE"}, "of etcd_tls_ca has no certificate"),
        ({**TLS, "etcd_tls_ca": "KEY"}, "of etcd_tls_ca has no certificate"),
        ({**OWN, "etcd_tls_certificate": "MISSING"}, "of etcd_tls_certificate or etcd_tls_key can't be read"),
        ({**OWN, "etcd_tls_certificate": "GARBAGE"}, "can't be used together"),
        ({**OWN, "etcd_tls_key": "MISSING"}, "of etcd_tls_certificate or etcd_tls_key can't be read"),
        ({**OWN, "etcd_tls_key": "OPEN_KEY"}, "of etcd_tls_key can be read by other users"),
        ({**OWN, "etcd_tls_key": "OTHER_KEY"}, r"can't be used together \(key values mismatch\)"),
        ({**OWN, "etcd_tls_key": "LOCKED_KEY"}, "can't be used together"),
        ({**OWN, "etcd_tls_key": "CERTIFICATE"}, "can't be used together|can be read by other users"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_in_one_sentence(
    files: dict[str, Path], settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(OttlaError, match=problem) as refused:
        check(files, settings)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.hint
    assert SECRET not in str(refused.value)
    assert "PRIVATE" not in str(refused.value)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("127.0.0.1:2379", ("127.0.0.1:2379", False, "127.0.0.1")),
        ("http://etcd:2379/", ("etcd:2379", False, "etcd")),
        ("https://[::1]:2379", ("[::1]:2379", True, "::1")),
        ("https://Etcd.example.org:2379/", ("Etcd.example.org:2379", True, "Etcd.example.org")),
    ],
)
def test_an_address_of_etcd_has_a_scheme_a_host_and_a_port(endpoint: str, expected: tuple[str, bool, str]) -> None:
    assert (str(target(endpoint)), has_tls(endpoint), target(endpoint).host) == expected
