"""The error codes that each version of an API may answer.

Clients branch on codes. A code that a version does not know is at best a failure without a name, and often fatal to the
client. So every response is checked against this table where it is encoded. A code that the version knows is answered
as it is. One that only later versions know is answered as the code that Kafka answers in its place. A code that is in
no row is a bug of ottla: it is logged, and answered as UNKNOWN_SERVER_ERROR.

The versions and replacements are those of Kafka's message schemas and of its brokers; `source` says where each row
comes from. Where a code's cause came later than the version, Kafka never had to replace it, and the nearest code stands
in.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from ottla_broker.kafka.network.limits import FETCH_KEY, PRODUCE_KEY
from ottla_core.errors import ErrorCode as E
from ottla_core.kafka.private_messages import OttlaCallResponse

_log = logging.getLogger(__name__)

METADATA_KEY: Final = 3
_CODES: Final = frozenset(E)


class Since(NamedTuple):
    """A code that clients know from `version` on, and the code that older versions get in its place."""

    version: int
    before: E


@dataclass(frozen=True, slots=True)
class Errors:
    """The codes of one API in addition to `OF_ALL`. `codes` are known in every version, `since` from a version on.
    `instead` names what is answered for a code that no version of the API knows."""

    source: str
    codes: frozenset[E] = frozenset()
    since: Mapping[E, Since] = field(default_factory=dict)
    instead: Mapping[E, E] = field(default_factory=dict)


OF_ALL: Final = frozenset(
    {E.NONE, E.UNKNOWN_SERVER_ERROR, E.INVALID_REQUEST, E.UNSUPPORTED_VERSION, E.CLUSTER_AUTHORIZATION_FAILED}
)
"""Kafka may answer these to any request: it can't be read, it is not allowed, or the broker failed."""

_COORDINATOR: Final = frozenset({E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR})
_GROUP: Final = _COORDINATOR | {E.INVALID_GROUP_ID, E.GROUP_AUTHORIZATION_FAILED}
_CONTROLLER: Final = frozenset({E.NOT_CONTROLLER, E.REQUEST_TIMED_OUT})
_TOPIC: Final = frozenset({E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_TOPIC_EXCEPTION, E.TOPIC_AUTHORIZATION_FAILED})
_LEADER: Final = _TOPIC | {E.NOT_LEADER_OR_FOLLOWER, E.REPLICA_NOT_AVAILABLE, E.LEADER_NOT_AVAILABLE}
_CONFIG: Final = (
    _CONTROLLER | _TOPIC | {E.INVALID_CONFIG, E.POLICY_VIOLATION, E.INVALID_GROUP_ID, E.GROUP_AUTHORIZATION_FAILED}
)

