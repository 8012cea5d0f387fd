"""A broker finds its users' credentials through this port."""

from __future__ import annotations

from typing import Protocol

from ottla_core.security.scram import Mechanism, ScramCredential


class Credentials(Protocol):
    def find(self, user: str, mechanism: Mechanism) -> ScramCredential | None:
        """Return the user's credential for the mechanism, or None if there is none. It is looked up in memory."""
        ...
