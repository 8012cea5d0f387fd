"""Secures ottla clusters in tests: certificates, users, and the settings of brokers and clients."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from certificates import Authority, Certificate
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from users import Users

import ottla

ADMIN: Final = "admin"
ADMIN_PASSWORD: Final = "admin-of-tests-99"
USER: Final = "alice"
PASSWORD: Final = "alice-wonder-17"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS: Final = 4096
_HOST: Final = "127.0.0.1"
_LIMIT_S: Final = 30.0
_RESOURCES: Final = (
    *((kind, "*") for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)),
    (ResourceType.BROKER, "kafka-cluster"),
)
"""librdkafka calls the whole cluster a broker."""


class Security:
    """Secured clusters share an authority, the brokers' certificate, and the first users. These are the super user
    ADMIN, and USER, who has the ACLs that `allow` creates. `protocol` is Kafka's security.protocol: SASL_SSL, or SSL
    with the clients' certificates."""

    def __init__(self, folder: Path, protocol: str = "SASL_SSL") -> None:
        self.protocol: Final = protocol
        self._folder: Final = folder
        self.authority: Final = Authority(folder / "authority")
        self._keystore: Final = folder / "keystore.pem"
        self._issued = 0
        self._credentials: Final = Users({ADMIN: ADMIN_PASSWORD, USER: PASSWORD}).write(folder / "users.toml")
        self.renew()

    @property
    def of_brokers(self) -> dict[str, Any]:
        """These are the settings of a broker."""
        settings: dict[str, Any] = {
            "kafka_listener_protocols": (f"PLAINTEXT:{self.protocol}",),
            "ssl_keystore_location": self._keystore,
            "authorizer_class_name": "StandardAuthorizer",
            "super_users": f"User:{ADMIN};User:CN={ADMIN}",
        }
        if self.protocol == "SSL":
            return settings | {
                "ssl_truststore_location": self.authority.certificate,
                "ssl_client_auth": ("required",),
            }
        return settings | {"sasl_enabled_mechanisms": MECHANISMS, "sasl_credentials_file": self._credentials}

    def renew(self) -> None:
        """Replace the brokers' certificate, as a tool that renews it would do."""
        self._issued += 1
        issued = self.authority.issue(f"broker-{self._issued}", f"IP:{_HOST}", "DNS:localhost")
        new = self._keystore.with_suffix(".new")
        new.touch(0o600)
        new.write_bytes(issued.both.read_bytes())
        os.replace(new, self._keystore)

    def of_client(
        self, user: str = USER, mechanism: str = "SCRAM-SHA-512", password: str | None = None
    ) -> dict[str, str]:
        """Return the settings of a client, by librdkafka's names."""
        found = {"security.protocol": self.protocol, "ssl.ca.location": str(self.authority.certificate)}
        if self.protocol == "SSL":
            own = self._certificate(user)
            return found | {"ssl.certificate.location": str(own.certificate), "ssl.key.location": str(own.key)}
        known = ADMIN_PASSWORD if user == ADMIN else PASSWORD
        return found | {
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": known if password is None else password,
        }

    def with_a_file(self, bootstrap: str) -> dict[str, str]:
        """Return the settings of a client that reads its password from a file, with the addresses."""
        settings = self.of_client()
        password = self._folder / "password"
        password.touch(0o600)
        password.write_text(settings.pop("sasl.password"))
        return {"bootstrap.servers": bootstrap, **settings, "sasl.password.file": str(password)}

    def arguments(self, bootstrap: str) -> dict[str, Any]:
        """Return the arguments of a client of the SDK that logs in."""
        tls = ottla.Tls(self.authority.certificate)
        return {"bootstrap": bootstrap, "login": ottla.Scram(USER, PASSWORD), "tls": tls}

    def admin(self, bootstrap: str) -> AdminClient:
        """Return a client of the super user."""
        return AdminClient({"bootstrap.servers": bootstrap, **self.of_client(ADMIN)})

    def allow(self, bootstrap: str, user: str = USER) -> None:
        """Create ACLs that let a user do everything."""
        principal = f"User:CN={user}" if self.protocol == "SSL" else f"User:{user}"
        bindings = [
            AclBinding(
                kind, name, ResourcePatternType.LITERAL, principal, "*", AclOperation.ALL, AclPermissionType.ALLOW
            )
            for kind, name in _RESOURCES
        ]
        admin = self.admin(bootstrap)  # a client that nobody holds ends its calls
        for created in admin.create_acls(bindings, request_timeout=_LIMIT_S).values():
            created.result(_LIMIT_S)

    def set_password(self, bootstrap: str, user: str, password: str) -> None:
        """Change the password of a user, for both mechanisms of SCRAM and for PLAIN. The request is repeated while a
        broker is away."""
        changes: list[Any] = [
            UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, ITERATIONS), password.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        admin = self.admin(bootstrap)
        for changed in admin.alter_user_scram_credentials(changes, request_timeout=_LIMIT_S).values():
            changed.result(_LIMIT_S)

    def _certificate(self, user: str) -> Certificate:
        folder = self._folder / "authority"
        made = Certificate(*(folder / f"{user}{end}" for end in (".pem", ".key", "-both.pem")))
        return made if made.both.exists() else self.authority.issue(user)
