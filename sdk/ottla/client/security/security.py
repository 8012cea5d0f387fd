"""How a client protects its connections: its login and its TLS."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ottla.client.security.logins import Login, OAuthBearer, Plain, Scram
from ottla.client.security.tls import Tls
from ottla.errors import config_error


class Security(NamedTuple):
    """None means that there is no login, or no TLS."""

    login: Login | None = None
    tls: Tls | None = None

    @property
    def protocol(self) -> str:
        """Kafka's security.protocol."""
        kind = "SSL" if self.tls is not None else "PLAINTEXT"
        return kind if self.login is None else f"SASL_{kind}"


PLAINTEXT: Final = Security()


def security_of(login: Any, tls: Any) -> Security:
    """Return the arguments `login` and `tls` of a client, checked. Raises ConfigError."""
    if login is not None and not isinstance(login, Plain | Scram | OAuthBearer):
        raise config_error(
            f"login is a {type(login).__name__}, which is no way to log in",
            hint="pass an ottla.Scram, ottla.Plain or ottla.OAuthBearer",
        )
    if tls in (None, False, True):
        return Security(login, Tls() if tls else None)
    if not isinstance(tls, Tls):
        raise config_error(f"tls is a {type(tls).__name__}", hint="pass True, or an ottla.Tls")
    return Security(login, tls)


def security_with(transport: object) -> Security:
    """Return the security of a transport's connections."""
    security: Security = getattr(transport, "security", PLAINTEXT)
    return security
