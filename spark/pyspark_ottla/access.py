"""How the clients of a query reach the cluster, in whichever process Spark makes them.

Spark may write options to plans, event logs and checkpoints, and sends what a reader or writer has to executors. So
this has no password. It says where the driver and each executor find it: in a file, an environment variable or a
profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.connect import Profile, Security, load_profile, merged_security
from ottla.errors import config_error


@dataclass(frozen=True, slots=True)
class Access:
    """Addresses of brokers, and either settings under Kafka's names or the name of a profile, "" for none."""

    bootstrap: str
    settings: tuple[tuple[str, str], ...] = ()
    profile: str = ""

    def security(self) -> Security:
        """Find the login and the TLS in this process. Raises ConfigError if something is missing here."""
        config = profile_without_commands(self.profile).config() if self.profile else dict(self.settings)
        return merged_security(None, None, config)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a client that is made in this process. Raises ConfigError."""
        security = self.security()
        return {"bootstrap": self.bootstrap, "login": security.login, "tls": security.tls}


def profile_without_commands(name: str) -> Profile:
    """Return the profile of that name. Raises ConfigError, also if it has a command for its password."""
    profile = load_profile(name)
    if profile.runs_commands:
        raise config_error(
            f"profile {name!r} has a command for its password, which each of Spark's processes would run",
            hint="use a profile with sasl.password.file or sasl.password.env",
        )
    return profile
