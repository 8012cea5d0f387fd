"""The txn-coordinator's parts are put together here."""

from __future__ import annotations

from ottla_core.clock import Clock
from ottla_core.cluster.store import MetaStore
from ottla_core.coordination.coordinator_host import CoordinatorHost
from ottla_core.coordination.effects import ShardLimits
from ottla_core.process.admin_http import AdminHttp
from ottla_core.process.lifecycle import AdminPort, ServiceApp
from ottla_core.routing import TXN
from ottla_core.rpc.server import Around, as_it_is
from ottla_proto.contracts import Txn
from ottla_txn_coordinator.config import TxnCoordinatorConfig
from ottla_txn_coordinator.config_listener import TxnConfigListener
from ottla_txn_coordinator.machines.records import LARGEST_BATCH_BYTES
from ottla_txn_coordinator.machines.shard import TransactionShard
from ottla_txn_coordinator.marker_calls import MarkerCalls
from ottla_txn_coordinator.markers import TxnMarkers
from ottla_txn_coordinator.service import TxnService
from ottla_txn_coordinator.txn_metrics import TxnMetrics


def build(
    config: TxnCoordinatorConfig,
    *,
    store: MetaStore | None = None,
    clock: Clock | None = None,
    around: Around = as_it_is,
    admin: AdminPort = AdminHttp,
) -> ServiceApp:
    """Make a txn-coordinator. `store`, `clock`, `around` and `admin` are as in CoordinatorHost."""

    def new_shard(number: int) -> TransactionShard:
        return TransactionShard(configs.settings)

    limits = ShardLimits(max_batch_bytes=LARGEST_BATCH_BYTES)
    host = CoordinatorHost(TXN, config, new_shard, limits, store=store, clock=clock, around=around, admin=admin)
    shards, follower = host.shards, host.follower
    configs = TxnConfigListener(config, shards)
    calls, producer_ids = MarkerCalls(host.tls), host.producer_ids()
    markers = TxnMarkers(shards, follower, calls, host.metrics)
    follower.on_change(configs.on_image)
    follower.on_change(calls.on_image)
    host.on_effect(markers.on_effect)
    host.on_effect(TxnMetrics(shards, host.metrics, host.clock).on_effect)
    host.on_left(markers.on_left)
    service = TxnService(shards, follower, producer_ids, markers, config.node_id)
    return host.serve(Txn, service, producer_ids, calls, markers)
