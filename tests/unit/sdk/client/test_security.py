"""What users write for logins and TLS: typed arguments, Kafka's names, and nothing of a password anywhere else."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
import traceback
from pathlib import Path
from typing import Any, cast

import pytest

import ottla
from ottla.client.security.names import NOT_SERVED, SECURITY_NAMES, merged_security
from ottla.client.security.security import Security, security_of
from ottla.errors import ConfigError

PASSWORD = "open-sesame-17"
SCRAM = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": PASSWORD}


def merged(config: dict[str, Any], login: Any = None, tls: Any = None) -> Security:
    return merged_security(login, tls, config)


# ---- Secret ----------------------------------------------------------------------------------------------------------


def test_a_secret_is_shown_nowhere() -> None:
    secret = ottla.Secret(PASSWORD)
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret!r:>20}", f"{secret:>20}", "%s" % secret):  # noqa: UP031
        assert PASSWORD not in shown
        assert "Secret('***')" in shown
    assert secret.reveal() == PASSWORD
    assert not hasattr(secret, "__dict__")


def test_a_secret_can_not_be_written_to_a_file() -> None:
    secret = ottla.Secret(PASSWORD)
    for value in (secret, ottla.Plain("alice", PASSWORD), ottla.Tls(key_password=PASSWORD, certificate="c")):
        with pytest.raises(TypeError, match="can't be pickled"):
            pickle.dumps(value)
        assert PASSWORD not in str(dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value)
    with pytest.raises(TypeError):
        json.dumps(secret)


def test_secrets_are_compared_and_copied() -> None:
    secret = ottla.Secret(PASSWORD)
    assert secret == ottla.Secret(secret) == copy.copy(secret) == copy.deepcopy(secret)
    assert len({secret, ottla.Secret(PASSWORD), ottla.Secret("another")}) == 2
    assert secret != ottla.Secret("another")
    assert secret != PASSWORD
    assert not ottla.Secret("")
    with pytest.raises(TypeError, match="made of a str, not of bytes"):
        ottla.Secret(b"bytes")  # type: ignore[arg-type]  # as a user may


LOGINS: list[Any] = [ottla.Plain("alice", PASSWORD), ottla.Scram("alice", ottla.Secret(PASSWORD), "SCRAM-SHA-256")]


@pytest.mark.parametrize("login", LOGINS)
def test_a_login_hides_its_password(login: Any) -> None:
    assert PASSWORD not in repr(login)
    assert isinstance(login.password, ottla.Secret)
    assert login == dataclasses.replace(login)


@pytest.mark.parametrize("kind", [ottla.Producer, ottla.Consumer, ottla.Admin, ottla.Table])
def test_errors_and_logs_of_clients_have_no_password(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Neither a wrong argument beside the password, nor one with it, shows it."""
    topic = ("t",) if kind in (ottla.Consumer, ottla.Table) else ()
    for arguments in (
        {"login": ottla.Plain("alice", PASSWORD), "config": SCRAM | {"security.protocol": "SASL_SSL"}},
        {"config": SCRAM},
        {"config": SCRAM | {"security.protocol": "SASL_SSL", "client.idd": 1}},
        {"config": SCRAM | {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}},
        {"config": SCRAM | {"sasl.passwort": PASSWORD}},
        {"config": {"sasl.jaas.config": PASSWORD}},
        {"login": PASSWORD},
        {"tls": PASSWORD},
    ):
        with caplog.at_level(logging.DEBUG), pytest.raises(ConfigError) as caught:
            kind(*topic, bootstrap="b:1", **arguments)
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in caplog.text


# ---- typed arguments -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ottla.Plain("", PASSWORD), "is empty"),
        (lambda: ottla.Plain("alice", ""), "is empty"),
        (lambda: ottla.Plain("alice", "\0"), "has a NUL"),
        (lambda: ottla.Plain("alice", "\ud800"), "half a character"),
        (lambda: ottla.Scram("al\u00adice", PASSWORD), "treat in different ways"),
        (lambda: ottla.Scram("alice", "\u00aa"), "treat in different ways"),
        (lambda: ottla.Scram("alice", PASSWORD, "SCRAM-SHA-1"), "mechanism='SCRAM-SHA-1' is not valid"),  # type: ignore[arg-type]  # as a user may
        (lambda: ottla.Plain("alice", 17), "is not a str"),  # type: ignore[arg-type]  # as a user may
        (lambda: ottla.OAuthBearer("a token"), "needs a function"),  # type: ignore[arg-type]  # as a user may
        (lambda: security_of("alice", None), "login is a str"),
        (lambda: security_of(None, "ca.pem"), "tls is a str"),
    ],
)
def test_arguments_that_are_not_valid(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


def test_the_protocol_follows_from_the_arguments() -> None:
    login = ottla.Plain("alice", PASSWORD)
    assert security_of(None, None).protocol == security_of(None, False).protocol == "PLAINTEXT"
    assert security_of(login, None).protocol == "SASL_PLAINTEXT"
    assert security_of(None, True) == Security(None, ottla.Tls())
    assert security_of(login, ottla.Tls("ca.pem")).protocol == "SASL_SSL"


@pytest.mark.parametrize("login", LOGINS)
def test_each_login_begins_another_conversation(login: Any) -> None:
    first, second = login.conversation(), login.conversation()
    assert first.mechanism == login.mechanism
    assert (first.first() == second.first()) == (login.mechanism == "PLAIN")


# ---- Kafka's names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "security"),
    [
        ({}, Security()),
        ({"security.protocol": "plaintext"}, Security()),
        ({"security.protocol": "SSL"}, Security(None, ottla.Tls())),
        (
            {"security.protocol": "SASL_PLAINTEXT", **SCRAM},
            Security(ottla.Scram("alice", PASSWORD)),
        ),
        (
            {"security.protocol": "SASL_SSL", **SCRAM, "sasl.mechanism": "PLAIN", "ssl.ca.location": "ca.pem"},
            Security(ottla.Plain("alice", PASSWORD), ottla.Tls("ca.pem")),
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "scram-sha-256",
                "sasl.username": "alice",
                "sasl.password": ottla.Secret(PASSWORD),
                "ssl.truststore.location": "ca.pem",
                "ssl.truststore.type": "PEM",
                "ssl.keystore.location": "client.pem",
                "ssl.keystore.type": "pem",
                "ssl.key.password": PASSWORD,
                "ssl.endpoint.identification.algorithm": "",
            },
            Security(
                ottla.Scram("alice", PASSWORD, "SCRAM-SHA-256"),
                ottla.Tls("ca.pem", "client.pem", None, PASSWORD, verify_hostname=False),
            ),
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.certificate.location": "client.pem",
                "ssl.key.location": "client.key",
                "ssl.endpoint.identification.algorithm": "https",
            },
            Security(None, ottla.Tls(None, "client.pem", "client.key")),
        ),
    ],
)
def test_kafkas_names_mean_the_arguments(config: dict[str, Any], security: Security) -> None:
    assert merged(config) == security


