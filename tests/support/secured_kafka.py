"""Apache Kafka with TLS, logins and its authorizer: the users of a test, and the files of their certificates."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from certificates import Authority
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from peers.kafka.jars import VERSION
from peers.kafka.server import KafkaServer

import ottla

USERS: Final = {"alice": "alice-wonder-17", "bob": "bob-builder-23", "eve": "eve-dropper-42"}
"""Passwords by user. The authorizer allows alice and bob what the tests do, and eve nothing."""
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
NOT_ENABLED: Final = ("SASL_PLAINTEXT", "SCRAM-SHA-512")
"""This listener does not have this mechanism."""
LISTENERS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
HOST: Final = "127.0.0.1"
_TOKEN_S: Final = 60
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


class SecuredKafka:
    """Makes the certificates in a folder. `server` is Kafka, which a test starts."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 1,
        version: str = VERSION,
        reauthenticates_ms: int = 0,
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.authority: Final = Authority(folder / "authority")
        self.stranger: Final = Authority(folder / "stranger", "Strange CA")
        self.client: Final = self.authority.issue("client")
        of_broker = self.authority.issue("broker", f"IP:{HOST}")
        self.server: Final = KafkaServer(
            folder / "kafka",
            nodes=nodes,
            version=version,
            heap="512m",
            scram=[
                f"{mechanism}=[name={user},password={password}]"
                for mechanism in MECHANISMS
                if mechanism.startswith("SCRAM")
                for user, password in USERS.items()
            ],
            listeners=LISTENERS,
            settings={
                "group.initial.rebalance.delay.ms": 0,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                # The brokers' own listeners have no logins.
                "super.users": "User:ANONYMOUS",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.sasl_plaintext.sasl.enabled.mechanisms": ",".join(
                    mechanism for mechanism in MECHANISMS if mechanism not in NOT_ENABLED
                ),
                "connections.max.reauth.ms": reauthenticates_ms,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": of_broker.both,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.authority.certificate,
                "listener.name.ssl.ssl.client.auth": "required",
                **{
                    f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config": _jaas(mechanism)
                    for listener in LISTENERS
                    if "SASL" in listener
                    for mechanism in MECHANISMS
                },
                **settings,
            },
        )

    @property
    def tls(self) -> ottla.Tls:
        return ottla.Tls(ca=self.authority.certificate)

    def allow(self, *principals: str) -> None:
        """Let them use all topics, groups and transactional ids."""
        bindings = [
            AclBinding(
                kind, "*", ResourcePatternType.LITERAL, principal, "*", AclOperation.ALL, AclPermissionType.ALLOW
            )
            for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
            for principal in principals
        ]
        admin = AdminClient({"bootstrap.servers": self.server.bootstrap})
        for made in admin.create_acls(bindings).values():
            made.result()

    def settings(self, listener: str, mechanism: str, **password: str) -> dict[str, str]:
        """Return what alice sets under Kafka's names. `password` says where hers is: `file`, or `env`."""
        found = {
            "bootstrap.servers": self.server.bootstrap_of(listener),
            "security.protocol": listener,
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            **{f"sasl.password.{kind}": where for kind, where in password.items()},
        }
        return found | ({"ssl.truststore.location": str(self.authority.certificate)} if "SSL" in listener else {})

    def arguments(self, listener: str, mechanism: str, user: str = "alice") -> dict[str, Any]:
        """Return the arguments of a client that logs in."""
        arguments: dict[str, Any] = {"bootstrap": self.server.bootstrap_of(listener)}
        if "SASL" in listener:
            arguments["login"] = login(mechanism, user)
        if "SSL" in listener:
            arguments["tls"] = self.tls
        return arguments


def private_file(path: Path, text: str) -> Path:
    """Write a file that only its owner can read."""
    path.touch(0o600)
    path.write_text(text)
    return path


def login(mechanism: str, user: str = "alice", password: str | None = None) -> Any:
    """Return the login of a user by a mechanism."""
    password = password or USERS[user]
    match mechanism:
        case "PLAIN":
            return ottla.Plain(user, password)
        case "SCRAM-SHA-256" | "SCRAM-SHA-512":
            return ottla.Scram(user, password, mechanism)
        case _:
            return ottla.OAuthBearer(lambda: token(user))


def token(user: str) -> str:
    """Return a token without a signature, as Kafka takes it if nothing else is set."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + _TOKEN_S})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def _jaas(mechanism: str) -> str:
    options = ""
    if mechanism == "PLAIN":
        options = "".join(f' user_{user}="{password}"' for user, password in USERS.items())
    if mechanism == "OAUTHBEARER":
        options = ' unsecuredLoginStringClaim_sub="broker"'
    return f"{_LOGIN_MODULES[mechanism]} required{options};"
