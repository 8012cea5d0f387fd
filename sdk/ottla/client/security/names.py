"""Kafka's names for a client's security, and librdkafka's where Java has none.

`config={"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", …}` means `login=` and `tls=`. A setting
that its security.protocol would not use is an error, because the connection would be less safe than its user believes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.client.security.logins import Login, Plain, Scram
from ottla.client.security.passwords import REFERENCE_NAMES, with_passwords
from ottla.client.security.security import Security, security_of
from ottla.client.security.tls import Tls
from ottla.errors import ConfigError, config_error

_PROTOCOL: Final = "security.protocol"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("sasl.mechanism", "sasl.mechanisms")
_OAUTHBEARER: Final = "OAUTHBEARER"
_CREDENTIALS: Final = ("sasl.username", "sasl.password")
_FILES: Final = {
    "ssl.truststore.location": "ca",
    "ssl.ca.location": "ca",
    "ssl.keystore.location": "certificate",
    "ssl.certificate.location": "certificate",
    "ssl.key.location": "key",
    "ssl.key.password": "key_password",
}
_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
_VERIFICATION: Final = "ssl.endpoint.identification.algorithm"
SECURITY_NAMES: Final = (
    frozenset((_PROTOCOL, *_MECHANISMS, *_CREDENTIALS, *_FILES, *_TYPES, _VERIFICATION)) | REFERENCE_NAMES
)

_IN_A_FILE: Final = "write it to a PEM file, and set its location"
NOT_SERVED: Final = {
    "enable.ssl.certificate.verification": "brokers' certificates are always verified",
    "sasl.jaas.config": "set sasl.username and sasl.password instead",
    "sasl.login.callback.handler.class": "pass login=ottla.OAuthBearer(function) instead",
    "sasl.oauthbearer.config": "pass login=ottla.OAuthBearer(function) instead",
    "ssl.ca.pem": _IN_A_FILE,
    "ssl.certificate.pem": _IN_A_FILE,
    "ssl.key.pem": _IN_A_FILE,
    "ssl.keystore.certificate.chain": _IN_A_FILE,
    "ssl.keystore.key": _IN_A_FILE,
    "ssl.keystore.password": "a PEM file has none; the key's is ssl.key.password",
    "ssl.truststore.certificates": _IN_A_FILE,
    "ssl.truststore.password": "a PEM file has none",
}
"""Names that this release does not take, and what to do."""


def merged_security(login: Any, tls: Any, config: Mapping[str, Any]) -> Security:
    """Return the arguments `login` and `tls`, merged with the settings in `config` that have SECURITY_NAMES. Raises
    ConfigError."""
    config = {name: value for name, value in config.items() if name in SECURITY_NAMES}
    given = security_of(login, tls)
    protocol = _one_of(_PROTOCOL, config.get(_PROTOCOL, given.protocol), _PROTOCOLS)
    of_login = [name for name in config if name.startswith("sasl.")]
    of_tls = [name for name in config if name.startswith("ssl.")]
    for used, argument, value, names, needed in (
        ("SASL" in protocol, "login", given.login, of_login, "SASL_SSL or SASL_PLAINTEXT"),
        ("SSL" in protocol, "tls", given.tls, of_tls, "SSL or SASL_SSL"),
    ):
        if not used and (value is not None or names):
            unused = f"{argument}=" if value is not None else f"config {names[0]}"
            raise config_error(f"{unused} and security.protocol={protocol} contradict each other", hint=f"use {needed}")
    config = with_passwords(config)
    return Security(
        _login(given.login, config, of_login) if "SASL" in protocol else None,
        _tls(given.tls, config, of_tls) if "SSL" in protocol else None,
    )


def _login(given: Login | None, config: Mapping[str, Any], names: list[str]) -> Login:
    mechanism = _first(config, _MECHANISMS)
    if given is not None:
        if other := [name for name in names if name in _CREDENTIALS or name in REFERENCE_NAMES]:
            raise _twice("login=", other[0])
        if mechanism is not None and mechanism != given.mechanism:
            raise config_error(
                f"config sasl.mechanism={mechanism!r} and login= contradict each other", hint="set only one of them"
            )
        return given
    if mechanism is None:
        raise config_error("there is no way to log in", hint="set sasl.mechanism, or pass login=")
    if mechanism == _OAUTHBEARER:
        hint = "pass login=ottla.OAuthBearer(function) in a program, or use another mechanism"
        raise config_error("OAUTHBEARER needs a function", hint=hint)
    of: dict[str, Callable[[str, str], Login]] = {
        "PLAIN": Plain,
        "SCRAM-SHA-256": lambda user, password: Scram(user, password, "SCRAM-SHA-256"),
        "SCRAM-SHA-512": lambda user, password: Scram(user, password, "SCRAM-SHA-512"),
    }
    make = of[_one_of(names[0], mechanism, tuple(of))]
    missing = [name for name in _CREDENTIALS if config.get(name) is None]
    if missing:
        hint = "set sasl.username, and sasl.password or sasl.password.file or sasl.password.env"
        raise config_error(f"{mechanism} needs {missing[0]}", hint=hint)
    return make(*(config[name] for name in _CREDENTIALS))


def _tls(given: Tls | None, config: Mapping[str, Any], names: list[str]) -> Tls:
    if given is not None:
        if names:
            raise _twice("tls=", names[0])
        return given
    for name in _TYPES:
        if name in config and str(config[name]).upper() != "PEM":
            hint = f"set {name}=PEM, and a file in that format: keytool -exportcert -rfc writes one"
            raise config_error(f"config {name}={config[name]!r} is not supported", hint=hint)
    arguments: dict[str, Any] = {}
    for name, argument in _FILES.items():
        if config.get(name) is None:
            continue
        if argument in arguments:
            raise config_error(f"config {name} is set under another name, too", hint="set only one of them")
        arguments[argument] = config[name]
    if (algorithm := config.get(_VERIFICATION)) is not None:
        legal = "https", "", "none"
        arguments["verify_hostname"] = _one_of(_VERIFICATION, algorithm, legal, str.lower) == "https"
    return Tls(**arguments)


def _first(config: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    values = dict.fromkeys(str(config[name]).upper() for name in names if config.get(name) is not None)
    if len(values) > 1:
        raise config_error(f"{' and '.join(names)} contradict each other", hint="set only one of them")
    return next(iter(values), None)


def _one_of(name: str, value: Any, legal: tuple[str, ...], convert: Callable[[str], str] = str.upper) -> str:
    text = convert(str(value))
    if text not in legal:
        raise config_error(
            f"config {name}={value!r} is not valid", hint=f"use one of {', '.join(each or repr('') for each in legal)}"
        )
    return text


def _twice(argument: str, name: str) -> ConfigError:
    return config_error(f"{argument} and config {name} contradict each other", hint="set only one of them")
