"""The broker's parts, put together.

The admin port comes first, so that a start that waits can be asked why. Then metadata, then the data directory, whose
`meta.properties` says who this broker is; then the logs, the contract's port, and last the registration: from then on
clients come.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from typing import Final

from ottla_broker.addresses import Addresses
from ottla_broker.config import BrokerConfig
from ottla_broker.controlled_shutdown import ControlledShutdown
from ottla_broker.controller_peer import ControllerPeer
from ottla_broker.data_directory import DataDirectory
from ottla_broker.disk_threads import DiskThreads
from ottla_broker.isr_changes import IsrChanges
from ottla_broker.kafka.addresses import KafkaAddresses
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.dispatch import Dispatcher
from ottla_broker.kafka.fetch_sessions import FetchSessions
from ottla_broker.kafka.listener import Listener
from ottla_broker.machines.departure import is_relied_upon
from ottla_broker.maintenance import Maintenance
from ottla_broker.producer_ids import ProducerIds
from ottla_broker.registration import Registration
from ottla_broker.replicas import Replicas
from ottla_broker.replication import Replication
from ottla_broker.seat import Seat
from ottla_broker.service import BrokerService
from ottla_core.admin_http import AdminHttp
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.following import Following
from ottla_core.cluster.image import Broker
from ottla_core.cluster.store import MetaStore
from ottla_core.errors import OttlaError
from ottla_core.lifecycle import App, Component
from ottla_core.rpc.server import Around, RpcServer, as_it_is
from ottla_core.telemetry import Metrics
from ottla_proto import contracts

_FIT_LIMIT_S: Final = 60.0
_MAX_SESSION_ID: Final = 2**31 - 1


def build(
    config: BrokerConfig, *, store: MetaStore | None = None, clock: Clock | None = None, around: Around = as_it_is
) -> App:
    """A broker. It has its own connection to etcd unless a `store` is given, which stays the caller's.

    Tests give a store, a clock and what is to be `around` each method that is served.
    """
    clock = clock or SystemClock()
    metrics = Metrics()
    own_store = store is None
    store = store or EtcdStore(config.etcd)
    follower = MetadataFollower(store, config.cluster_id)
    server = RpcServer(
        config.host,
        config.port,
        metrics,
        ready=lambda: ready(),
        around=around,
        on_drain=lambda: replicas.drain(),
    )

    def on_fatal(error: OttlaError) -> None:
        app.fail(error)

    controller, threads = ControllerPeer(follower), DiskThreads()
    directory = DataDirectory(config, follower, controller, clock, lambda: replicas.high_watermarks())
    replicas = Replicas(follower, lambda: directory.log_dir, clock, threads, on_fatal)
    incarnation = uuid.uuid4().hex

    seat = Seat(follower, incarnation, lambda: directory.log_dir.identity.node_id)
    isr_changes, replication = IsrChanges(controller, seat), Replication(replicas, follower, seat)
    replicas.on_proposal(isr_changes.submit, isr_changes.forget)
    addresses = Addresses(config.published_hosts)
    producer_ids = ProducerIds(controller, seat)
    service = BrokerService(replicas, follower, lambda: directory.log_dir, addresses, producer_ids)
    server.add(contracts.Broker, service)

    host = config.advertised_host or config.host
    kafka_addresses = KafkaAddresses(host, config.kafka_advertised)
    sessions = FetchSessions(lambda: secrets.randbelow(_MAX_SESSION_ID) + 1)
    backend = Backend(
        replicas,
        follower,
        service,
        controller,
        producer_ids,
        kafka_addresses,
        sessions,
        lambda: directory.log_dir.identity.node_id,
        lambda: directory.log_dir,
    )
    kafka = Listener(
        config.host,
        config.kafka_port,
        Dispatcher(backend, metrics),
        metrics,
        on_drain=lambda: replicas.drain(),
    )

    def address() -> str:
        return f"{host}:{server.port}"

    def describe() -> Broker:
        identity, unclean = directory.log_dir.identity, directory.log_dir.may_have_lost_tail
        return Broker(
            identity.node_id,
            0,
            identity.directory_id,
            address(),
            kafka_address=kafka_addresses.own(kafka.port),
            rack=config.rack,
            incarnation=incarnation,
            unclean=unclean,
        )

    async def until_fit(revision: int) -> None:
        """Until this broker may be given leaders: it knows what it has, and is trusted with no more than that."""
        await replicas.until(lambda image: image.revision >= revision, timeout=_FIT_LIMIT_S)
        me, log_dir = directory.log_dir.identity.node_id, directory.log_dir
        if log_dir.may_have_lost_tail:
            await replicas.until(lambda image: not is_relied_upon(image, me), timeout=_FIT_LIMIT_S)
            await threads.keep(log_dir.vouch)

    registration = Registration(store, config.cluster_id, config.lease_ttl_s, describe, until_fit, on_fatal)
    follower.on_change(registration.on_image)

    def ready() -> str | None:
        if follower.image.revision == 0:
            return "there is no metadata yet: etcd has not answered"
        return None if registration.registered else "not registered yet"

    metrics.gauge("ottla_broker_partitions", "Replicas on this broker.", lambda: float(len(replicas.all())))
    metrics.gauge("ottla_broker_parked_fetches", "Fetches that wait for data.", lambda: float(len(replicas.consumers)))
    add_replication_metrics(metrics, replicas, replication)
    metrics.gauge("ottla_metadata_revision", "Revision of the own image.", lambda: float(follower.image.revision))
    metrics.gauge("ottla_metadata_staleness_seconds", "Since etcd was last heard of.", lambda: follower.staleness_s)
    components: list[Component] = [
        AdminHttp(config.host, config.admin_port, metrics, ready),
        Following(follower, store if own_store else None),
        controller,
        threads,
        directory,
        replicas,
        isr_changes,
        producer_ids,
        Maintenance(config, replicas, lambda: directory.log_dir, clock, threads, on_fatal),
        server,
        kafka,
        replication,
        registration,
        ControlledShutdown(controller, replicas, seat),
    ]
    listeners = {"kafka": lambda: kafka_addresses.own(kafka.port)}
    app = App(f"broker-{config.node_id}", components, ready, address, listeners)
    return app


def add_replication_metrics(metrics: Metrics, replicas: Replicas, replication: Replication) -> None:
    """Kafka's ReplicaManager figures."""
    gauges: dict[str, tuple[str, Callable[[], float]]] = {
        "leaders": ("Partitions that this broker leads.", lambda: sum(r.leads for r in replicas.all())),
        "under_replicated_partitions": (
            "Led partitions with replicas out of sync.",
            lambda: sum(r.is_under_replicated for r in replicas.all()),
        ),
        "under_min_isr_partitions": (
            "Led partitions that refuse acks=all.",
            lambda: sum(r.is_under_min_isr for r in replicas.all()),
        ),
        "replica_lag_records": ("Largest lag of a follower here behind its leader.", lambda: float(replication.lag())),
    }
    for name, (help_text, value) in gauges.items():
        metrics.gauge(f"ottla_broker_{name}", help_text, value)
