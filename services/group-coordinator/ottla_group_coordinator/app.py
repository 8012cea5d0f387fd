"""The group-coordinator's parts, put together.

A stop begins with the shards: what is under way becomes durable under their fences. Then the seat is given back, while
calls are still answered, so that another takes the shards over before clients have to look for it.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

from ottla_core.admin_http import AdminHttp
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.cluster.coordinator_seat import CoordinatorSeat
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.following import Following
from ottla_core.cluster.image import Coordinator
from ottla_core.cluster.store import MetaStore
from ottla_core.coordination.broker_log import BrokerShardLog
from ottla_core.coordination.runtime import OwnedShards
from ottla_core.lifecycle import App, Component
from ottla_core.routing import GROUP
from ottla_core.rpc.server import Around, RpcServer, as_it_is
from ottla_core.telemetry import Metrics
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.deleted_topics import DeletedTopics
from ottla_group_coordinator.gauges import GroupGauges
from ottla_group_coordinator.heeding import Heeding
from ottla_group_coordinator.lag import LagReader
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_group_coordinator.service import GroupService
from ottla_group_coordinator.tally import Tally
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller, Group

_RELEASE_S: Final = 5.0


def build(
    config: GroupCoordinatorConfig,
    *,
    store: MetaStore | None = None,
    clock: Clock | None = None,
    around: Around = as_it_is,
) -> App:
    """A group-coordinator. It has its own connection to etcd unless a `store` is given, which stays the caller's.

    Tests give a store, a clock and what is to be `around` each method that is served.
    """
    metrics = Metrics()
    own_store = store is None
    store = store or EtcdStore(config.etcd)
    follower = MetadataFollower(store, config.cluster_id)
    incarnation = uuid.uuid4().hex
    server = RpcServer(config.host, config.port, metrics, ready=lambda: ready(), around=around)

    def address() -> str:
        return f"{config.advertised_host or config.host}:{server.port}"

    def describe() -> Coordinator:
        return Coordinator(GROUP, config.node_id, 0, address(), incarnation)

    async def release(shard: int, epoch: int) -> None:
        asked = pb.ReleaseShardRequest(
            kind=GROUP, shard=shard, shard_epoch=epoch, instance_id=config.node_id, instance_epoch=seat.epoch or 0
        )
        await controller.call(Controller.RELEASE_SHARD, asked, timeout=_RELEASE_S)

    controller = ControllerPeer(follower)
    log = BrokerShardLog(GROUP, lambda: follower.image)
    lost = metrics.counter("ottla_leases_lost_total", "Sessions that ended while the process ran.")
    seat = CoordinatorSeat(store, config.cluster_id, config.lease_ttl_s, describe, lambda error: app.fail(error), lost)
    clock = clock or SystemClock()
    tally = Tally(metrics)

    def perform(shard: int, effect: Any) -> None:
        tally.on_effect(shard, effect)
        deleted_topics.on_effect(shard, effect)

    shards = OwnedShards(
        GROUP,
        config.node_id,
        lambda: seat.epoch,
        log,
        lambda number: GroupShard(heeding.settings),
        release,
        metrics=metrics,
        perform=perform,
        limits=config.limits(),
        clock=clock,
    )
    heeding = Heeding(config, shards)
    follower.on_change(seat.on_image)
    follower.on_change(heeding.on_image)
    follower.on_change(shards.on_image)
    deleted_topics = DeletedTopics(shards, follower)
    follower.on_change(deleted_topics.on_image)
    metrics.gauge(
        "ottla_group_records_unreadable",
        "Records of shards that this release can't read.",
        lambda: sum(each.state.unreadable for each in shards.standings()),
    )
    lag = LagReader(lambda: follower.image)
    gauges = GroupGauges(shards, lag, metrics, clock, most_partitions=config.metrics_max_partitions)
    server.add(Group, GroupService(shards, follower, config.node_id, lag, tally))

    def ready() -> str | None:
        if follower.image.revision == 0:
            return "there is no metadata yet: etcd has not answered"
        return None if seat.epoch is not None else "not registered yet"

    components: list[Component] = [
        AdminHttp(config.host, config.admin_port, metrics, ready),
        Following(follower, store if own_store else None),
        controller,
        log,
        lag,
        shards,
        deleted_topics,
        gauges,
        server,
        seat,
        Drain(shards),
    ]
    app = App(f"group-coordinator-{config.node_id}", components, ready, address, metrics=metrics)
    return app


class Drain:
    """The shards' stop, before that of all other components."""

    def __init__(self, shards: OwnedShards[GroupShard]) -> None:
        self._shards = shards

    async def start(self) -> None:
        """Nothing: they have begun long before."""

    async def stop(self) -> None:
        await self._shards.stop()
