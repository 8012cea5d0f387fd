"""The APIs that are served, with their versions and handlers, are one table.

A Kafka client picks the newest version that both sides know, from what ApiVersions says. If the table and the handlers
disagreed, clients would send requests that nothing can read. So ApiVersions, dispatch and docs/kafka-apis.md are all
made from this table.

The minima are those of Kafka 4.x, except for Produce. Produce is advertised from 0 and served from 3, as Kafka does it:
old librdkafka takes a larger minimum for a broker that knows no compression (see the traps in docs/kafka-apis.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.frames import KafkaContext
from ottla_broker.kafka.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
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
from ottla_broker.kafka.handling import Handler, control, decoded
from ottla_broker.kafka.network.connection import HandlerResult
from ottla_broker.kafka.network.limits import FETCH_KEY, PRODUCE_KEY
from ottla_core.kafka.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AlterConfigsRequest,
    AlterReplicaLogDirsRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest,
    ElectLeadersRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListConfigResourcesRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    UpdateFeaturesRequest,
    WriteTxnMarkersRequest,
)
from ottla_core.kafka.private_messages import OttlaCallRequest

NEVER: Final = 2**15 - 1
"""It means that the API is flexible in no version."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API. `flexible_from` is the first version with compact fields and tags. `advertised_from` is set if
    ApiVersions says another minimum than `min_version`."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    handler: Handler
    advertised_from: int | None = None

    @property
    def advertised_min(self) -> int:
        return self.min_version if self.advertised_from is None else self.advertised_from