@pytest.mark.story("unset-verification-trusts-every-host")
def test_a_setting_that_is_none_leaves_the_verification_of_host_names_on() -> None:
    config = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": None, "ssl.ca.location": None}
    assert merged(config) == Security(None, ottla.Tls())


def test_both_may_say_the_same() -> None:
    login, tls = ottla.OAuthBearer(lambda: "token"), ottla.Tls("ca.pem")
    config = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    assert merged(config, login, tls) == Security(login, tls)
    assert merged(config, login) == Security(login, ottla.Tls())
    assert merged({}, login, tls) == Security(login, tls)


@pytest.mark.parametrize(
    ("config", "arguments", "words"),
    [
        ({"security.protocol": "TLS"}, {}, "security.protocol='TLS' is not valid"),
        (SCRAM, {}, "config sasl.mechanism and security.protocol=PLAINTEXT contradict each other"),
        ({"ssl.ca.location": "ca.pem"}, {}, "config ssl.ca.location and security.protocol=PLAINTEXT contradict"),
        ({"security.protocol": "SSL", **SCRAM}, {}, "config sasl.mechanism and security.protocol=SSL contradict"),
        ({"security.protocol": "PLAINTEXT"}, {"tls": True}, "tls= and security.protocol=PLAINTEXT contradict"),
        ({"security.protocol": "SSL"}, {"login": LOGINS[0]}, "login= and security.protocol=SSL contradict"),
        ({"security.protocol": "SASL_PLAINTEXT"}, {"tls": True, "login": LOGINS[0]}, "tls= and security.protocol="),
        ({"sasl.password": PASSWORD}, {"login": LOGINS[0]}, "login= and config sasl.password contradict"),
        ({"sasl.mechanism": "PLAIN"}, {"login": LOGINS[1]}, "config sasl.mechanism='PLAIN' and login= contradict"),
        ({"ssl.ca.location": "ca.pem"}, {"tls": True}, "tls= and config ssl.ca.location contradict"),
        ({"security.protocol": "SASL_SSL"}, {}, "there is no way to log in"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, {}, "sasl.mechanism='GSSAPI' is not valid"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, {}, "OAUTHBEARER needs a function"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, {}, "PLAIN needs sasl.username"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "alice"},
            {},
            "PLAIN needs sasl.password",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.mechanisms": "SCRAM-SHA-256"},
            {},
            "sasl.mechanism and sasl.mechanisms contradict",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, {}, "ssl.truststore.type='JKS' is not supported"),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "a", "ssl.truststore.location": "b"},
            {},
            "is set under another name, too",
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"},
            {},
            "ssl.endpoint.identification.algorithm='ldap' is not valid",
        ),
        ({"security.protocol": "SSL", "ssl.key.location": "key"}, {}, "tls has a key, but no certificate"),
    ],
)
def test_settings_that_are_not_valid_or_would_not_be_used(
    config: dict[str, Any], arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        merged(config, **arguments)
    assert words in str(caught.value)
    assert caught.value.hint
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("name", NOT_SERVED)
def test_a_name_that_is_not_served_says_what_to_do(name: str) -> None:
    with pytest.raises(ConfigError, match=f"config {name} can't be set: "):
        ottla.Admin("b:1", config={name: "value"})


def test_a_misspelled_name_is_corrected() -> None:
    assert "sasl.password" in SECURITY_NAMES
    with pytest.raises(ConfigError, match=r"the closest name is sasl\.password"):
        ottla.Producer("b:1", config={"sasl.pasword": PASSWORD})


def test_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=b=c\n")
    with ottla.Producer.from_properties(file, bootstrap="b:1") as producer:
        assert producer._cluster._transport.security == Security(ottla.Plain("a", "b=c"))  # type: ignore[attr-defined]  # it is a KafkaTransport


def test_an_app_hands_its_login_to_its_clients() -> None:
    app = ottla.App("app", "b:1", login=LOGINS[0], tls=True)
    assert (app._cluster["login"], app._cluster["tls"]) == (LOGINS[0], ottla.Tls())
    for argument in ("login", "tls"):
        for setting in ("consumer", "producer"):
            with pytest.raises(ConfigError, match=f"App\\(name, {argument}="):
                ottla.App("app", **cast(Any, {setting: {argument: None}}))
