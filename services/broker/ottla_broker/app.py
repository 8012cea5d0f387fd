"""The broker's parts are made and connected here, and nowhere else.

Their order of start is a chain of what each one needs. The admin port comes first, so that a start that waits can be
inspected. Metadata comes next, then the data directory, whose `meta.properties` says who this broker is. The logs
follow and are recovered. Then the ports of both protocols open, the replica fetchers begin, and last comes the
registration: from then on the controller may give this broker leaders, and everything they need is running. A stop goes
the other way round, beginning with the controlled shutdown, which moves the leaders away while everything still runs.

Parts that need each other are connected by methods and lambdas, which look the other one up when they are called.
"""

from __future__ import annotations

import uuid

from ottla_broker.compaction.cleaner import LogCleaner
from ottla_broker.compaction.worker import Run, run_worker
from ottla_broker.config import BrokerConfig
from ottla_broker.kafka.addresses import KafkaAddresses
from ottla_broker.kafka.authorization.current_authorizer import CurrentAuthorizer
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.cluster_credentials import ClusterCredentials
from ottla_broker.kafka.credentials_file import CredentialsFile
from ottla_broker.kafka.dispatch import AroundApi, unchanged
from ottla_broker.kafka.keystore import Keystore
from ottla_broker.kafka.logins import Logins
from ottla_broker.kafka.process_configs import process_configs
from ottla_broker.kafka.wire.encoded_topics import EncodedTopics
from ottla_broker.kafka.wiring import KafkaSide, fetch_sessions
from ottla_broker.maintenance.background_work import Maintenance
from ottla_broker.maintenance.data_directory import DataDirectory
from ottla_broker.maintenance.disk_room import DiskRoom
from ottla_broker.membership.controlled_shutdown import ControlledShutdown
from ottla_broker.membership.description import BrokerDescription
from ottla_broker.membership.own_registration import OwnRegistration
from ottla_broker.membership.registration import Registration
from ottla_broker.membership.renewal_reports import RenewalReports
from ottla_broker.membership.restored_metadata import OlderMetadata
from ottla_broker.membership.startup_readiness import StartupReadiness
from ottla_broker.metrics import add_cleaner_metrics, add_metrics
from ottla_broker.peers.coordinator_peers import CoordinatorPeers
from ottla_broker.peers.mirrors import Mirrors
from ottla_broker.peers.registration_view import RegistrationView
from ottla_broker.peers.transactions import TransactionVerifier
from ottla_broker.replication.follower_epochs import FollowerEpochs
from ottla_broker.replication.isr_changes import IsrChanges
from ottla_broker.replication.replica_fetcher import Replication
from ottla_broker.replication.replicas import Replicas
from ottla_broker.service import BrokerService
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log_dir import LogDir
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.following import Following
from ottla_core.cluster.producer_ids import ProducerIdManager
from ottla_core.cluster.proof import new_secret
from ottla_core.cluster.store import MetaStore
from ottla_core.errors import OttlaError
from ottla_core.process.admin_http import AdminHttp
from ottla_core.process.lifecycle import AdminPort, Component, ServiceApp
from ottla_core.records.twins import twin
from ottla_core.rpc.internal_tls import open_internal_tls
from ottla_core.rpc.server import Around, RpcServer, as_it_is
from ottla_core.security.service_identity import Role
from ottla_core.telemetry import Metrics
from ottla_proto import contracts