_TABLE: Final = (
    Api(PRODUCE_KEY, "Produce", 3, 13, 9, produce.handle, advertised_from=0),
    Api(FETCH_KEY, "Fetch", 4, 18, 12, decoded(fetch.read, fetch.handle, speed=fetch.SPEED)),
    Api(2, "ListOffsets", 1, 11, 6, control(ListOffsetsRequest, list_offsets.handle)),
    Api(3, "Metadata", 0, 13, 9, control(MetadataRequest, metadata.handle)),
    Api(8, "OffsetCommit", 2, 10, 8, control(OffsetCommitRequest, offset_commit.handle)),
    Api(9, "OffsetFetch", 1, 10, 6, control(OffsetFetchRequest, offset_fetch.handle)),
    Api(10, "FindCoordinator", 0, 6, 3, control(FindCoordinatorRequest, find_coordinator.handle)),
    Api(11, "JoinGroup", 0, 9, 6, control(JoinGroupRequest, join_group.handle)),
    Api(12, "Heartbeat", 0, 4, 4, control(HeartbeatRequest, heartbeat.handle)),
    Api(13, "LeaveGroup", 0, 5, 4, control(LeaveGroupRequest, leave_group.handle)),
    Api(14, "SyncGroup", 0, 5, 4, control(SyncGroupRequest, sync_group.handle)),
    Api(15, "DescribeGroups", 0, 6, 5, control(DescribeGroupsRequest, describe_groups.handle)),
    Api(16, "ListGroups", 0, 5, 3, control(ListGroupsRequest, list_groups.handle)),
    Api(17, "SaslHandshake", 0, 1, NEVER, control(SaslHandshakeRequest, sasl_handshake.handle)),
    Api(19, "CreateTopics", 2, 7, 5, control(CreateTopicsRequest, create_topics.handle)),
    Api(20, "DeleteTopics", 1, 6, 4, control(DeleteTopicsRequest, delete_topics.handle)),
    Api(21, "DeleteRecords", 0, 2, 2, control(DeleteRecordsRequest, delete_records.handle)),
    Api(22, "InitProducerId", 0, 5, 2, control(InitProducerIdRequest, init_producer_id.handle)),
    Api(23, "OffsetForLeaderEpoch", 2, 4, 4, control(OffsetForLeaderEpochRequest, offset_for_leader_epoch.handle)),
    Api(24, "AddPartitionsToTxn", 0, 3, 3, control(AddPartitionsToTxnRequest, add_partitions_to_txn.handle)),
    Api(25, "AddOffsetsToTxn", 0, 4, 3, control(AddOffsetsToTxnRequest, add_offsets_to_txn.handle)),
    Api(26, "EndTxn", 0, 5, 3, control(EndTxnRequest, end_txn.handle)),
    Api(27, "WriteTxnMarkers", 1, 2, 1, control(WriteTxnMarkersRequest, write_txn_markers.handle)),
    Api(28, "TxnOffsetCommit", 0, 6, 3, control(TxnOffsetCommitRequest, txn_offset_commit.handle)),
    Api(29, "DescribeAcls", 1, 3, 2, control(DescribeAclsRequest, describe_acls.handle)),
    Api(30, "CreateAcls", 1, 3, 2, control(CreateAclsRequest, create_acls.handle)),
    Api(31, "DeleteAcls", 1, 3, 2, control(DeleteAclsRequest, delete_acls.handle)),
    Api(32, "DescribeConfigs", 1, 4, 4, control(DescribeConfigsRequest, describe_configs.handle)),
    Api(33, "AlterConfigs", 0, 2, 2, control(AlterConfigsRequest, alter_configs.replacing)),
    Api(34, "AlterReplicaLogDirs", 1, 2, 2, control(AlterReplicaLogDirsRequest, alter_replica_log_dirs.handle)),
    Api(35, "DescribeLogDirs", 1, 5, 2, control(DescribeLogDirsRequest, describe_log_dirs.handle)),
    Api(36, "SaslAuthenticate", 0, 2, 2, control(SaslAuthenticateRequest, sasl_authenticate.handle)),
    Api(37, "CreatePartitions", 0, 3, 2, control(CreatePartitionsRequest, create_partitions.handle)),
    Api(42, "DeleteGroups", 0, 3, 2, control(DeleteGroupsRequest, delete_groups.handle)),
    Api(43, "ElectLeaders", 0, 2, 2, control(ElectLeadersRequest, elect_leaders.handle)),
    Api(44, "IncrementalAlterConfigs", 0, 1, 1, control(IncrementalAlterConfigsRequest, alter_configs.incremental)),
    Api(47, "OffsetDelete", 0, 0, NEVER, control(OffsetDeleteRequest, offset_delete.handle)),
    Api(48, "DescribeClientQuotas", 0, 1, 1, control(DescribeClientQuotasRequest, describe_client_quotas.handle)),
    Api(
        50,
        "DescribeUserScramCredentials",
        0,
        0,
        0,
        control(DescribeUserScramCredentialsRequest, describe_user_scram_credentials.handle),
    ),
    Api(
        51,
        "AlterUserScramCredentials",
        0,
        0,
        0,
        control(AlterUserScramCredentialsRequest, alter_user_scram_credentials.handle),
    ),
    Api(55, "DescribeQuorum", 0, 2, 0, control(DescribeQuorumRequest, describe_quorum.handle)),
    Api(57, "UpdateFeatures", 0, 2, 0, control(UpdateFeaturesRequest, update_features.handle)),
    Api(60, "DescribeCluster", 0, 2, 0, control(DescribeClusterRequest, describe_cluster.handle)),
    Api(61, "DescribeProducers", 0, 0, 0, control(DescribeProducersRequest, describe_producers.handle)),
    Api(65, "DescribeTransactions", 0, 0, 0, control(DescribeTransactionsRequest, describe_transactions.handle)),
    Api(66, "ListTransactions", 0, 2, 0, control(ListTransactionsRequest, list_transactions.handle)),
    Api(74, "ListConfigResources", 0, 1, 0, control(ListConfigResourcesRequest, list_config_resources.handle)),
    Api(
        75,
        "DescribeTopicPartitions",
        0,
        0,
        0,
        control(DescribeTopicPartitionsRequest, describe_topic_partitions.handle),
    ),
)

PRIVATE: Final = Api(OttlaCallRequest.API_KEY, "OttlaCall", 0, 0, 0, control(OttlaCallRequest, ottla_call.handle))
"""The private API. It is not in the table, because brokers show and serve it only to clients of ottla."""

_UNSTABLE: Final = {22: 6}
"""The newest versions of APIs that Kafka itself serves only with unstable.api.versions.enable. A client that finds them
in ApiVersions uses them, so they are hidden by default."""


def served(*, unstable: bool = False) -> dict[int, Api]:
    """Return the APIs by their keys. ApiVersions shows these to every client."""
    apis: dict[int, Api] = {}

    # ApiVersions is in the table that it shows, so it reads the finished table when it is called.
    def versions(backend: Backend, request: KafkaContext) -> HandlerResult:
        return api_versions.handle(backend, request, apis.values(), PRIVATE)

    table = (*_TABLE, Api(api_versions.KEY, "ApiVersions", 0, 5, 3, versions))
    newest = _UNSTABLE if unstable else {}
    for api in sorted(table, key=lambda api: api.key):
        apis[api.key] = replace(api, max_version=newest.get(api.key, api.max_version))
    return apis


APIS: Final = served()
