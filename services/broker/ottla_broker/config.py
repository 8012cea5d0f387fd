"""The settings of a broker process: where it listens, where its data lies, where etcd is.

In the environment they are spelled OTTLA_BROKER__<KEY>. Topic and cluster configs, under Kafka's names, are kept in the
cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from ottla_broker.listener_settings import KafkaListener, check_mechanisms, check_ports_differ, read_listeners
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.files.secret_file import NO_FILE
from ottla_core.process.exposure import Endpoint
from ottla_core.security.authorizer_settings import AuthorizerSettings, read_authorizer
from ottla_core.security.plain import PLAIN
from ottla_core.security.principal_mapping import DEFAULT_RULES
from ottla_core.security.scram import MECHANISMS
from ottla_core.security.tls_settings import DEFAULT_CLIENT_AUTH, PEM, PROTOCOLS, ClientAuth, TlsSettings, read_tls

_KAFKA_PORT: Final = 9092
_DATA: Final = PurePath("data")


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    node_id: int = -1  # -1: what the data directory says, or else the controller hands one out
    cluster_id: str = "ottla"
    data_dir: PurePath = _DATA  # directory for the logs and the broker's identity; each broker needs its own
    host: str = "127.0.0.1"
    port: int = 9650  # 0 picks a free one
    admin_host: str = "127.0.0.1"
    admin_port: int = 9750
    admin_token_file: PurePath = NO_FILE
    insecure: bool = False
    kafka_port: int = _KAFKA_PORT  # port for Kafka's protocol, on the same host; 0 picks a free port
    kafka_listeners: tuple[str, ...] = ()  # NAME://host:port listeners, instead of kafka_port (`listener_settings`)
    kafka_advertised: tuple[str, ...] = ()  # address for clients; default: the one they dialled (`kafka.addresses`)
    kafka_listener_protocols: tuple[str, ...] = ()  # NAME:PROTOCOL, such as EXTERNAL:SASL_SSL (`listener_settings`)
    sasl_enabled_mechanisms: tuple[str, ...] = MECHANISMS  # how clients of SASL listeners log in
    sasl_plain_without_tls: bool = False  # whether PLAIN may be enabled on SASL_PLAINTEXT, where it is sent in clear
    sasl_credentials_file: PurePath = NO_FILE  # TOML file with the users' SCRAM credentials, for its owner alone
    connection_failed_authentication_delay_ms: int = 100  # how long the answer to a failed login waits
    ssl_keystore_location: PurePath = NO_FILE  # PEM file with the private key and the certificates of SSL listeners
    ssl_keystore_type: str = PEM  # PEM, and nothing else
    ssl_key_password_file: PurePath = NO_FILE  # file with the password of an encrypted key, for its owner alone
    ssl_truststore_location: PurePath = NO_FILE  # PEM file with the authorities that sign the clients' certificates
    ssl_truststore_type: str = PEM  # PEM, and nothing else
    ssl_client_auth: tuple[str, ...] = DEFAULT_CLIENT_AUTH  # none, requested or required; NAME:required for a listener
    ssl_enabled_protocols: tuple[str, ...] = PROTOCOLS  # versions of TLS
    ssl_cipher_suites: tuple[str, ...] = ()  # Kafka's names of ciphers; default: those of OpenSSL
    ssl_principal_mapping_rules: str = DEFAULT_RULES  # who a client is by the name in its certificate
    authorizer_class_name: str = ""  # StandardAuthorizer checks every request of a Kafka client against the ACLs
    super_users: str = ""  # principals that may do everything, such as User:admin;User:ops; only with an authorizer
    allow_everyone_if_no_acl_found: bool = False  # whether a resource without ACLs is open to everyone
    unstable_api_versions_enable: bool = False  # whether Kafka clients may use version 6 of InitProducerId (KIP-939)
    advertised_host: str = ""  # what services and clients get, or `host` if this is empty
    mirrors: tuple[str, ...] = ()  # gRPC addresses of the mirrors that clients reach through this broker
    rack: str = ""  # the broker's rack; replicas span racks, and consumers with the same client.rack prefer this broker
    etcd: tuple[str, ...] = ("127.0.0.1:9600",)
    etcd_tls_ca: PurePath = NO_FILE
    etcd_tls_certificate: PurePath = NO_FILE
    etcd_tls_key: PurePath = NO_FILE
    etcd_user: str = ""
    etcd_password_file: PurePath = NO_FILE
    lease_ttl_s: int = 6
    checkpoint_interval_s: float = 5.0  # seconds between writes of high watermarks and recovery points
    retention_check_interval_s: float = 300.0  # seconds between checks for segments past their retention
    internal_tls_certificate: PurePath = NO_FILE  # PEM file with this service's certificate for gRPC
    internal_tls_key: PurePath = NO_FILE  # PEM file with the certificate's private key
    internal_tls_ca: PurePath = NO_FILE  # PEM file with the authorities whose certificates other services must have
    log_level: str = "INFO"

    def __post_init__(self) -> None:
        """Raise INVALID_CONFIG for mistakes that would be found out only later, and by others."""
        if self.kafka_listeners and self.kafka_port != _KAFKA_PORT:
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"kafka_port={self.kafka_port} can't be set together with kafka_listeners",
                hint="leave kafka_port out: kafka_listeners sets the ports",
            )
        if any(listener.expects_login for listener in self.kafka):
            self._check_logins()
        self._check_tls()
        _ = self.authorizer
        check_ports_differ(self.kafka, {"port, for gRPC,": self.port, "admin_port": self.admin_port})

    @property
    def kafka(self) -> tuple[KafkaListener, ...]:
        """These are the Kafka listeners, in the order of the settings."""
        return read_listeners(
            self.host,
            self.kafka_port,
            self.kafka_listeners,
            self.kafka_advertised,
            self.kafka_listener_protocols,
            self.ssl_client_auth,
        )

    @property
    def tls(self) -> TlsSettings | None:
        """These are the settings of the listeners with TLS, or None if there are none."""
        if not any(listener.has_tls for listener in self.kafka):
            return None
        return read_tls(
            (_path(self.ssl_keystore_location), self.ssl_keystore_type),
            (_path(self.ssl_truststore_location), self.ssl_truststore_type),
            _path(self.ssl_key_password_file),
            self.ssl_enabled_protocols,
            self.ssl_cipher_suites,
            self.ssl_principal_mapping_rules,
        )

    @property
    def kafka_endpoints(self) -> tuple[Endpoint, ...]:
        """These are the Kafka listeners, for the check that none of them is open to a network by mistake."""
        return tuple(
            Endpoint(
                f"the Kafka listener {each.name}",
                each.bound.host,
                "it would serve clients in plaintext",
                "give it SASL_SSL or SSL in kafka_listener_protocols",
            )
            for each in self.kafka
            if not each.has_tls
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of settings that are allowed, but that an administrator should know of."""
        in_clear = [each.name for each in self.kafka if each.expects_login and not each.has_tls]
        if not in_clear or PLAIN not in self.sasl_enabled_mechanisms:
            return ()
        warning = (
            f"whoever can read the network learns the passwords of clients that log in with PLAIN at {in_clear[0]}, "
            "because this listener has no TLS; give it SASL_SSL, or leave PLAIN out of sasl_enabled_mechanisms"
        )
        return (warning,)

    @property
    def authorizer(self) -> AuthorizerSettings | None:
        """These are the settings of the authorizer, or None if no request is checked."""
        return read_authorizer(
            self.authorizer_class_name,
            self.super_users,
            allow_everyone_if_no_acl_found=self.allow_everyone_if_no_acl_found,
        )

    def _check_logins(self) -> None:
        all_have_tls = all(listener.has_tls for listener in self.kafka if listener.expects_login)
        check_mechanisms(self.sasl_enabled_mechanisms, plain_is_protected=all_have_tls or self.sasl_plain_without_tls)
        if self.sasl_credentials_file == NO_FILE:
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                "a listener expects a login, and there are no credentials",
                hint="set sasl_credentials_file to a file with the users' SCRAM credentials",
            )
        if self.connection_failed_authentication_delay_ms < 0:
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                "connection_failed_authentication_delay_ms is less than 0",
                hint="set it to milliseconds, such as 100",
            )

    def _check_tls(self) -> None:
        tls = self.tls
        asking = [listener.name for listener in self.kafka if listener.client_auth is not ClientAuth.NONE]
        if tls is not None and not tls.truststore and asking:
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"the listener {asking[0]} asks for certificates (ssl_client_auth), and none would be trusted",
                hint="set ssl_truststore_location to a PEM file with the authorities that sign them",
            )


def _path(file: PurePath) -> str:
    """Return the path, or an empty text for a setting that is not set."""
    return "" if file == NO_FILE else str(file)
