"""The group-coordinator's parts are put together here."""

from __future__ import annotations

from ottla_core.clock import Clock
from ottla_core.cluster.store import MetaStore
from ottla_core.coordination.coordinator_host import CoordinatorHost
from ottla_core.process.admin_http import AdminHttp
from ottla_core.process.lifecycle import AdminPort, ServiceApp
from ottla_core.routing import GROUP
from ottla_core.rpc.server import Around, as_it_is
from ottla_group_coordinator.commits_in_transactions import CommitsInTransactions
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.config_listener import GroupConfigListener
from ottla_group_coordinator.deleted_topics import DeletedTopics
from ottla_group_coordinator.group_metrics import GroupMetrics
from ottla_group_coordinator.lag import LagReader
from ottla_group_coordinator.machines.consumer.topics import ImageTopics
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_group_coordinator.regex_resolver import RegexResolver
from ottla_group_coordinator.scraped_metrics import ScrapedGroupMetrics
from ottla_group_coordinator.service import GroupService
from ottla_group_coordinator.target_maker import TargetMaker
from ottla_group_coordinator.topic_hashes import TopicHashes
from ottla_group_coordinator.txn_coordinators import TxnCoordinators
from ottla_proto.contracts import Group


def build(
    config: GroupCoordinatorConfig,
    *,
    store: MetaStore | None = None,
    clock: Clock | None = None,
    around: Around = as_it_is,
    admin: AdminPort = AdminHttp,
) -> ServiceApp:
    """Make a group-coordinator. `store`, `clock`, `around` and `admin` are as in CoordinatorHost."""

    def new_shard(number: int) -> GroupShard:
        return GroupShard(configs.settings, topics)

    host = CoordinatorHost(
        GROUP, config, new_shard, config.limits(), store=store, clock=clock, around=around, admin=admin
    )
    shards, follower = host.shards, host.follower
    topics = ImageTopics()
    hashes = TopicHashes(topics)
    follower.on_change(hashes.on_image)
    configs = GroupConfigListener(config, shards)
    deleted_topics = DeletedTopics(shards, follower)
    follower.on_change(configs.on_image)
    follower.on_change(deleted_topics.on_image)
    metrics = GroupMetrics(host.metrics)
    host.on_effect(metrics.on_effect)
    host.on_effect(deleted_topics.on_effect)
    regexes = RegexResolver(shards, topics)
    host.on_effect(regexes.on_effect)
    targets = TargetMaker(shards)
    host.on_effect(targets.on_effect)
    lag = LagReader(lambda: follower.image, host.tls)
    scraped = ScrapedGroupMetrics(shards, lag, host.metrics, host.clock, most_partitions=config.metrics_max_partitions)
    coordinators = TxnCoordinators(follower, host.tls)
    follower.on_change(coordinators.on_image)
    transactions = CommitsInTransactions(shards, coordinators)
    service = GroupService(shards, follower, config.node_id, lag, metrics, transactions)
    return host.serve(Group, service, lag, deleted_topics, regexes, targets, hashes, scraped, coordinators)
