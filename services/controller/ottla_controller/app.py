"""The controller's parts are put together here.

The admin port comes first, so that a start that waits can be inspected. The election comes last and stops first. The
leadership is given back, and a standby takes it while the last calls are answered here.
"""

from __future__ import annotations

import secrets
from functools import partial

from ottla_controller.change_log import recorded
from ottla_controller.config import ControllerConfig
from ottla_controller.coordinators import ShardAssigner
from ottla_controller.leadership import Leadership
from ottla_controller.machines.configs import decide_first_configs
from ottla_controller.machines.decision import Decision
from ottla_controller.machines.login_secret import LOGIN_SECRET_BYTES, decide_login_secret
from ottla_controller.machines.min_isr import decide_remove_own_values
from ottla_controller.machines.partition_index import PartitionIndex
from ottla_controller.metrics import add_metrics
from ottla_controller.presence import Presence
from ottla_controller.reconcile import Reconciler
from ottla_controller.recovery import Recoverer, ask_logs
from ottla_controller.service import ControllerService, random_topic_id
from ottla_controller.store_room import StoreRoom
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.following import Following
from ottla_core.cluster.image import ClusterImage
from ottla_core.cluster.store import MetaStore
from ottla_core.process.admin_http import AdminHttp
from ottla_core.process.lifecycle import AdminPort, Component, ServiceApp
from ottla_core.rpc.internal_tls import open_internal_tls
from ottla_core.rpc.server import Around, RpcServer, as_it_is
from ottla_core.security.service_identity import Role
from ottla_core.telemetry import Metrics
from ottla_proto.contracts import Controller


def build(
    config: ControllerConfig,
    *,
    store: MetaStore | None = None,
    clock: Clock | None = None,
    around: Around = as_it_is,
    admin: AdminPort = AdminHttp,
) -> ServiceApp:
    """Make a controller. It has its own connection to etcd unless a `store` is given, which stays the caller's.

    Tests pass a store, a clock, a function that wraps each method that is served, and another admin port.
    """
    clock = clock or SystemClock()
    first_configs = config.cluster_configs()
    decide_first_configs(ClusterImage(config.cluster_id), first_configs)  # so that a wrong config is reported now
    metrics = Metrics()
    own_store = store is None
    store = store or EtcdStore(config.etcd, EtcdSecurity.of(config))
    follower = MetadataFollower(store, config.cluster_id, clock=clock)
    tls = open_internal_tls(config, Role.CONTROLLER)
    server = RpcServer(
        config.host,
        config.port,
        metrics,
        ready=lambda: ready(),
        tls=tls,
        around=lambda method, handler: around(method, recorded(method, handler)),
    )

    def prepare(image: ClusterImage) -> Decision[None]:
        configs = decide_first_configs(image, first_configs) if image.is_new else decide_remove_own_values(image)
        secret = decide_login_secret(image, lambda: secrets.token_bytes(LOGIN_SECRET_BYTES))
        return Decision(None, (*configs.writes, *secret.writes))

    def address() -> str:
        return server.address(config.advertised_host)

    index = PartitionIndex()
    follower.on_change(index.follow)  # before all that read the index
    presence = Presence(follower, clock, tls)
    coordinators = ShardAssigner(follower, random_topic_id, metrics)
    reconciler = Reconciler(follower, index, presence.within_grace, clock, metrics)
    recoverer = Recoverer(follower, index, reconciler.report, tls)
    room = StoreRoom(store, config.etcd_quota_bytes, metrics)
    leadership = Leadership(
        store,
        follower,
        config.cluster_id,
        config.node_id,
        address,
        lease_ttl_s=config.lease_ttl_s,
        duties=[presence, reconciler, recoverer, coordinators, room],
        prepare=prepare,
        clock=clock,
        tls=tls,
    )
    service = ControllerService(
        leadership,
        follower,
        index,
        on_elected=reconciler.report,
        logs=partial(ask_logs, tls=tls),
        check_room=room.check,
    )
    server.add(Controller, service)

    def ready() -> str | None:
        """Return why this process is not ready. A standby is ready, too: it knows the active controller, and can take
        over."""
        if follower.image.revision == 0:
            return f"there is no metadata yet: {follower.trouble or 'etcd has not answered'}"
        return None if leadership.active or follower.image.controller is not None else "no controller is elected"

    add_metrics(metrics, follower, index, leadership, presence)
    metrics.gauge(
        "ottla_metadata_revision",
        "etcd revision of the cluster metadata that this process has applied.",
        lambda: float(follower.image.revision),
    )
    metrics.gauge(
        "ottla_metadata_staleness_seconds", "Seconds since etcd last responded.", lambda: follower.staleness_s
    )
    components: list[Component] = [
        admin(config.admin_host, config.admin_port, metrics, ready, config.admin_token_file),
        Following(follower, store if own_store else None),
        server,
        leadership,
    ]
    return ServiceApp(f"controller-{config.node_id}", components, ready, address, metrics=metrics)
