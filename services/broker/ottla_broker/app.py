"""The broker's parts, put together.

The admin port comes first, so that a start that waits can be asked why. Then metadata, then the data directory, whose
`meta.properties` says who this broker is; then the logs, the ports of both protocols, and last the registration: from
then on it may be given leaders.
"""

from __future__ import annotations

import uuid

from ottla_broker.config import BrokerConfig
from ottla_broker.data_directory import DataDirectory
from ottla_broker.disk_room import DiskRoom
from ottla_broker.disk_threads import DiskThreads
from ottla_broker.kafka.dispatch import AroundApi, unchanged
from ottla_broker.kafka.wiring import KafkaSide
from ottla_broker.maintenance import Maintenance
from ottla_broker.membership.controlled_shutdown import ControlledShutdown
from ottla_broker.membership.own_registration import OwnRegistration
from ottla_broker.membership.registration import Registration
from ottla_broker.membership.restored_metadata import OlderMetadata
from ottla_broker.membership.startup_readiness import Fitness
from ottla_broker.metrics import add_gauges
from ottla_broker.peers.advertised_addresses import Addresses
from ottla_broker.peers.coordinator_peers import CoordinatorPeers
from ottla_broker.producer_ids import ProducerIds
from ottla_broker.registration_view import Seat
from ottla_broker.replication.follower_epochs import Lives
from ottla_broker.replication.isr_changes import IsrChanges
from ottla_broker.replication.replica_fetcher import Replication
from ottla_broker.replication.replicas import Replicas
from ottla_broker.service import BrokerService
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.soundness import Life
from ottla_core.admin_http import AdminHttp
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.following import Following
from ottla_core.cluster.image import Broker, LastLife
from ottla_core.cluster.proof import new_secret
from ottla_core.cluster.store import MetaStore
from ottla_core.errors import OttlaError
from ottla_core.lifecycle import App, Component
from ottla_core.rpc.server import Around, RpcServer, as_it_is
from ottla_core.telemetry import Metrics
from ottla_proto import contracts


def build(
    config: BrokerConfig,
    *,
    store: MetaStore | None = None,
    clock: Clock | None = None,
    around: Around = as_it_is,
    around_kafka: AroundApi = unchanged,
) -> App:
    """A broker. It has its own connection to etcd unless a `store` is given, which stays the caller's.

    Tests give a store, a clock and what is to be around each method and each API of Kafka's that is served.
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

    def log_dir() -> LogDir:
        return directory.log_dir

    controller, threads = ControllerPeer(follower), DiskThreads()
    coordinators = CoordinatorPeers(follower)
    directory = DataDirectory(config, follower, controller, clock, lambda: replicas.high_watermarks())
    replicas = Replicas(follower, log_dir, clock, threads, on_fatal, lambda: registration.registered)
    incarnation = uuid.uuid4().hex
    seat = Seat(follower, incarnation, lambda: log_dir().identity.node_id, new_secret())
    own = OwnRegistration(store, follower, lambda: log_dir().identity.node_id, incarnation)
    older_metadata = OlderMetadata(own)
    replicas.on_older_metadata(older_metadata.found)
    isr_changes, replication = IsrChanges(controller, seat), Replication(replicas, follower, seat)
    replicas.on_proposal(isr_changes.submit, isr_changes.forget)
    producer_ids = ProducerIds(controller, seat)
    addresses, lives = Addresses(config.published_hosts), Lives(follower, clock)
    service = BrokerService(replicas, follower, log_dir, addresses, producer_ids, lives, seat)
    server.add(contracts.Broker, service)
    kafka = KafkaSide(
        config,
        replicas,
        follower,
        controller,
        coordinators,
        producer_ids,
        log_dir,
        clock,
        threads,
        metrics,
        around_kafka,
    )

    def address() -> str:
        return f"{config.advertised_host or config.host}:{server.port}"

    def describe(newest: LastLife | None) -> Broker:
        identity = log_dir().identity
        life = None if newest is None else Life(newest.incarnation, newest.epoch)
        if (life is None or life.incarnation != incarnation) and log_dir().compare(life):
            older_metadata.found(0 if life is None else life.epoch)
        return Broker(
            identity.node_id,
            0,
            identity.directory_id,
            address(),
            kafka_address=kafka.address(),
            kafka_listeners=kafka.addresses(),
            rack=config.rack,
            incarnation=incarnation,
            unclean=log_dir().may_have_lost_tail,
            read_only=bool(log_dir().disk.full),
            ahead_of=older_metadata.revision,
            secret=seat.secret,
        )

    async def fit(revision: int, epoch: int) -> None:
        await fitness.until(revision, Life(incarnation, epoch))

    fitness = Fitness(replicas, log_dir, threads)
    lost = metrics.counter("ottla_leases_lost_total", "Sessions that ended while the process ran.")
    registration = Registration(
        store, config.cluster_id, lambda: log_dir().identity.node_id, config.lease_ttl_s, describe, fit, on_fatal, lost
    )
    follower.on_change(registration.on_image)

    def ready() -> str | None:
        if follower.image.revision == 0:
            return "there is no metadata yet: etcd has not answered"
        return None if registration.registered else "not registered yet"

    add_gauges(metrics, follower, replicas, replication)
    components: list[Component] = [
        AdminHttp(config.host, config.admin_port, metrics, ready),
        Following(follower, store if own_store else None),
        controller,
        coordinators,
        threads,
        directory,
        DiskRoom(own, log_dir, threads),
        older_metadata,
        replicas,
        isr_changes,
        producer_ids,
        Maintenance(config, replicas, log_dir, clock, threads, on_fatal),
        server,
        kafka.listener,
        replication,
        registration,
        ControlledShutdown(controller, replicas, seat),
    ]
    app = App(f"broker-{config.node_id}", components, ready, address, {"kafka": kafka.address}, metrics=metrics)
    return app
