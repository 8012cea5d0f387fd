"""The broker's parts, put together.

The admin port comes first, so that a start that waits can be asked why. Then metadata, then the data directory, whose
`meta.properties` says who this broker is; then the logs, the contract's port, and last the registration: from then on
clients come.
"""

from __future__ import annotations

import uuid

from ottla_broker.addresses import Addresses
from ottla_broker.config import BrokerConfig
from ottla_broker.data_directory import DataDirectory
from ottla_broker.maintenance import Maintenance
from ottla_broker.registration import Registration
from ottla_broker.replicas import Replicas
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
    server = RpcServer(config.host, config.port, metrics, ready=lambda: ready(), around=around)

    def on_fatal(error: OttlaError) -> None:
        app.fail(error)

    directory = DataDirectory(config, follower, clock, lambda: replicas.high_watermarks())
    replicas = Replicas(follower, lambda: directory.log_dir, clock, on_fatal)
    server.add(
        contracts.Broker,
        BrokerService(replicas, follower, lambda: directory.log_dir, Addresses(config.published_hosts)),
    )

    def address() -> str:
        return f"{config.advertised_host or config.host}:{server.port}"

    incarnation = uuid.uuid4().hex

    def describe() -> Broker:
        identity = directory.log_dir.identity
        return Broker(identity.node_id, 0, identity.directory_id, address(), rack=config.rack, incarnation=incarnation)

    registration = Registration(
        store, config.cluster_id, config.lease_ttl_s, describe, replicas.until_applied, on_fatal
    )
    follower.on_change(registration.on_image)

    def ready() -> str | None:
        if follower.image.revision == 0:
            return "there is no metadata yet: etcd has not answered"
        return None if registration.registered else "not registered yet"

    metrics.gauge("ottla_broker_partitions", "Replicas on this broker.", lambda: float(len(replicas.all())))
    metrics.gauge("ottla_broker_parked_fetches", "Fetches that wait for data.", lambda: float(len(replicas.waiters)))
    metrics.gauge("ottla_metadata_revision", "Revision of the own image.", lambda: float(follower.image.revision))
    metrics.gauge("ottla_metadata_staleness_seconds", "Since etcd was last heard of.", lambda: follower.staleness_s)
    components: list[Component] = [
        AdminHttp(config.host, config.admin_port, metrics, ready),
        Following(follower, store if own_store else None),
        directory,
        replicas,
        Maintenance(config, replicas, lambda: directory.log_dir, clock),
        server,
        registration,
    ]
    app = App(f"broker-{config.node_id}", components, ready, address)
    return app
