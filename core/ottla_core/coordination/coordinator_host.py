"""The base of a coordinator of any kind: metadata, a registration, the shards that it is given, and their log.

A service joins with its kind, the state of its shards and its contract, and adds its own components. A stop begins with
the shards, so that what is under way becomes durable under their fences. Then the registration ends, while calls are
still served, so that another process takes the shards over before clients have to look for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol

from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.cluster.coordinator_registration import CoordinatorRegistration
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.etcd_security import EtcdSecurity, EtcdSettings
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.following import Following
from ottla_core.cluster.image import Coordinator
from ottla_core.cluster.producer_ids import ProducerIdManager, Registered
from ottla_core.cluster.store import MetaStore
from ottla_core.coordination.broker_log import BrokerShardLog
from ottla_core.coordination.effects import ShardLimits
from ottla_core.coordination.runtime import NewShard, OwnedShards, PerformEffect, WhenLeft
from ottla_core.coordination.shard import S
from ottla_core.process.admin_http import AdminHttp
from ottla_core.process.lifecycle import AdminPort, Component, ServiceApp
from ottla_core.process.run import ServiceSettings
from ottla_core.rpc.internal_tls import InternalTlsSettings, open_internal_tls
from ottla_core.rpc.server import Around, RpcServer, as_it_is
from ottla_core.security.service_identity import Role
from ottla_core.telemetry import Metrics
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_RELEASE_S: Final = 5.0


class CoordinatorSettings(ServiceSettings, EtcdSettings, InternalTlsSettings, Protocol):
    """The settings that every coordinator has."""

    @property
    def cluster_id(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def admin_port(self) -> int: ...
    @property
    def lease_ttl_s(self) -> int: ...


class CoordinatorHost(Generic[S]):
    """The process of a coordinator. `new_shard(n)` returns an empty state. The connection to etcd is its own unless a
    `store` is given, which stays the caller's. Tests pass a store, a clock, a function that wraps each method that is
    served, and another admin port."""

    def __init__(
        self,
        kind: str,
        settings: CoordinatorSettings,
        new_shard: NewShard[S],
        limits: ShardLimits,
        *,
        store: MetaStore | None = None,
        clock: Clock | None = None,
        around: Around = as_it_is,
        admin: AdminPort = AdminHttp,
    ) -> None:
        self.kind: Final = kind
        self.metrics: Final = Metrics()
        self.clock: Final = clock or SystemClock()
        self._settings: Final = settings
        self._admin: Final = admin
        self._incarnation: Final = uuid.uuid4().hex
        self._performers: Final[list[PerformEffect]] = []
        self._leavers: Final[list[WhenLeft]] = []
        self._components: Final[list[Component]] = []
        name = f"{kind}-coordinator-{settings.node_id}"
        self._app: Final = ServiceApp(name, self._components, self.ready, self.address, metrics=self.metrics)
        self._own_store: Final = EtcdStore(settings.etcd, EtcdSecurity.of(settings)) if store is None else None
        store = store or self._own_store
        assert store is not None
        self.follower: Final = MetadataFollower(store, settings.cluster_id)
        self.tls: Final = open_internal_tls(settings, Role(f"{kind}-coordinator"))
        self._controller: Final = ControllerPeer(self.follower, self.tls)
        self._server: Final = RpcServer(
            settings.host, settings.port, self.metrics, ready=self.ready, tls=self.tls, around=around
        )
        lost = self.metrics.counter("ottla_leases_lost_total", "Leases that expired while the process was running.")
        self._registration: Final = CoordinatorRegistration(
            store, settings.cluster_id, settings.lease_ttl_s, self.describe, self._app.fail, lost
        )
        self._log: Final = BrokerShardLog(kind, lambda: self.follower.image, tls=self.tls)
        self.shards: Final = OwnedShards(
            kind,
            settings.node_id,
            lambda: self._registration.epoch,
            self._log,
            new_shard,
            self._release,
            metrics=self.metrics,
            perform=self._perform,
            when_left=self._on_left,
            limits=limits,
            clock=self.clock,
        )
        # The registration comes first: the shards compare their owner with its epoch, which this image may end.
        self.follower.on_change(self._registration.on_image)
        self.follower.on_change(self.shards.on_image)

    def on_effect(self, perform: PerformEffect) -> None:
        """Call `perform(shard, epoch, effect)` for each effect of the service's own, in the order of these calls."""
        self._performers.append(perform)

    def on_left(self, leave: WhenLeft) -> None:
        """Call `leave(shard, epoch)` when this process no longer owns the shard under that epoch."""
        self._leavers.append(leave)

    def producer_ids(self) -> ProducerIdManager:
        """Return a component for `serve` that gives ids that no producer has had."""

        def registered() -> Registered | None:
            epoch = self._registration.epoch
            return None if epoch is None else Registered(self._settings.node_id, epoch)

        return ProducerIdManager(self._controller, self.kind, registered)

    def serve(self, contract: type, service: object, *components: Component) -> ServiceApp:
        """Return the process, which serves `contract` by `service`. `components` run for as long as it is served."""
        settings = self._settings
        self._server.add(contract, service)
        # They are in the order of their start, the reverse of their stop. The port comes before the registration, which
        # names it.
        self._components.extend(
            [
                self._admin(
                    settings.admin_host, settings.admin_port, self.metrics, self.ready, settings.admin_token_file
                ),
                Following(self.follower, self._own_store),
                self._controller,
                self._log,
                self.shards,
                *components,
                self._server,
                self._registration,
                _StopFirst(self.shards.stop),
            ]
        )
        return self._app

    def ready(self) -> str | None:
        """Return None, or why the process does not serve yet."""
        if self.follower.image.revision == 0:
            return f"there is no metadata yet: {self.follower.trouble or 'etcd has not answered'}"
        return None if self._registration.epoch is not None else "not registered yet"

    def address(self) -> str:
        return self._server.address(self._settings.advertised_host)

    def describe(self) -> Coordinator:
        """Return the coordinator's description for its registration."""
        return Coordinator(self.kind, self._settings.node_id, 0, self.address(), self._incarnation)

    def _perform(self, shard: int, epoch: int, effect: Any) -> None:
        for perform in self._performers:
            perform(shard, epoch, effect)

    def _on_left(self, shard: int, epoch: int) -> None:
        for leave in self._leavers:
            leave(shard, epoch)

    async def _release(self, shard: int, epoch: int) -> None:
        request = pb.ReleaseShardRequest(
            kind=self.kind,
            shard=shard,
            shard_epoch=epoch,
            instance_id=self._settings.node_id,
            instance_epoch=self._registration.epoch or 0,
        )
        await self._controller.call(Controller.RELEASE_SHARD, request, timeout=_RELEASE_S)


class _StopFirst:
    """The last component, so its stop comes before that of all others."""

    def __init__(self, stop: Callable[[], Any]) -> None:
        self._stop: Final = stop

    async def start(self) -> None:
        """Do nothing: what it stops has begun long before."""

    async def stop(self) -> None:
        await self._stop()
