"""Logs in at one member of etcd, and keeps the user's token, which etcd forgets after a while and when the user
changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_core.security.secret import Secret

AGAIN_S: Final = 1.0
"""A refused password is not tried again for so long, because etcd takes 100 ms of a processor to compare one."""

Authenticate = Callable[[str, Secret, float], Awaitable[str]]
"""It asks etcd for a token for this user and password, and may take so many seconds. The token is empty if etcd has its
authentication switched off."""


class WrongPasswordError(Exception):
    """etcd does not know the user, or the password is wrong."""


class EtcdLogin:
    """Keeps the token until etcd no longer takes it. Calls that need a token at the same time share one login."""

    def __init__(
        self, security: EtcdSecurity, authenticate: Authenticate, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._security: Final = security
        self._authenticate: Final = authenticate
        self._clock: Final = clock
        self._lock: Final = asyncio.Lock()
        self._token: str | None = None if security.user else ""
        self._refused: tuple[Secret, float, WrongPasswordError] | None = None  # with the time of the next try

    async def token(self, timeout: float) -> str:
        """Return the token, or an empty text if there is no user.

        Raises TimeoutError, INVALID_CONFIG if the password can't be read, and what `authenticate` raises.
        """
        if self._token is None:
            async with asyncio.timeout(timeout), self._lock:
                if self._token is None:
                    self._token = await self._log_in(self._security.password(), timeout)
        return self._token

    def forget(self, token: str) -> None:
        """Get a new token for the next call, because etcd did not take this one. A newer token stays."""
        if self._security.user and self._token == token:
            self._token = None

    async def _log_in(self, password: Secret, timeout: float) -> str:
        if self._refused is not None:
            refused, again_at, error = self._refused
            if password == refused and self._clock() < again_at:
                raise error
        try:
            return await self._authenticate(self._security.user, password, timeout)
        except WrongPasswordError as error:
            self._refused = password, self._clock() + AGAIN_S, error
            raise
