"""The Kafka listener is put together here: what `app` adds to a broker for Kafka's own protocol."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from ottla_broker.kafka.apis import served
from ottla_broker.kafka.authorization.current_authorizer import CurrentAuthorizer
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.dispatch import AroundApi, Dispatcher
from ottla_broker.kafka.fetch_sessions import FetchSessions
from ottla_broker.kafka.keystore import Keystore
from ottla_broker.kafka.logins import Logins
from ottla_broker.kafka.network.limits import configured
from ottla_broker.kafka.network.listener import Listener
from ottla_broker.listener_settings import KafkaListener
from ottla_broker.replication.fetch_purgatory import FetchPurgatory
from ottla_core.cluster.broker_values import broker_values
from ottla_core.telemetry import Metrics

_MAX_SESSION_ID: Final = 2**31 - 1


class KafkaSide:
    """The listener is a component, and `addresses()` is what the registration says of it."""

    def __init__(
        self,
        listeners: Sequence[KafkaListener],
        backend: Backend,
        metrics: Metrics,
        around: AroundApi,
        *,
        unstable: bool,
        logins: Logins,
        authorizer: CurrentAuthorizer | None = None,
        keystore: Keystore | None = None,
    ) -> None:
        self._addresses: Final = backend.addresses
        dispatcher = Dispatcher(backend, metrics, around, served(unstable=unstable), authorizer)
        on_drain = backend.replicas.table.drain
        self.listener: Final = Listener(
            listeners,
            dispatcher,
            metrics,
            configured=lambda limits: configured(limits, broker_values(backend.image, backend.node_id)),
            on_drain=on_drain,
            new_login=logins.new,
            tls=None if keystore is None else keystore.identity,
        )

    def addresses(self) -> dict[str, str]:
        """Return host:port by the listeners' names, the first one first."""
        return self._addresses.own(self.listener.ports)

    def address(self) -> str:
        """Return the address of the first listener, for callers that know only one."""
        return next(iter(self.addresses().values()))


def fetch_sessions(purgatory: FetchPurgatory) -> FetchSessions:
    return FetchSessions(lambda: secrets.randbelow(_MAX_SESSION_ID) + 1, purgatory)
