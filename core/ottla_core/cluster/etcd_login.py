"""The login at one member of etcd: a user's token, which etcd forgets after a while, when it restarts, and when its
users change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_core.security.secret import Secret

Authenticate = Callable[[str, Secret, float], Awaitable[str]]
"""Asks etcd for a token for this user and password, for so many seconds. The token is empty if etcd has its
authentication switched off."""


class EtcdLogin:
    """Keeps the token until etcd no longer takes it. Calls that need a token at the same time get one together."""

    def __init__(self, security: EtcdSecurity, authenticate: Authenticate) -> None:
        self._security: Final = security
        self._authenticate: Final = authenticate
        self._lock: Final = asyncio.Lock()
        self._token: str | None = None if security.user else ""

    async def token(self, timeout: float) -> str:
        """Return the token, or an empty text if there is no user.

        Raises TimeoutError, INVALID_CONFIG if the password can't be read, and what `authenticate` raises.
        """
        if self._token is None:
            async with asyncio.timeout(timeout), self._lock:
                if self._token is None:
                    password = self._security.password()
                    self._token = await self._authenticate(self._security.user, password, timeout)
        return self._token

    def forget(self, token: str) -> None:
        """Get a new token for the next call, because etcd did not take this one. A newer token stays."""
        if self._security.user and self._token == token:
            self._token = None