def build(
    config: BrokerConfig,
    *,
    store: MetaStore | None = None,
    clock: Clock | None = None,
    around: Around = as_it_is,
    around_kafka: AroundApi = unchanged,
    admin: AdminPort = AdminHttp,
    run_cleaning: Run | None = None,
) -> ServiceApp:
    """Make a broker. It has its own connection to etcd unless a `store` is given, which stays the caller's.

    Tests pass a store, a clock, functions that wrap each method and each served API of Kafka's, another admin port, and
    a function that cleans logs in place of worker processes.
    """
    parts = _Parts(
        config,
        store or EtcdStore(config.etcd, EtcdSecurity.of(config)),
        clock or SystemClock(),
        around,
        around_kafka,
        admin,
        run_cleaning or run_worker,
    )
    parts.app = ServiceApp(
        f"broker-{config.node_id}",
        parts.components(owned_store=parts.store if store is None else None),
        parts.ready,
        parts.address,
        {"kafka": parts.kafka.address},
        metrics=parts.metrics,
    )
    return parts.app


class _Parts:
    """The parts of one broker. A part that calls one that is made after it does so through a method or a lambda."""

    app: ServiceApp

    def __init__(
        self,
        config: BrokerConfig,
        store: MetaStore,
        clock: Clock,
        around: Around,
        around_kafka: AroundApi,
        admin: AdminPort,
        run_cleaning: Run,
    ) -> None:
        twin()  # its import takes a hundred milliseconds, which the first batch must not take on the loop
        self.config, self.store, self.clock, self._admin = config, store, clock, admin
        self.metrics, self.threads = Metrics(), DiskThreads()
        self.metadata = metadata = MetadataFollower(store, config.cluster_id)
        tls = open_internal_tls(config, Role.BROKER)
        self.server = RpcServer(
            config.host,
            config.port,
            self.metrics,
            ready=self.ready,
            tls=tls,
            around=around,
            # Delayed fetches respond when the drain begins. A stop would otherwise wait until each of them times out.
            on_drain=lambda: self.replicas.table.drain(),
        )
        self.controller, self.coordinators = ControllerPeer(metadata, tls), CoordinatorPeers(metadata, tls)
        self.mirrors = Mirrors(config.mirrors, tls)
        self.directory = DataDirectory(
            config, metadata, self.controller, clock, lambda: self.replicas.table.high_watermarks()
        )
        # A disk that fails ends the broker (rule 20: a failed fsync takes the directory offline, and the process
        # exits).
        self.replicas = Replicas(metadata, self.log_dir, clock, self.threads, self.fail, self._is_registered)
        # It distinguishes this process from every other one that has had this data directory, also from one on a copy
        # of the volume.
        incarnation = uuid.uuid4().hex
        self.renewal_reports = RenewalReports(store, config.cluster_id, incarnation, lambda: self.directory.opened)
        # The secret is this process's own. It proves to leaders and controllers that a call in this broker's name is
        # the broker's.
        self.registration_view = RegistrationView(metadata, incarnation, self._node_id, new_secret())
        self.own_registration = OwnRegistration(store, metadata, self._node_id, incarnation)
        self.older_metadata = OlderMetadata(self.own_registration)
        self.replicas.on_older_metadata(self.older_metadata.found)
        self.isr_changes = IsrChanges(self.controller, self.registration_view)
        self.replicas.on_proposal(self.isr_changes.submit, self.isr_changes.forget)
        self.replication = Replication(self.replicas, metadata, self.registration_view, tls)
        self.producer_ids = ProducerIdManager(self.controller, "broker", self.registration_view.registered)
        self.verifier = TransactionVerifier(self.coordinators)
        backend = Backend(
            self.replicas,
            metadata,
            self.controller,
            self.coordinators,
            self.verifier,
            self.producer_ids,
            KafkaAddresses(config.host, config.advertised_host, config.kafka),
            fetch_sessions(self.replicas.table.consumers),
            EncodedTopics(),
            self.log_dir,
            clock,
            self.threads,
            self.mirrors,
            process_configs(config),
        )
        self.credentials = CredentialsFile(config.sasl_credentials_file)
        self.keystore = None if config.tls is None else Keystore(config.tls, self.threads, clock)
        settings = config.authorizer
        self.authorizer = (
            None
            if settings is None
            else CurrentAuthorizer(settings, metadata, self.threads, self.replicas.table.consumers)
        )
        if self.authorizer is not None:
            metadata.on_change(self.authorizer.on_image)
        self.kafka = self._kafka_side(backend, around_kafka)
        self._serve()
        self.registration = self._registration(incarnation)
        self.cleaner = LogCleaner(metadata, self.replicas.table, self._node_id, clock, self.threads, run_cleaning)
        add_metrics(self.metrics, metadata, self.replicas, self.replication)
        add_cleaner_metrics(self.metrics, self.cleaner)

    def _kafka_side(self, backend: Backend, around: AroundApi) -> KafkaSide:
        config = self.config
        logins = Logins(
            config.sasl_enabled_mechanisms,
            ClusterCredentials(self.metadata, self.credentials),
            config.connection_failed_authentication_delay_ms / 1000,
            lambda: self.metadata.image.login_secret.value,
        )
        return KafkaSide(
            config.kafka,
            backend,
            self.metrics,
            around,
            unstable=config.unstable_api_versions_enable,
            logins=logins,
            authorizer=self.authorizer,
            keystore=self.keystore,
        )

    def _serve(self) -> None:
        follower_epochs = FollowerEpochs(self.metadata, self.clock)
        service = BrokerService(
            self.replicas,
            self.metadata,
            self.log_dir,
            follower_epochs,
            self.registration_view,
        )
        self.server.add(contracts.Broker, service)

    def _registration(self, incarnation: str) -> Registration:
        registration = Registration(
            self.store,
            self.config.cluster_id,
            self._node_id,
            self.config.lease_ttl_s,
            BrokerDescription(
                self.config,
                self.log_dir,
                self.registration_view,
                self.older_metadata,
                self.address,
                self.kafka.addresses,
            ),
            StartupReadiness(self.replicas, self.log_dir, self.threads, incarnation).until,
            self.fail,
            self.metrics.counter("ottla_leases_lost_total", "Leases that expired while the process was running."),
        )
        self.metadata.on_change(registration.on_image)
        return registration

    def components(self, owned_store: MetaStore | None) -> list[Component]:
        """Return the components in the order in which they start. They stop in the reverse order."""
        config, replicas, threads = self.config, self.replicas, self.threads
        return [
            # The admin port comes first, so that a start that recovers logs for minutes can be inspected.
            self._admin(config.admin_host, config.admin_port, self.metrics, self.ready, config.admin_token_file),
            Following(self.metadata, owned_store),
            self.controller,
            self.coordinators,
            self.mirrors,
            threads,
            self.renewal_reports,
            self.directory,
            # It comes after the directory that it watches, and before the logs: a start on a full disk is reported like
            # any other.
            DiskRoom(self.own_registration, self.log_dir, threads),
            self.older_metadata,
            replicas,
            self.isr_changes,
            self.producer_ids,
            self.cleaner,
            Maintenance(config, replicas.table, self.log_dir, self.clock, threads, self.fail),
            self.credentials,
            *([] if self.keystore is None else [self.keystore]),
            *([] if self.authorizer is None else [self.authorizer]),
            # The ports open after the replicas are whole, so no client meets a partition that is still being recovered.
            self.server,
            self.kafka.listener,
            self.replication,
            self.registration,
            # It starts last and stops first: leaders move away while the ports still serve them.
            ControlledShutdown(self.controller, replicas, self.registration_view),
        ]

    def fail(self, error: OttlaError) -> None:
        self.app.fail(error)

    def log_dir(self) -> LogDir:
        return self.directory.log_dir

    def ready(self) -> str | None:
        if self.metadata.image.revision == 0:
            return f"there is no metadata yet: {self.metadata.trouble or 'etcd has not answered'}"
        return None if self.registration.registered else "not registered yet"

    def address(self) -> str:
        return self.server.address(self.config.advertised_host)

    def _node_id(self) -> int:
        return self.log_dir().identity.node_id

    def _is_registered(self) -> bool:
        return self.registration.registered
