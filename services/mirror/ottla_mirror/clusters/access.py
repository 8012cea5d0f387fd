"""How clients reach a cluster: the addresses of its brokers, their login and their TLS."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from ottla.connect import PLAINTEXT, Security, merged_security
from ottla_mirror.machines.flows import ClusterSettings


class Access(NamedTuple):
    """Every client of a cluster is made with it."""

    bootstrap: list[str]
    security: Security = PLAINTEXT

    @classmethod
    def of(cls, settings: ClusterSettings) -> Self:
        """Find the passwords that the settings refer to. Raises ConfigError."""
        return cls(list(settings.bootstrap), merged_security(None, None, settings.security))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a client of the SDK."""
        return {"bootstrap": self.bootstrap, "login": self.security.login, "tls": self.security.tls}
