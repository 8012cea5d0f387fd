"""The settings of this broker's process under the names that Kafka's configs have, for DescribeConfigs.

The controller describes the configs of the cluster, and does not know these. What is set in the cluster under their
names has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla_broker.config import BrokerConfig
from ottla_core.configs.config_values import Source
from ottla_proto import controller_pb2 as pb


def process_configs(config: BrokerConfig) -> dict[str, str]:
    """Return the values by Kafka's names. There are none for a broker without TLS, and a password has no text."""
    tls = config.tls
    if tls is None:
        return {}
    of_all = [entry.strip() for entry in config.ssl_client_auth if ":" not in entry]
    configs = {
        "listener.security.protocol.map": ",".join(f"{listener.name}:{listener.protocol}" for listener in config.kafka),
        "ssl.keystore.location": tls.keystore,
        "ssl.keystore.type": config.ssl_keystore_type,
        "ssl.truststore.type": config.ssl_truststore_type,
        "ssl.client.auth": of_all[-1] if of_all else "none",
        "ssl.enabled.protocols": ",".join(config.ssl_enabled_protocols),
        "ssl.cipher.suites": ",".join(config.ssl_cipher_suites),
        "ssl.principal.mapping.rules": config.ssl_principal_mapping_rules,
    }
    if tls.key_password:
        configs["ssl.key.password"] = ""
    if tls.truststore:
        configs["ssl.truststore.location"] = tls.truststore
    return configs


def with_process_value(entry: pb.ConfigEntry, configs: Mapping[str, str]) -> pb.ConfigEntry:
    """Return the entry, with the value of the process in place of the cluster's if the process has one."""
    if entry.name not in configs:
        return entry
    own = pb.ConfigEntry()
    own.CopyFrom(entry)
    own.value, own.source = configs[entry.name], Source.PROCESS.value
    own.read_only = own.enforced = True
    return own