_BY_NAME: Final = {E.UNKNOWN_TOPIC_ID: E.UNKNOWN_TOPIC_OR_PARTITION}
"""A request that names topics by name has no unknown id in it."""
_ACLS: Final = frozenset({E.SECURITY_DISABLED, E.INVALID_REQUEST, E.CLUSTER_AUTHORIZATION_FAILED})
_LOST_CONTROLLER: Final = {E.NETWORK_EXCEPTION: E.REQUEST_TIMED_OUT, E.BROKER_ID_NOT_REGISTERED: E.INVALID_REQUEST}
_COORDINATORS_LOG: Final = {
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: E.COORDINATOR_NOT_AVAILABLE,
    E.REQUEST_TIMED_OUT: E.COORDINATOR_NOT_AVAILABLE,
    E.NETWORK_EXCEPTION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
}
"""The codes by which Kafka's coordinators report trouble with their log, of which clients know nothing."""
_COMMITTING: Final = {
    **_COORDINATORS_LOG,
    E.RECORD_LIST_TOO_LARGE: E.INVALID_COMMIT_OFFSET_SIZE,
    E.MESSAGE_TOO_LARGE: E.INVALID_COMMIT_OFFSET_SIZE,
}
_VERIFYING: Final = {
    E.COORDINATOR_LOAD_IN_PROGRESS: E.NOT_ENOUGH_REPLICAS,
    E.COORDINATOR_NOT_AVAILABLE: E.NOT_ENOUGH_REPLICAS,
    E.NOT_COORDINATOR: E.NOT_ENOUGH_REPLICAS,
    E.NETWORK_EXCEPTION: E.NOT_ENOUGH_REPLICAS,
    E.PRODUCER_FENCED: E.INVALID_PRODUCER_EPOCH,
}
"""The codes by which Kafka's brokers report to a producer that its partition can't be verified. Every producer handles
them."""
_TRANSACTION: Final = _COORDINATOR | {
    E.INVALID_TXN_STATE,
    E.INVALID_PRODUCER_ID_MAPPING,
    E.INVALID_PRODUCER_EPOCH,
    E.CONCURRENT_TRANSACTIONS,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def _fenced(version: int) -> dict[E, Since]:
    return {E.PRODUCER_FENCED: Since(version, E.INVALID_PRODUCER_EPOCH)}


def _abortable(version: int) -> dict[E, Since]:
    return {E.TRANSACTION_ABORTABLE: Since(version, E.INVALID_TXN_STATE)}


def _static(version: int) -> dict[E, Since]:
    """Return the row for FENCED_INSTANCE_ID: a member whose request has no group.instance.id can't be the wrong
    instance of one."""
    return {E.FENCED_INSTANCE_ID: Since(version, E.UNKNOWN_MEMBER_ID)}


def _epochs(version: int) -> dict[E, Since]:
    """Return the rows for epochs: a client whose request has no leader epoch can't have the wrong one."""
    return dict.fromkeys((E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH), Since(version, E.NOT_LEADER_OR_FOLLOWER))


def _by_id(version: int) -> dict[E, Since]:
    return {E.UNKNOWN_TOPIC_ID: Since(version, E.UNKNOWN_TOPIC_OR_PARTITION)}


def _throttled(version: int) -> dict[E, Since]:
    return {E.THROTTLING_QUOTA_EXCEEDED: Since(version, E.REQUEST_TIMED_OUT)}


ERRORS: Final[Mapping[int, Errors]] = {
    PRODUCE_KEY: Errors(
        "schema (v4, v11); ReplicaManager, handleProduceAppend; AddPartitionsToTxnManager; KIP-890, KIP-951",
        _TOPIC
        | {
            E.CORRUPT_MESSAGE,
            E.NOT_LEADER_OR_FOLLOWER,
            E.REQUEST_TIMED_OUT,
            E.MESSAGE_TOO_LARGE,
            E.RECORD_LIST_TOO_LARGE,
            E.NOT_ENOUGH_REPLICAS,
            E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            E.INVALID_REQUIRED_ACKS,
            E.INVALID_TIMESTAMP,
            E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            E.UNSUPPORTED_COMPRESSION_TYPE,
            E.POLICY_VIOLATION,
            E.OUT_OF_ORDER_SEQUENCE_NUMBER,
            E.DUPLICATE_SEQUENCE_NUMBER,
            E.UNKNOWN_PRODUCER_ID,
            E.INVALID_PRODUCER_EPOCH,
            E.INVALID_TXN_STATE,
            E.INVALID_PRODUCER_ID_MAPPING,
            E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            E.INVALID_RECORD,
        },
        {
            E.KAFKA_STORAGE_ERROR: Since(4, E.NOT_LEADER_OR_FOLLOWER),
            E.CONCURRENT_TRANSACTIONS: Since(12, E.NOT_ENOUGH_REPLICAS),
            **_abortable(11),
            **_by_id(13),
        },
        {**_VERIFYING, E.FENCED_LEADER_EPOCH: E.NOT_LEADER_OR_FOLLOWER},
    ),
    FETCH_KEY: Errors(
        "schema (v6, v13); KafkaApis, maybeDownConvertStorageError; KIP-227, KIP-320, KIP-392, KIP-516",
        _LEADER | {E.OFFSET_OUT_OF_RANGE, E.CORRUPT_MESSAGE, E.UNSUPPORTED_COMPRESSION_TYPE},
        {
            E.KAFKA_STORAGE_ERROR: Since(6, E.NOT_LEADER_OR_FOLLOWER),
            E.FETCH_SESSION_ID_NOT_FOUND: Since(7, E.INVALID_REQUEST),
            E.INVALID_FETCH_SESSION_EPOCH: Since(7, E.INVALID_REQUEST),
            **_epochs(9),
            E.OFFSET_NOT_AVAILABLE: Since(11, E.NOT_LEADER_OR_FOLLOWER),
            **_by_id(13),
            E.INCONSISTENT_TOPIC_ID: Since(13, E.UNKNOWN_TOPIC_OR_PARTITION),
            E.FETCH_SESSION_TOPIC_ID_ERROR: Since(7, E.INVALID_REQUEST),
        },
        # It is for a batch that no response can hold. Consumers raise it to the application, which may seek past it.
        {E.MESSAGE_TOO_LARGE: E.CORRUPT_MESSAGE},
    ),
    2: Errors(
        "schema (v5); KafkaApis, handleListOffsetRequest; KIP-207, KIP-320",
        _LEADER | {E.UNSUPPORTED_FOR_MESSAGE_FORMAT, E.KAFKA_STORAGE_ERROR, E.REQUEST_TIMED_OUT},
        {**_epochs(4), E.OFFSET_NOT_AVAILABLE: Since(5, E.LEADER_NOT_AVAILABLE)},
        _BY_NAME,
    ),
    METADATA_KEY: Errors(
        "MetadataResponse; KRaftMetadataCache, getPartitionMetadata; AutoTopicCreationManager; KIP-516",
        _TOPIC
        | {
            E.LEADER_NOT_AVAILABLE,
            E.REPLICA_NOT_AVAILABLE,
            E.INVALID_PARTITIONS,
            E.INVALID_REPLICATION_FACTOR,
            E.INVALID_CONFIG,
            E.POLICY_VIOLATION,
            E.NOT_CONTROLLER,
            E.REQUEST_TIMED_OUT,
        },
        {E.LISTENER_NOT_FOUND: Since(6, E.LEADER_NOT_AVAILABLE), **_by_id(10)},
    ),
    8: Errors(
        "schema (v9, v10); GroupMetadataManager; CoordinatorOperationExceptionHelper; KIP-345, KIP-848",
        _GROUP
        | _TOPIC
        | {
            E.OFFSET_METADATA_TOO_LARGE,
            E.ILLEGAL_GENERATION,
            E.INVALID_GROUP_ID,
            E.UNKNOWN_MEMBER_ID,
            E.REBALANCE_IN_PROGRESS,
            E.INVALID_COMMIT_OFFSET_SIZE,
        },
        {**_static(7), E.GROUP_ID_NOT_FOUND: Since(9, E.ILLEGAL_GENERATION), **_by_id(10)},
        _COMMITTING,
    ),
    9: Errors(
        "schema (v9, v10); OffsetFetchResponse; KIP-447, KIP-848",
        _GROUP | _TOPIC | {E.GROUP_ID_NOT_FOUND},
        {
            E.UNSTABLE_OFFSET_COMMIT: Since(7, E.COORDINATOR_LOAD_IN_PROGRESS),
            E.UNKNOWN_MEMBER_ID: Since(9, E.INVALID_REQUEST),
            **_by_id(10),
        },
        _COORDINATORS_LOG,
    ),
    10: Errors(
        "schema (v5); FindCoordinatorResponse; KIP-890",
        _GROUP | {E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED},
        _abortable(5),
    ),
    11: Errors(
        "GroupMetadataManager, classicGroupJoin; KIP-345, KIP-389, KIP-394",
        _GROUP
        | {
            E.INCONSISTENT_GROUP_PROTOCOL,
            E.INVALID_GROUP_ID,
            E.UNKNOWN_MEMBER_ID,
            E.INVALID_SESSION_TIMEOUT,
            E.REBALANCE_IN_PROGRESS,
            E.GROUP_MAX_SIZE_REACHED,
        },
        {E.MEMBER_ID_REQUIRED: Since(4, E.UNKNOWN_MEMBER_ID), **_static(5)},
        _COORDINATORS_LOG,
    ),
    12: Errors(
        "GroupCoordinatorService, heartbeat: a loading coordinator responds without a check; KIP-345",
        _COORDINATOR - {E.COORDINATOR_LOAD_IN_PROGRESS}
        | {
            E.GROUP_AUTHORIZATION_FAILED,
            E.INVALID_GROUP_ID,
            E.ILLEGAL_GENERATION,
            E.UNKNOWN_MEMBER_ID,
            E.REBALANCE_IN_PROGRESS,
        },
        _static(3),
        {**_COORDINATORS_LOG, E.COORDINATOR_LOAD_IN_PROGRESS: E.NONE},
    ),
    13: Errors(
        "LeaveGroupResponse; KIP-345",
        _GROUP | {E.UNKNOWN_MEMBER_ID},
        _static(3),
        _COORDINATORS_LOG,
    ),
    14: Errors(
        "GroupCoordinatorService, syncGroup: a coordinator that is loading no longer knows the rebalance; KIP-345, "
        "KIP-559",
        _COORDINATOR - {E.COORDINATOR_LOAD_IN_PROGRESS}
        | {
            E.GROUP_AUTHORIZATION_FAILED,
            E.INCONSISTENT_GROUP_PROTOCOL,
            E.INVALID_GROUP_ID,
            E.ILLEGAL_GENERATION,
            E.UNKNOWN_MEMBER_ID,
            E.REBALANCE_IN_PROGRESS,
        },
        _static(3),
        {**_COORDINATORS_LOG, E.COORDINATOR_LOAD_IN_PROGRESS: E.REBALANCE_IN_PROGRESS},
    ),
    15: Errors(
        "schema (v6); KIP-1043: older versions describe the group as dead",
        _GROUP,
        {E.GROUP_ID_NOT_FOUND: Since(6, E.NONE)},
        _COORDINATORS_LOG,
    ),
    16: Errors(
        "ListGroupsResponse: a moving shard is reported as loading, so that clients retry",
        _COORDINATOR - {E.NOT_COORDINATOR},
        instead={
            **_COORDINATORS_LOG,
            E.NOT_COORDINATOR: E.COORDINATOR_LOAD_IN_PROGRESS,
            E.NOT_LEADER_OR_FOLLOWER: E.COORDINATOR_LOAD_IN_PROGRESS,
            E.KAFKA_STORAGE_ERROR: E.COORDINATOR_LOAD_IN_PROGRESS,
        },
    ),
    17: Errors(
        "SaslHandshakeResponse; SaslServerAuthenticator, handleHandshakeRequest",
        frozenset({E.UNSUPPORTED_SASL_MECHANISM, E.ILLEGAL_SASL_STATE}),
    ),
    18: Errors(
        "ApiVersionsResponse; KafkaApis, handleApiVersionsRequest; KIP-511, KIP-1242",
        since={E.REBOOTSTRAP_REQUIRED: Since(5, E.INVALID_REQUEST)},
    ),
    19: Errors(
        "schema (v6); CreateTopicsResponse; ReplicationControlManager; KIP-599",
        _CONTROLLER
        | {
            E.INVALID_TOPIC_EXCEPTION,
            E.TOPIC_AUTHORIZATION_FAILED,
            E.TOPIC_ALREADY_EXISTS,
            E.INVALID_PARTITIONS,
            E.INVALID_REPLICATION_FACTOR,
            E.INVALID_REPLICA_ASSIGNMENT,
            E.INVALID_CONFIG,
            E.POLICY_VIOLATION,
        },
        _throttled(6),
        _LOST_CONTROLLER,
    ),
    20: Errors(
        "schema (v3, v5, v6); DeleteTopicsResponse; KIP-516, KIP-599",
        _CONTROLLER | _TOPIC,
        {E.TOPIC_DELETION_DISABLED: Since(3, E.INVALID_REQUEST), **_throttled(5), **_by_id(6)},
        _LOST_CONTROLLER,
    ),
    21: Errors(
        "DeleteRecordsResponse; Partition, deleteRecordsOnLeader",
        _LEADER | {E.OFFSET_OUT_OF_RANGE, E.REQUEST_TIMED_OUT, E.POLICY_VIOLATION, E.KAFKA_STORAGE_ERROR},
        instead={**_BY_NAME, E.FENCED_LEADER_EPOCH: E.NOT_LEADER_OR_FOLLOWER},
    ),
    22: Errors(
        "schema (v4, v5); TransactionCoordinator, handleInitProducerId; KIP-588, KIP-890",
        _TRANSACTION - {E.INVALID_PRODUCER_ID_MAPPING}
        | {E.INVALID_TRANSACTION_TIMEOUT, E.NOT_CONTROLLER, E.BROKER_NOT_AVAILABLE},
        {**_fenced(4), **_abortable(5)},
        # A producer that names another id than the transactional id has was replaced.
        {**_COORDINATORS_LOG, E.INVALID_PRODUCER_ID_MAPPING: E.PRODUCER_FENCED},
    ),
    23: Errors(
        "OffsetsForLeaderEpochResponse; KIP-320",
        _LEADER | {E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH, E.KAFKA_STORAGE_ERROR, E.OFFSET_NOT_AVAILABLE},
        instead=_BY_NAME,
    ),
    24: Errors(
        "schema (v2, v5); TransactionCoordinator, handleAddPartitionsToTransaction; KIP-588, KIP-890",
        _TRANSACTION | _TOPIC | {E.OPERATION_NOT_ATTEMPTED},
        {**_fenced(2), **_abortable(5)},
        _COORDINATORS_LOG,
    ),
    25: Errors(
        "schema (v2, v4); AddOffsetsToTxnResponse; KIP-588, KIP-890",
        _TRANSACTION | {E.INVALID_GROUP_ID, E.GROUP_AUTHORIZATION_FAILED},
        {**_fenced(2), **_abortable(4)},
        _COORDINATORS_LOG,
    ),
    26: Errors(
        "schema (v2, v4); TransactionCoordinator, endTransaction; KIP-588, KIP-890",
        _TRANSACTION,
        {**_fenced(2), **_abortable(4)},
        _COORDINATORS_LOG,
    ),
    27: Errors(
        "WriteTxnMarkersResponse; KIP-1228",
        _TOPIC
        | {
            E.CORRUPT_MESSAGE,
            E.INVALID_PRODUCER_EPOCH,
            E.NOT_LEADER_OR_FOLLOWER,
            E.MESSAGE_TOO_LARGE,
            E.RECORD_LIST_TOO_LARGE,
            E.NOT_ENOUGH_REPLICAS,
            E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            E.INVALID_REQUIRED_ACKS,
            E.TRANSACTION_COORDINATOR_FENCED,
            E.REQUEST_TIMED_OUT,
            E.KAFKA_STORAGE_ERROR,
        },
        instead={**_BY_NAME, E.FENCED_LEADER_EPOCH: E.NOT_LEADER_OR_FOLLOWER},
    ),
    28: Errors(
        "schema (v4, v6); TxnOffsetCommitResponse: no version has PRODUCER_FENCED; KIP-447, KIP-890, KIP-1319",
        _TRANSACTION
        | _TOPIC
        | {
            E.OFFSET_METADATA_TOO_LARGE,
            E.ILLEGAL_GENERATION,
            E.INVALID_GROUP_ID,
            E.GROUP_AUTHORIZATION_FAILED,
            E.UNKNOWN_MEMBER_ID,
            E.REBALANCE_IN_PROGRESS,
            E.INVALID_COMMIT_OFFSET_SIZE,
            E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        },
        {**_static(3), **_abortable(4), **_by_id(6), E.GROUP_ID_NOT_FOUND: Since(6, E.ILLEGAL_GENERATION)},
        {
            **_COMMITTING,
            E.PRODUCER_FENCED: E.INVALID_PRODUCER_EPOCH,
        },
    ),
    29: Errors("DescribeAclsResponse; AclApis", _ACLS),
    30: Errors(
        "CreateAclsResponse; AclApis; AclControlManager",
        _ACLS | _CONTROLLER | {E.POLICY_VIOLATION},
        instead=_LOST_CONTROLLER,
    ),
    31: Errors("DeleteAclsResponse; AclApis; AclControlManager", _ACLS | _CONTROLLER, instead=_LOST_CONTROLLER),
    32: Errors("DescribeConfigsResponse; ConfigHelper", _CONFIG, instead=_LOST_CONTROLLER),
    33: Errors("AlterConfigsResponse; ConfigurationControlManager", _CONFIG, instead=_LOST_CONTROLLER),
    34: Errors(
        "AlterReplicaLogDirsResponse; ReplicaManager, alterReplicaLogDirs",
        _TOPIC | {E.LOG_DIR_NOT_FOUND, E.KAFKA_STORAGE_ERROR, E.REPLICA_NOT_AVAILABLE},
    ),
    35: Errors("DescribeLogDirsResponse; KIP-784", frozenset({E.LOG_DIR_NOT_FOUND, E.KAFKA_STORAGE_ERROR})),
    36: Errors(
        "SaslAuthenticateResponse; SaslServerAuthenticator, handleSaslToken; KIP-152",
        frozenset({E.SASL_AUTHENTICATION_FAILED, E.ILLEGAL_SASL_STATE}),
    ),
    37: Errors(
        "schema (v3); CreatePartitionsResponse; ReplicationControlManager; KIP-599",
        _CONTROLLER
        | _TOPIC
        | {E.INVALID_PARTITIONS, E.INVALID_REPLICATION_FACTOR, E.INVALID_REPLICA_ASSIGNMENT, E.POLICY_VIOLATION},
        _throttled(3),
        {**_LOST_CONTROLLER, **_BY_NAME},
    ),
    42: Errors(
        "DeleteGroupsResponse",
        _GROUP | {E.NON_EMPTY_GROUP, E.GROUP_ID_NOT_FOUND},
        instead=_COORDINATORS_LOG,
    ),
    43: Errors(
        "ElectLeadersResponse; KIP-460: v0 has no unclean elections",
        _CONTROLLER | _TOPIC | {E.PREFERRED_LEADER_NOT_AVAILABLE, E.ELECTION_NOT_NEEDED},
        {E.ELIGIBLE_LEADERS_NOT_AVAILABLE: Since(1, E.PREFERRED_LEADER_NOT_AVAILABLE)},
        {**_LOST_CONTROLLER, **_BY_NAME},
    ),
    44: Errors("IncrementalAlterConfigsResponse; ConfigurationControlManager", _CONFIG, instead=_LOST_CONTROLLER),
    47: Errors(
        "OffsetDeleteResponse; KIP-496",
        _GROUP | _TOPIC | {E.GROUP_SUBSCRIBED_TO_TOPIC, E.GROUP_ID_NOT_FOUND, E.NON_EMPTY_GROUP},
        instead=_COORDINATORS_LOG,
    ),
    48: Errors("DescribeClientQuotasResponse; KIP-546", frozenset({E.CLUSTER_AUTHORIZATION_FAILED})),
    50: Errors(
        "DescribeUserScramCredentialsResponse; KIP-554",
        frozenset({E.RESOURCE_NOT_FOUND, E.DUPLICATE_RESOURCE, E.CLUSTER_AUTHORIZATION_FAILED}),
    ),
    51: Errors(
        "AlterUserScramCredentialsResponse; KIP-554; ScramControlManager",
        _CONTROLLER
        | {
            E.RESOURCE_NOT_FOUND,
            E.DUPLICATE_RESOURCE,
            E.UNACCEPTABLE_CREDENTIAL,
            E.UNSUPPORTED_SASL_MECHANISM,
            E.POLICY_VIOLATION,
            E.CLUSTER_AUTHORIZATION_FAILED,
        },
        instead=_LOST_CONTROLLER,
    ),
    55: Errors(
        "DescribeQuorumResponse; KIP-595",
        _CONTROLLER | {E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_TOPIC_OR_PARTITION},
        instead=_LOST_CONTROLLER,
    ),
    57: Errors(
        "UpdateFeaturesResponse; QuorumController, updateFeatures; KIP-584",
        _CONTROLLER | {E.INVALID_UPDATE_VERSION},
        instead=_LOST_CONTROLLER,
    ),
    60: Errors(
        "schema (v1); KIP-919: v0 has only one kind of endpoint",
        since=dict.fromkeys((E.MISMATCHED_ENDPOINT_TYPE, E.UNSUPPORTED_ENDPOINT_TYPE), Since(1, E.INVALID_REQUEST)),
    ),
    61: Errors(
        "DescribeProducersResponse; KIP-664",
        _TOPIC | {E.NOT_LEADER_OR_FOLLOWER, E.KAFKA_STORAGE_ERROR},
        instead=_BY_NAME,
    ),
    65: Errors(
        "DescribeTransactionsResponse; KIP-664",
        _COORDINATOR | {E.TRANSACTIONAL_ID_NOT_FOUND, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED},
        instead=_COORDINATORS_LOG,
    ),
    66: Errors(
        "ListTransactionsResponse; KIP-664, KIP-1152: a moving shard is reported as loading",
        _COORDINATOR - {E.NOT_COORDINATOR},
        {E.INVALID_REGULAR_EXPRESSION: Since(2, E.INVALID_REQUEST)},
        {
            **_COORDINATORS_LOG,
            E.NOT_COORDINATOR: E.COORDINATOR_LOAD_IN_PROGRESS,
            E.NOT_LEADER_OR_FOLLOWER: E.COORDINATOR_LOAD_IN_PROGRESS,
            E.KAFKA_STORAGE_ERROR: E.COORDINATOR_LOAD_IN_PROGRESS,
        },
    ),
    74: Errors("ListConfigResourcesResponse; KIP-1142"),
    75: Errors("DescribeTopicPartitionsResponse; KIP-966", _TOPIC | {E.LEADER_NOT_AVAILABLE, E.LISTENER_NOT_FOUND}),
    OttlaCallResponse.API_KEY: Errors("the private API; the errors of its methods are in their own responses"),
}
"""The error codes of each API, by its key."""


@lru_cache(4096)
def sent_code(key: int, version: int, code: int) -> int:
    """Return the code that a response of this version carries for `code`. A code without a row is logged once."""
    errors = ERRORS[key]
    if code in OF_ALL or code in errors.codes:
        return code
    since = errors.since.get(E(code)) if code in _CODES else None
    if since is not None:
        return code if version >= since.version else sent_code(key, version, int(since.before))
    instead = errors.instead.get(E(code)) if code in _CODES else None
    if instead is not None:
        return sent_code(key, version, int(instead))
    _log.error(
        "API %d does not have error code %d in version %d; the client gets UNKNOWN_SERVER_ERROR", key, code, version
    )
    return int(E.UNKNOWN_SERVER_ERROR)
