"""Describes the settings of this broker's process under Kafka's names.

The controller describes the rest of a broker's configs. It does not know these, and no client can change them. They say
who may log in, and how requests are authorized, so whoever administers the cluster has to see them (`ottla acl test`).
Apache Kafka describes them, too, but hides `super.users`, because its list of configs lacks that name.
"""

from __future__ import annotations

from typing import Final

from ottla_broker.config import BrokerConfig
from ottla_core.configs.config_key import ConfigType
from ottla_core.configs.config_values import Source, find_broker_key
from ottla_proto import controller_pb2 as pb

_DOCS: Final = {
    "allow.everyone.if.no.acl.found": "Whether everyone may use a resource for which there is no ACL.",
    "authorizer.class.name": "The class that checks requests against the ACLs. If it is empty, nothing is checked.",
    "connection.failed.authentication.delay.ms": "How long the answer to a failed login waits.",
    "listener.security.protocol.map": "The security protocol of each listener.",
    "listeners": "Where the broker takes connections of Kafka clients.",
    "ssl.cipher.suites": "The ciphers of TLS 1.2 under Kafka's names. If there are none, OpenSSL's defaults.",
    "ssl.client.auth": "Whether clients of SSL listeners show a certificate: none, requested or required.",
    "ssl.enabled.protocols": "The versions of TLS that listeners speak.",
    "ssl.key.password": "The password of the private key in the keystore.",
    "ssl.keystore.location": "The PEM file with the private key and the certificates of the listeners.",
    "ssl.keystore.type": "The format of the keystore, PEM.",
    "ssl.principal.mapping.rules": "Who a client is, by the distinguished name in its certificate.",
    "ssl.truststore.location": "The PEM file with the authorities that sign the clients' certificates.",
    "ssl.truststore.type": "The format of the truststore, PEM.",
    "sasl.enabled.mechanisms": "The mechanisms by which clients of SASL listeners may log in.",
    "super.users": "The principals that may do everything, with semicolons between them.",
}
_TYPES: Final = {"allow.everyone.if.no.acl.found": ConfigType.BOOLEAN, "super.users": ConfigType.STRING}
"""Configs of Kafka's authorizer, which are not in Kafka's list of broker configs."""
_DEFAULTS: Final = {"allow.everyone.if.no.acl.found": "false", "super.users": ""}


def process_configs(config: BrokerConfig) -> dict[str, pb.ConfigEntry]:
    """Return the entries by their names. A value that is Kafka's default counts as one that is not set."""
    values = {
        "allow.everyone.if.no.acl.found": str(config.allow_everyone_if_no_acl_found).lower(),
        "authorizer.class.name": config.authorizer_class_name,
        "connection.failed.authentication.delay.ms": str(config.connection_failed_authentication_delay_ms),
        "listener.security.protocol.map": ",".join(f"{each.name}:{each.protocol}" for each in config.kafka),
        "listeners": ",".join(f"{each.name}://{each.bound}" for each in config.kafka),
        "sasl.enabled.mechanisms": ",".join(config.sasl_enabled_mechanisms),
        "super.users": config.super_users,
    }
    return {name: _entry(name, value) for name, value in (values | _of_tls(config)).items()}


def _of_tls(config: BrokerConfig) -> dict[str, str]:
    """Return the values for listeners with TLS. There are none without such a listener. A password has no text."""
    tls = config.tls
    if tls is None:
        return {}
    of_all = [entry.strip() for entry in config.ssl_client_auth if ":" not in entry]
    values = {
        "ssl.cipher.suites": ",".join(config.ssl_cipher_suites),
        "ssl.client.auth": of_all[-1] if of_all else "none",
        "ssl.enabled.protocols": ",".join(config.ssl_enabled_protocols),
        "ssl.keystore.location": tls.keystore,
        "ssl.keystore.type": config.ssl_keystore_type,
        "ssl.principal.mapping.rules": config.ssl_principal_mapping_rules,
        "ssl.truststore.type": config.ssl_truststore_type,
    }
    if tls.key_password_file:
        values["ssl.key.password"] = ""
    if tls.truststore:
        values["ssl.truststore.location"] = tls.truststore
    return values


def _entry(name: str, value: str) -> pb.ConfigEntry:
    key = find_broker_key(name)
    default = _DEFAULTS[name] if key is None else key.default
    return pb.ConfigEntry(
        name=name,
        value=value,
        source=(Source.DEFAULT if value == default else Source.PROCESS).value,
        type=(_TYPES[name] if key is None else key.type).value,
        read_only=True,
        enforced=True,
        documentation=_DOCS[name],
        sensitive=key is not None and key.sensitive,
    )
