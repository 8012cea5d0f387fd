"""The table of the APIs that are served, collected from the modules of their handlers.

A Kafka client picks the newest version that both sides know, from what ApiVersions says. If the table and the handlers
disagreed, clients would send requests that nothing can read. So ApiVersions, dispatch and docs/kafka-apis.md are all
made from this table.

The minima are those of Kafka 4.x, except for Produce. Produce is advertised from 0 and served from 3, as Kafka does it:
old librdkafka takes a larger minimum for a broker that knows no compression (see the traps in docs/kafka-apis.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla_broker.kafka.api import Api
from ottla_broker.kafka.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    ottla_call,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)

_TABLE: Final = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    offset_commit.API,
    offset_fetch.API,
    find_coordinator.API,
    join_group.API,
    heartbeat.API,
    leave_group.API,
    sync_group.API,
    describe_groups.API,
    list_groups.API,
    sasl_handshake.API,
    create_topics.API,
    delete_topics.API,
    delete_records.API,
    init_producer_id.API,
    offset_for_leader_epoch.API,
    add_partitions_to_txn.API,
    add_offsets_to_txn.API,
    end_txn.API,
    write_txn_markers.API,
    txn_offset_commit.API,
    describe_acls.API,
    create_acls.API,
    delete_acls.API,
    describe_configs.API,
    alter_configs.REPLACING,
    alter_replica_log_dirs.API,
    describe_log_dirs.API,
    sasl_authenticate.API,
    create_partitions.API,
    delete_groups.API,
    elect_leaders.API,
    alter_configs.INCREMENTAL,
    list_partition_reassignments.API,
    offset_delete.API,
    describe_client_quotas.API,
    describe_user_scram_credentials.API,
    alter_user_scram_credentials.API,
    describe_quorum.API,
    update_features.API,
    describe_cluster.API,
    describe_producers.API,
    describe_transactions.API,
    list_transactions.API,
    consumer_group_heartbeat.API,
    consumer_group_describe.API,
    list_config_resources.API,
    describe_topic_partitions.API,
)

PRIVATE: Final = ottla_call.API
"""The private API. It is not in the table, because brokers show and serve it only to clients of ottla."""


def served(*, unstable: bool = False) -> dict[int, Api]:
    """Return the APIs by their keys. ApiVersions shows these to every client.

    Clients that find an unstable version in ApiVersions use it, so unstable versions are hidden by default.
    """
    apis: dict[int, Api] = {}
    # ApiVersions is in the table that it shows, so it reads the finished table when it is called.
    for api in sorted((*_TABLE, api_versions.api(apis.values, PRIVATE)), key=lambda api: api.key):
        shown = api if api.unstable is None or not unstable else replace(api, versions=(api.min_version, api.unstable))
        apis[api.key] = shown
    return apis


APIS: Final = served()
