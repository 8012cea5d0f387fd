"""The Kafka listener put together: what `app` adds to a broker for Kafka's own protocol."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from ottla_broker.config import BrokerConfig
from ottla_broker.disk_threads import DiskThreads
from ottla_broker.kafka.addresses import KafkaAddresses
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.dispatch import AroundApi, Dispatcher
from ottla_broker.kafka.fetch_sessions import FetchSessions
from ottla_broker.kafka.network.listener import Listener
from ottla_broker.peers.coordinator_peers import CoordinatorPeers
from ottla_broker.producer_ids import ProducerIdManager
from ottla_broker.replication.replicas import Replicas
from ottla_broker.storage.log_dir import LogDir
from ottla_core.clock import Clock
from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.telemetry import Metrics

_MAX_SESSION_ID: Final = 2**31 - 1


class KafkaSide:
    """The listener, a component, and `addresses()`: what the registration says of it."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: Replicas,
        metadata: MetadataFollower,
        controller: ControllerPeer,
        coordinators: CoordinatorPeers,
        producer_ids: ProducerIdManager,
        log_dir: Callable[[], LogDir],
        clock: Clock,
        threads: DiskThreads,
        metrics: Metrics,
        around: AroundApi,
    ) -> None:
        listeners = config.kafka
        self._addresses = KafkaAddresses(config.host, config.advertised_host, listeners)
        sessions = FetchSessions(lambda: secrets.randbelow(_MAX_SESSION_ID) + 1)
        backend = Backend(
            replicas,
            metadata,
            controller,
            coordinators,
            producer_ids,
            self._addresses,
            sessions,
            log_dir,
            clock,
            threads,
        )
        dispatcher = Dispatcher(backend, metrics, around)
        self.listener: Final = Listener(listeners, dispatcher, metrics, on_drain=replicas.drain)

    def addresses(self) -> dict[str, str]:
        """host:port by the listeners' names, the first one first."""
        return self._addresses.own(self.listener.ports)

    def address(self) -> str:
        """Of the first listener, for those who know one only."""
        return next(iter(self.addresses().values()))
