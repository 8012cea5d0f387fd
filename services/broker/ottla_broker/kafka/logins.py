"""The logins (SASL) of a broker's clients: which mechanisms they have, and how they are carried out."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from ottla_broker.kafka.network.connection import CloseConnectionError
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.errors import OttlaError
from ottla_core.kafka.messages import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from ottla_core.security.candidates import Candidates
from ottla_core.security.credentials import Credentials
from ottla_core.security.exchange import Derivation, Exchange
from ottla_core.security.login import Login, LoginAction, LoginRequest
from ottla_core.security.plain import PLAIN, PlainExchange
from ottla_core.security.scram import MECHANISMS, Mechanism
from ottla_core.security.scram_exchange import ScramExchange

_NONCE_BYTES: Final = 24
_SECRET_BYTES: Final = 32
_REQUESTS: Final[Mapping[int, LoginRequest]] = {
    ApiVersionsRequest.API_KEY: LoginRequest.API_VERSIONS,
    SaslHandshakeRequest.API_KEY: LoginRequest.HANDSHAKE,
    SaslAuthenticateRequest.API_KEY: LoginRequest.AUTHENTICATE,
}


class Logins:
    """Makes the login of each new connection. Only the enabled mechanisms can be chosen.

    `secret` returns the cluster's secret for false salts. While it has none, this process has its own.
    """

    def __init__(
        self, enabled: Iterable[str], credentials: Credentials, failure_delay_s: float, secret: Callable[[], bytes]
    ) -> None:
        own = secrets.token_bytes(_SECRET_BYTES)
        candidates = Candidates(credentials, lambda: secret() or own)
        served: dict[str, Callable[[], Exchange]] = {
            **{mechanism: partial(_scram, mechanism, candidates) for mechanism in MECHANISMS},
            PLAIN: partial(PlainExchange, candidates),
        }
        self._mechanisms: Final = {mechanism: served[mechanism] for mechanism in enabled}
        self._failure_delay_s: Final = failure_delay_s

    def new(self) -> Login:
        return Login(self._mechanisms, self._failure_delay_s)


def _scram(mechanism: Mechanism, candidates: Candidates) -> ScramExchange:
    return ScramExchange(mechanism, candidates, secrets.token_urlsafe(_NONCE_BYTES))


def admit(login: Login, key: int) -> None:
    """Raise CloseConnectionError if a request of this API has no business in this state of the login."""
    if login.action(_REQUESTS.get(key, LoginRequest.OTHER)) is LoginAction.CLOSE:
        raise CloseConnectionError(
            f"a request of API {key} came before the login; check that the client's security.protocol begins with SASL"
        )


async def respond(login: Login, message: bytes, threads: DiskThreads) -> bytes:
    """Return the response to a message of the login's mechanism. Raises OttlaError once the delay of a failed login is
    over."""
    try:
        response = login.respond(message)
        if isinstance(response, Derivation):
            response = login.on_derived(response, await threads.derive(response.derive))
    except OttlaError:
        await after_failure(login)
        raise
    return response


async def after_failure(login: Login) -> None:
    """Wait as long as the answer to a failed login has to wait, so that a client can't try many passwords."""
    if login.failure:
        await asyncio.sleep(login.failure_delay_s)
