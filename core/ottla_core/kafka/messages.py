"""The classes of Kafka's messages. `tools/kafka_definitions.py` writes this file from `definitions.json` and
`private_fields.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ottla_core.kafka.message import Message


class AddOffsetsToTxnRequest(Message):
    API_KEY: ClassVar = 25
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id",)

    def __init__(
        self, *, transactional_id: str = '', producer_id: int = 0, producer_epoch: int = 0,
        group_id: str = '',
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class AddOffsetsToTxnResponse(Message):
    API_KEY: ClassVar = 25
    __slots__ = ("throttle_time_ms", "error_code",)

    def __init__(self, *, throttle_time_ms: int = 0, error_code: int = 0,) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


class AddPartitionsToTxnRequest(Message):
    API_KEY: ClassVar = 24
    __slots__ = (
        "transactions", "v3_and_below_transactional_id", "v3_and_below_producer_id",
        "v3_and_below_producer_epoch", "v3_and_below_topics",
    )

    def __init__(
        self, *, transactions: Sequence[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = (),
        v3_and_below_transactional_id: str = '', v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: Sequence[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = (),
    ) -> None:
        self.transactions = transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = v3_and_below_topics

    class AddPartitionsToTxnTransaction(Message):
        __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics",)

        def __init__(
            self, *, transactional_id: str = '', producer_id: int = 0, producer_epoch: int = 0,
            verify_only: bool = False, topics: Sequence[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = (),
        ) -> None:
            self.transactional_id = transactional_id
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.verify_only = verify_only
            self.topics = topics

    class AddPartitionsToTxnTopic(Message):
        __slots__ = ("name", "partitions",)

        def __init__(self, *, name: str = '', partitions: Sequence[int] = (),) -> None:
            self.name = name
            self.partitions = partitions


class AddPartitionsToTxnResponse(Message):
    API_KEY: ClassVar = 24
    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0,
        results_by_transaction: Sequence[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = (),
        results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = results_by_transaction
        self.results_by_topic_v3_and_below = results_by_topic_v3_and_below

    class AddPartitionsToTxnResult(Message):
        __slots__ = ("transactional_id", "topic_results",)

        def __init__(
            self, *, transactional_id: str = '',
            topic_results: Sequence[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = (),
        ) -> None:
            self.transactional_id = transactional_id
            self.topic_results = topic_results

    class AddPartitionsToTxnTopicResult(Message):
        __slots__ = ("name", "results_by_partition",)

        def __init__(
            self, *, name: str = '',
            results_by_partition: Sequence[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = (),
        ) -> None:
            self.name = name
            self.results_by_partition = results_by_partition

    class AddPartitionsToTxnPartitionResult(Message):
        __slots__ = ("partition_index", "partition_error_code",)

        def __init__(self, *, partition_index: int = 0, partition_error_code: int = 0,) -> None:
            self.partition_index = partition_index
            self.partition_error_code = partition_error_code


class AlterConfigsRequest(Message):
    API_KEY: ClassVar = 33
    __slots__ = ("resources", "validate_only",)

    def __init__(
        self, *, resources: Sequence[AlterConfigsRequest.AlterConfigsResource] = (),
        validate_only: bool = False,
    ) -> None:
        self.resources = resources
        self.validate_only = validate_only

    class AlterConfigsResource(Message):
        __slots__ = ("resource_type", "resource_name", "configs",)

        def __init__(
            self, *, resource_type: int = 0, resource_name: str = '',
            configs: Sequence[AlterConfigsRequest.AlterableConfig] = (),
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.configs = configs

    class AlterableConfig(Message):
        __slots__ = ("name", "value",)

        def __init__(self, *, name: str = '', value: str | None = '',) -> None:
            self.name = name
            self.value = value


class AlterConfigsResponse(Message):
    API_KEY: ClassVar = 33
    __slots__ = ("throttle_time_ms", "responses",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        responses: Sequence[AlterConfigsResponse.AlterConfigsResourceResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses

    class AlterConfigsResourceResponse(Message):
        __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "warnings",)

        def __init__(
            self, *, error_code: int = 0, error_message: str | None = '', resource_type: int = 0,
            resource_name: str = '', warnings: Sequence[str] = (),
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.warnings = warnings


class AlterReplicaLogDirsRequest(Message):
    API_KEY: ClassVar = 34
    __slots__ = ("dirs",)

    def __init__(self, *, dirs: Sequence[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = (),) -> None:
        self.dirs = dirs

    class AlterReplicaLogDir(Message):
        __slots__ = ("path", "topics",)

        def __init__(
            self, *, path: str = '', topics: Sequence[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = (),
        ) -> None:
            self.path = path
            self.topics = topics

    class AlterReplicaLogDirTopic(Message):
        __slots__ = ("name", "partitions",)

        def __init__(self, *, name: str = '', partitions: Sequence[int] = (),) -> None:
            self.name = name
            self.partitions = partitions


class AlterReplicaLogDirsResponse(Message):
    API_KEY: ClassVar = 34
    __slots__ = ("throttle_time_ms", "results",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        results: Sequence[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results

    class AlterReplicaLogDirTopicResult(Message):
        __slots__ = ("topic_name", "partitions",)

        def __init__(
            self, *, topic_name: str = '',
            partitions: Sequence[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = (),
        ) -> None:
            self.topic_name = topic_name
            self.partitions = partitions

    class AlterReplicaLogDirPartitionResult(Message):
        __slots__ = ("partition_index", "error_code",)

        def __init__(self, *, partition_index: int = 0, error_code: int = 0,) -> None:
            self.partition_index = partition_index
            self.error_code = error_code


class AlterUserScramCredentialsRequest(Message):
    API_KEY: ClassVar = 51
    __slots__ = ("deletions", "upsertions",)

    def __init__(
        self, *, deletions: Sequence[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = (),
        upsertions: Sequence[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = (),
    ) -> None:
        self.deletions = deletions
        self.upsertions = upsertions

    class ScramCredentialDeletion(Message):
        __slots__ = ("name", "mechanism",)

        def __init__(self, *, name: str = '', mechanism: int = 0,) -> None:
            self.name = name
            self.mechanism = mechanism

    class ScramCredentialUpsertion(Message):
        __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password",)

        def __init__(
            self, *, name: str = '', mechanism: int = 0, iterations: int = 0, salt: bytes = b'',
            salted_password: bytes = b'',
        ) -> None:
            self.name = name
            self.mechanism = mechanism
            self.iterations = iterations
            self.salt = salt
            self.salted_password = salted_password


class AlterUserScramCredentialsResponse(Message):
    API_KEY: ClassVar = 51
    __slots__ = ("throttle_time_ms", "results",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        results: Sequence[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results

    class AlterUserScramCredentialsResult(Message):
        __slots__ = ("user", "error_code", "error_message",)

        def __init__(self, *, user: str = '', error_code: int = 0, error_message: str | None = '',) -> None:
            self.user = user
            self.error_code = error_code
            self.error_message = error_message


class ApiVersionsRequest(Message):
    API_KEY: ClassVar = 18
    __slots__ = ("client_software_name", "client_software_version", "cluster_id", "node_id",)

    def __init__(
        self, *, client_software_name: str = '', client_software_version: str = '',
        cluster_id: str | None = None, node_id: int = -1,
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.cluster_id = cluster_id
        self.node_id = node_id


class ApiVersionsResponse(Message):
    API_KEY: ClassVar = 18
    __slots__ = (
        "error_code", "api_keys", "throttle_time_ms", "supported_features", "finalized_features_epoch",
        "finalized_features", "zk_migration_ready",
    )

    def __init__(
        self, *, error_code: int = 0, api_keys: Sequence[ApiVersionsResponse.ApiVersion] = (),
        throttle_time_ms: int = 0, supported_features: Sequence[ApiVersionsResponse.SupportedFeatureKey] = (),
        finalized_features_epoch: int = -1,
        finalized_features: Sequence[ApiVersionsResponse.FinalizedFeatureKey] = (),
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = finalized_features
        self.zk_migration_ready = zk_migration_ready

    class ApiVersion(Message):
        __slots__ = ("api_key", "min_version", "max_version",)

        def __init__(self, *, api_key: int = 0, min_version: int = 0, max_version: int = 0,) -> None:
            self.api_key = api_key
            self.min_version = min_version
            self.max_version = max_version

    class SupportedFeatureKey(Message):
        __slots__ = ("name", "min_version", "max_version",)

        def __init__(self, *, name: str = '', min_version: int = 0, max_version: int = 0,) -> None:
            self.name = name
            self.min_version = min_version
            self.max_version = max_version

    class FinalizedFeatureKey(Message):
        __slots__ = ("name", "max_version_level", "min_version_level",)

        def __init__(self, *, name: str = '', max_version_level: int = 0, min_version_level: int = 0,) -> None:
            self.name = name
            self.max_version_level = max_version_level
            self.min_version_level = min_version_level


class ConsumerGroupDescribeRequest(Message):
    API_KEY: ClassVar = 69
    __slots__ = ("group_ids", "include_authorized_operations",)

    def __init__(
        self, *, group_ids: Sequence[str] = (), include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = group_ids
        self.include_authorized_operations = include_authorized_operations


class ConsumerGroupDescribeResponse(Message):
    API_KEY: ClassVar = 69
    __slots__ = ("throttle_time_ms", "groups",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        groups: Sequence[ConsumerGroupDescribeResponse.DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups

    class DescribedGroup(Message):
        __slots__ = (
            "error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch",
            "assignor_name", "members", "authorized_operations", "shard", "coordinator",
        )

        def __init__(
            self, *, error_code: int = 0, error_message: str | None = None, group_id: str = '',
            group_state: str = '', group_epoch: int = 0, assignment_epoch: int = 0, assignor_name: str = '',
            members: Sequence[ConsumerGroupDescribeResponse.Member] = (),
            authorized_operations: int = -2147483648, shard: int = -1, coordinator: int = -1,
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.group_id = group_id
            self.group_state = group_state
            self.group_epoch = group_epoch
            self.assignment_epoch = assignment_epoch
            self.assignor_name = assignor_name
            self.members = members
            self.authorized_operations = authorized_operations
            self.shard = shard
            self.coordinator = coordinator

    class Member(Message):
        __slots__ = (
            "member_id", "instance_id", "rack_id", "member_epoch", "client_id", "client_host",
            "subscribed_topic_names", "subscribed_topic_regex", "assignment", "target_assignment", "member_type",
            "state", "revoking", "session_timeout_ms", "rebalance_timeout_ms",
        )

        def __init__(
            self, *, member_id: str = '', instance_id: str | None = None, rack_id: str | None = None,
            member_epoch: int = 0, client_id: str = '', client_host: str = '',
            subscribed_topic_names: Sequence[str] = (), subscribed_topic_regex: str | None = None,
            assignment: ConsumerGroupDescribeResponse.Assignment | None = None,
            target_assignment: ConsumerGroupDescribeResponse.Assignment | None = None, member_type: int = -1,
            state: str = '', revoking: Sequence[ConsumerGroupDescribeResponse.TopicPartitions] = (),
            session_timeout_ms: int = 0, rebalance_timeout_ms: int = 0,
        ) -> None:
            self.member_id = member_id
            self.instance_id = instance_id
            self.rack_id = rack_id
            self.member_epoch = member_epoch
            self.client_id = client_id
            self.client_host = client_host
            self.subscribed_topic_names = subscribed_topic_names
            self.subscribed_topic_regex = subscribed_topic_regex
            self.assignment = assignment
            self.target_assignment = target_assignment
            self.member_type = member_type
            self.state = state
            self.revoking = revoking
            self.session_timeout_ms = session_timeout_ms
            self.rebalance_timeout_ms = rebalance_timeout_ms

    class Assignment(Message):
        __slots__ = ("topic_partitions",)

        def __init__(
            self, *, topic_partitions: Sequence[ConsumerGroupDescribeResponse.TopicPartitions] = (),
        ) -> None:
            self.topic_partitions = topic_partitions

    class TopicPartitions(Message):
        __slots__ = ("topic_id", "topic_name", "partitions",)

        def __init__(
            self, *, topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            topic_name: str = '', partitions: Sequence[int] = (),
        ) -> None:
            self.topic_id = topic_id
            self.topic_name = topic_name
            self.partitions = partitions


class ConsumerGroupHeartbeatRequest(Message):
    API_KEY: ClassVar = 68
    __slots__ = (
        "group_id", "member_id", "member_epoch", "instance_id", "rack_id", "rebalance_timeout_ms",
        "subscribed_topic_names", "subscribed_topic_regex", "server_assignor", "topic_partitions",
    )

    def __init__(
        self, *, group_id: str = '', member_id: str = '', member_epoch: int = 0,
        instance_id: str | None = None, rack_id: str | None = None, rebalance_timeout_ms: int = -1,
        subscribed_topic_names: Sequence[str] | None = None, subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: Sequence[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions

    class TopicPartitions(Message):
        __slots__ = ("topic_id", "partitions",)

        def __init__(
            self, *, topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partitions: Sequence[int] = (),
        ) -> None:
            self.topic_id = topic_id
            self.partitions = partitions


class ConsumerGroupHeartbeatResponse(Message):
    API_KEY: ClassVar = 68
    __slots__ = (
        "throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch",
        "heartbeat_interval_ms", "assignment",
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = None,
        member_id: str | None = None, member_epoch: int = 0, heartbeat_interval_ms: int = 0,
        assignment: ConsumerGroupHeartbeatResponse.Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment

    class Assignment(Message):
        __slots__ = ("topic_partitions",)

        def __init__(
            self, *, topic_partitions: Sequence[ConsumerGroupHeartbeatResponse.TopicPartitions] = (),
        ) -> None:
            self.topic_partitions = topic_partitions

    class TopicPartitions(Message):
        __slots__ = ("topic_id", "partitions",)

        def __init__(
            self, *, topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partitions: Sequence[int] = (),
        ) -> None:
            self.topic_id = topic_id
            self.partitions = partitions


class CreateAclsRequest(Message):
    API_KEY: ClassVar = 30
    __slots__ = ("creations",)

    def __init__(self, *, creations: Sequence[CreateAclsRequest.AclCreation] = (),) -> None:
        self.creations = creations

    class AclCreation(Message):
        __slots__ = (
            "resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation",
            "permission_type",
        )

        def __init__(
            self, *, resource_type: int = 0, resource_name: str = '', resource_pattern_type: int = 3,
            principal: str = '', host: str = '', operation: int = 0, permission_type: int = 0,
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.resource_pattern_type = resource_pattern_type
            self.principal = principal
            self.host = host
            self.operation = operation
            self.permission_type = permission_type


class CreateAclsResponse(Message):
    API_KEY: ClassVar = 30
    __slots__ = ("throttle_time_ms", "results",)

    def __init__(
        self, *, throttle_time_ms: int = 0, results: Sequence[CreateAclsResponse.AclCreationResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results

    class AclCreationResult(Message):
        __slots__ = ("error_code", "error_message",)

        def __init__(self, *, error_code: int = 0, error_message: str | None = '',) -> None:
            self.error_code = error_code
            self.error_message = error_message


class CreatePartitionsRequest(Message):
    API_KEY: ClassVar = 37
    __slots__ = ("topics", "timeout_ms", "validate_only",)

    def __init__(
        self, *, topics: Sequence[CreatePartitionsRequest.CreatePartitionsTopic] = (), timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only

    class CreatePartitionsTopic(Message):
        __slots__ = ("name", "count", "assignments",)

        def __init__(
            self, *, name: str = '', count: int = 0,
            assignments: Sequence[CreatePartitionsRequest.CreatePartitionsAssignment] | None = (),
        ) -> None:
            self.name = name
            self.count = count
            self.assignments = assignments

    class CreatePartitionsAssignment(Message):
        __slots__ = ("broker_ids",)

        def __init__(self, *, broker_ids: Sequence[int] = (),) -> None:
            self.broker_ids = broker_ids


class CreatePartitionsResponse(Message):
    API_KEY: ClassVar = 37
    __slots__ = ("throttle_time_ms", "results",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        results: Sequence[CreatePartitionsResponse.CreatePartitionsTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results

    class CreatePartitionsTopicResult(Message):
        __slots__ = ("name", "error_code", "error_message",)

        def __init__(self, *, name: str = '', error_code: int = 0, error_message: str | None = None,) -> None:
            self.name = name
            self.error_code = error_code
            self.error_message = error_message


class CreateTopicsRequest(Message):
    API_KEY: ClassVar = 19
    __slots__ = ("topics", "timeout_ms", "validate_only",)

    def __init__(
        self, *, topics: Sequence[CreateTopicsRequest.CreatableTopic] = (), timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only

    class CreatableTopic(Message):
        __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs",)

        def __init__(
            self, *, name: str = '', num_partitions: int = 0, replication_factor: int = 0,
            assignments: Sequence[CreateTopicsRequest.CreatableReplicaAssignment] = (),
            configs: Sequence[CreateTopicsRequest.CreatableTopicConfig] = (),
        ) -> None:
            self.name = name
            self.num_partitions = num_partitions
            self.replication_factor = replication_factor
            self.assignments = assignments
            self.configs = configs

    class CreatableReplicaAssignment(Message):
        __slots__ = ("partition_index", "broker_ids",)

        def __init__(self, *, partition_index: int = 0, broker_ids: Sequence[int] = (),) -> None:
            self.partition_index = partition_index
            self.broker_ids = broker_ids

    class CreatableTopicConfig(Message):
        __slots__ = ("name", "value",)

        def __init__(self, *, name: str = '', value: str | None = '',) -> None:
            self.name = name
            self.value = value


class CreateTopicsResponse(Message):
    API_KEY: ClassVar = 19
    __slots__ = ("throttle_time_ms", "topics",)

    def __init__(
        self, *, throttle_time_ms: int = 0, topics: Sequence[CreateTopicsResponse.CreatableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    class CreatableTopicResult(Message):
        __slots__ = (
            "name", "topic_id", "error_code", "error_message", "topic_config_error_code", "num_partitions",
            "replication_factor", "configs", "warnings",
        )

        def __init__(
            self, *, name: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            error_code: int = 0, error_message: str | None = '', topic_config_error_code: int = 0,
            num_partitions: int = -1, replication_factor: int = -1,
            configs: Sequence[CreateTopicsResponse.CreatableTopicConfigs] | None = (),
            warnings: Sequence[str] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.error_code = error_code
            self.error_message = error_message
            self.topic_config_error_code = topic_config_error_code
            self.num_partitions = num_partitions
            self.replication_factor = replication_factor
            self.configs = configs
            self.warnings = warnings

    class CreatableTopicConfigs(Message):
        __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive",)

        def __init__(
            self, *, name: str = '', value: str | None = '', read_only: bool = False, config_source: int = -1,
            is_sensitive: bool = False,
        ) -> None:
            self.name = name
            self.value = value
            self.read_only = read_only
            self.config_source = config_source
            self.is_sensitive = is_sensitive


class DeleteAclsRequest(Message):
    API_KEY: ClassVar = 31
    __slots__ = ("filters",)

    def __init__(self, *, filters: Sequence[DeleteAclsRequest.DeleteAclsFilter] = (),) -> None:
        self.filters = filters

    class DeleteAclsFilter(Message):
        __slots__ = (
            "resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter",
            "host_filter", "operation", "permission_type",
        )

        def __init__(
            self, *, resource_type_filter: int = 0, resource_name_filter: str | None = '',
            pattern_type_filter: int = 3, principal_filter: str | None = '', host_filter: str | None = '',
            operation: int = 0, permission_type: int = 0,
        ) -> None:
            self.resource_type_filter = resource_type_filter
            self.resource_name_filter = resource_name_filter
            self.pattern_type_filter = pattern_type_filter
            self.principal_filter = principal_filter
            self.host_filter = host_filter
            self.operation = operation
            self.permission_type = permission_type


class DeleteAclsResponse(Message):
    API_KEY: ClassVar = 31
    __slots__ = ("throttle_time_ms", "filter_results",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        filter_results: Sequence[DeleteAclsResponse.DeleteAclsFilterResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = filter_results

    class DeleteAclsFilterResult(Message):
        __slots__ = ("error_code", "error_message", "matching_acls",)

        def __init__(
            self, *, error_code: int = 0, error_message: str | None = '',
            matching_acls: Sequence[DeleteAclsResponse.DeleteAclsMatchingAcl] = (),
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.matching_acls = matching_acls

    class DeleteAclsMatchingAcl(Message):
        __slots__ = (
            "error_code", "error_message", "resource_type", "resource_name", "pattern_type", "principal", "host",
            "operation", "permission_type",
        )

        def __init__(
            self, *, error_code: int = 0, error_message: str | None = '', resource_type: int = 0,
            resource_name: str = '', pattern_type: int = 3, principal: str = '', host: str = '',
            operation: int = 0, permission_type: int = 0,
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.pattern_type = pattern_type
            self.principal = principal
            self.host = host
            self.operation = operation
            self.permission_type = permission_type


class DeleteGroupsRequest(Message):
    API_KEY: ClassVar = 42
    __slots__ = ("groups_names",)

    def __init__(self, *, groups_names: Sequence[str] = (),) -> None:
        self.groups_names = groups_names


class DeleteGroupsResponse(Message):
    API_KEY: ClassVar = 42
    __slots__ = ("throttle_time_ms", "results",)

    def __init__(
        self, *, throttle_time_ms: int = 0, results: Sequence[DeleteGroupsResponse.DeletableGroupResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results

    class DeletableGroupResult(Message):
        __slots__ = ("group_id", "error_code", "error_message",)

        def __init__(self, *, group_id: str = '', error_code: int = 0, error_message: str | None = None,) -> None:
            self.group_id = group_id
            self.error_code = error_code
            self.error_message = error_message


class DeleteRecordsRequest(Message):
    API_KEY: ClassVar = 21
    __slots__ = ("topics", "timeout_ms",)

    def __init__(
        self, *, topics: Sequence[DeleteRecordsRequest.DeleteRecordsTopic] = (), timeout_ms: int = 0,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms

    class DeleteRecordsTopic(Message):
        __slots__ = ("name", "partitions",)

        def __init__(
            self, *, name: str = '', partitions: Sequence[DeleteRecordsRequest.DeleteRecordsPartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class DeleteRecordsPartition(Message):
        __slots__ = ("partition_index", "offset",)

        def __init__(self, *, partition_index: int = 0, offset: int = 0,) -> None:
            self.partition_index = partition_index
            self.offset = offset


class DeleteRecordsResponse(Message):
    API_KEY: ClassVar = 21
    __slots__ = ("throttle_time_ms", "topics",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        topics: Sequence[DeleteRecordsResponse.DeleteRecordsTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    class DeleteRecordsTopicResult(Message):
        __slots__ = ("name", "partitions",)

        def __init__(
            self, *, name: str = '',
            partitions: Sequence[DeleteRecordsResponse.DeleteRecordsPartitionResult] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class DeleteRecordsPartitionResult(Message):
        __slots__ = ("partition_index", "low_watermark", "error_code", "error_message",)

        def __init__(
            self, *, partition_index: int = 0, low_watermark: int = 0, error_code: int = 0,
            error_message: str = '',
        ) -> None:
            self.partition_index = partition_index
            self.low_watermark = low_watermark
            self.error_code = error_code
            self.error_message = error_message


class DeleteTopicsRequest(Message):
    API_KEY: ClassVar = 20
    __slots__ = ("topics", "topic_names", "timeout_ms",)

    def __init__(
        self, *, topics: Sequence[DeleteTopicsRequest.DeleteTopicState] = (), topic_names: Sequence[str] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.topics = topics
        self.topic_names = topic_names
        self.timeout_ms = timeout_ms

    class DeleteTopicState(Message):
        __slots__ = ("name", "topic_id",)

        def __init__(
            self, *, name: str | None = None,
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
        ) -> None:
            self.name = name
            self.topic_id = topic_id


class DeleteTopicsResponse(Message):
    API_KEY: ClassVar = 20
    __slots__ = ("throttle_time_ms", "responses",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        responses: Sequence[DeleteTopicsResponse.DeletableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses

    class DeletableTopicResult(Message):
        __slots__ = ("name", "topic_id", "error_code", "error_message",)

        def __init__(
            self, *, name: str | None = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            error_code: int = 0, error_message: str | None = None,
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.error_code = error_code
            self.error_message = error_message


class DescribeAclsRequest(Message):
    API_KEY: ClassVar = 29
    __slots__ = (
        "resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter",
        "host_filter", "operation", "permission_type",
    )

    def __init__(
        self, *, resource_type_filter: int = 0, resource_name_filter: str | None = '',
        pattern_type_filter: int = 3, principal_filter: str | None = '', host_filter: str | None = '',
        operation: int = 0, permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResponse(Message):
    API_KEY: ClassVar = 29
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = '',
        resources: Sequence[DescribeAclsResponse.DescribeAclsResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = resources

    class DescribeAclsResource(Message):
        __slots__ = ("resource_type", "resource_name", "pattern_type", "acls",)

        def __init__(
            self, *, resource_type: int = 0, resource_name: str = '', pattern_type: int = 3,
            acls: Sequence[DescribeAclsResponse.AclDescription] = (),
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.pattern_type = pattern_type
            self.acls = acls

    class AclDescription(Message):
        __slots__ = ("principal", "host", "operation", "permission_type",)

        def __init__(
            self, *, principal: str = '', host: str = '', operation: int = 0, permission_type: int = 0,
        ) -> None:
            self.principal = principal
            self.host = host
            self.operation = operation
            self.permission_type = permission_type


class DescribeClientQuotasRequest(Message):
    API_KEY: ClassVar = 48
    __slots__ = ("components", "strict",)

    def __init__(
        self, *, components: Sequence[DescribeClientQuotasRequest.ComponentData] = (), strict: bool = False,
    ) -> None:
        self.components = components
        self.strict = strict

    class ComponentData(Message):
        __slots__ = ("entity_type", "match_type", "match",)

        def __init__(self, *, entity_type: str = '', match_type: int = 0, match: str | None = '',) -> None:
            self.entity_type = entity_type
            self.match_type = match_type
            self.match = match


class DescribeClientQuotasResponse(Message):
    API_KEY: ClassVar = 48
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = '',
        entries: Sequence[DescribeClientQuotasResponse.EntryData] | None = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = entries

    class EntryData(Message):
        __slots__ = ("entity", "values",)

        def __init__(
            self, *, entity: Sequence[DescribeClientQuotasResponse.EntityData] = (),
            values: Sequence[DescribeClientQuotasResponse.ValueData] = (),
        ) -> None:
            self.entity = entity
            self.values = values

    class EntityData(Message):
        __slots__ = ("entity_type", "entity_name",)

        def __init__(self, *, entity_type: str = '', entity_name: str | None = '',) -> None:
            self.entity_type = entity_type
            self.entity_name = entity_name

    class ValueData(Message):
        __slots__ = ("key", "value",)

        def __init__(self, *, key: str = '', value: float = 0.0,) -> None:
            self.key = key
            self.value = value


class DescribeClusterRequest(Message):
    API_KEY: ClassVar = 60
    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers",)

    def __init__(
        self, *, include_cluster_authorized_operations: bool = False, endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers


class DescribeClusterResponse(Message):
    API_KEY: ClassVar = 60
    __slots__ = (
        "throttle_time_ms", "error_code", "error_message", "endpoint_type", "cluster_id", "controller_id",
        "brokers", "cluster_authorized_operations", "controller",
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = None,
        endpoint_type: int = 1, cluster_id: str = '', controller_id: int = -1,
        brokers: Sequence[DescribeClusterResponse.DescribeClusterBroker] = (),
        cluster_authorized_operations: int = -2147483648,
        controller: DescribeClusterResponse.ElectedController | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = brokers
        self.cluster_authorized_operations = cluster_authorized_operations
        self.controller = controller

    class DescribeClusterBroker(Message):
        __slots__ = (
            "broker_id", "host", "port", "rack", "is_fenced", "epoch", "read_only", "first_listener", "listeners",
        )

        def __init__(
            self, *, broker_id: int = 0, host: str = '', port: int = 0, rack: str | None = None,
            is_fenced: bool = False, epoch: int = -1, read_only: bool = False, first_listener: str = '',
            listeners: Sequence[DescribeClusterResponse.Listener] = (),
        ) -> None:
            self.broker_id = broker_id
            self.host = host
            self.port = port
            self.rack = rack
            self.is_fenced = is_fenced
            self.epoch = epoch
            self.read_only = read_only
            self.first_listener = first_listener
            self.listeners = listeners

    class Listener(Message):
        __slots__ = ("name", "address",)

        def __init__(self, *, name: str = '', address: str = '',) -> None:
            self.name = name
            self.address = address

    class ElectedController(Message):
        __slots__ = ("id", "address", "epoch",)

        def __init__(self, *, id: int = 0, address: str = '', epoch: int = 0,) -> None:
            self.id = id
            self.address = address
            self.epoch = epoch


class DescribeConfigsRequest(Message):
    API_KEY: ClassVar = 32
    __slots__ = ("resources", "include_synonyms", "include_documentation",)

    def __init__(
        self, *, resources: Sequence[DescribeConfigsRequest.DescribeConfigsResource] = (),
        include_synonyms: bool = False, include_documentation: bool = False,
    ) -> None:
        self.resources = resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation

    class DescribeConfigsResource(Message):
        __slots__ = ("resource_type", "resource_name", "configuration_keys",)

        def __init__(
            self, *, resource_type: int = 0, resource_name: str = '',
            configuration_keys: Sequence[str] | None = (),
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.configuration_keys = configuration_keys


class DescribeConfigsResponse(Message):
    API_KEY: ClassVar = 32
    __slots__ = ("throttle_time_ms", "results",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        results: Sequence[DescribeConfigsResponse.DescribeConfigsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results

    class DescribeConfigsResult(Message):
        __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs",)

        def __init__(
            self, *, error_code: int = 0, error_message: str | None = '', resource_type: int = 0,
            resource_name: str = '',
            configs: Sequence[DescribeConfigsResponse.DescribeConfigsResourceResult] = (),
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.configs = configs

    class DescribeConfigsResourceResult(Message):
        __slots__ = (
            "name", "value", "read_only", "config_source", "is_sensitive", "synonyms", "config_type",
            "documentation", "enforced",
        )

        def __init__(
            self, *, name: str = '', value: str | None = '', read_only: bool = False, config_source: int = -1,
            is_sensitive: bool = False, synonyms: Sequence[DescribeConfigsResponse.DescribeConfigsSynonym] = (),
            config_type: int = 0, documentation: str | None = '', enforced: bool = True,
        ) -> None:
            self.name = name
            self.value = value
            self.read_only = read_only
            self.config_source = config_source
            self.is_sensitive = is_sensitive
            self.synonyms = synonyms
            self.config_type = config_type
            self.documentation = documentation
            self.enforced = enforced

    class DescribeConfigsSynonym(Message):
        __slots__ = ("name", "value", "source",)

        def __init__(self, *, name: str = '', value: str | None = '', source: int = 0,) -> None:
            self.name = name
            self.value = value
            self.source = source


class DescribeGroupsRequest(Message):
    API_KEY: ClassVar = 15
    __slots__ = ("groups", "include_authorized_operations",)

    def __init__(self, *, groups: Sequence[str] = (), include_authorized_operations: bool = False,) -> None:
        self.groups = groups
        self.include_authorized_operations = include_authorized_operations


class DescribeGroupsResponse(Message):
    API_KEY: ClassVar = 15
    __slots__ = ("throttle_time_ms", "groups",)

    def __init__(
        self, *, throttle_time_ms: int = 0, groups: Sequence[DescribeGroupsResponse.DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups

    class DescribedGroup(Message):
        __slots__ = (
            "error_code", "error_message", "group_id", "group_state", "protocol_type", "protocol_data", "members",
            "authorized_operations", "generation", "leader", "shard", "coordinator",
        )

        def __init__(
            self, *, error_code: int = 0, error_message: str | None = None, group_id: str = '',
            group_state: str = '', protocol_type: str = '', protocol_data: str = '',
            members: Sequence[DescribeGroupsResponse.DescribedGroupMember] = (),
            authorized_operations: int = -2147483648, generation: int = -1, leader: str = '', shard: int = -1,
            coordinator: int = -1,
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.group_id = group_id
            self.group_state = group_state
            self.protocol_type = protocol_type
            self.protocol_data = protocol_data
            self.members = members
            self.authorized_operations = authorized_operations
            self.generation = generation
            self.leader = leader
            self.shard = shard
            self.coordinator = coordinator

    class DescribedGroupMember(Message):
        __slots__ = (
            "member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment",
            "session_timeout_ms", "rebalance_timeout_ms",
        )

        def __init__(
            self, *, member_id: str = '', group_instance_id: str | None = None, client_id: str = '',
            client_host: str = '', member_metadata: bytes = b'', member_assignment: bytes = b'',
            session_timeout_ms: int = 0, rebalance_timeout_ms: int = 0,
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.client_id = client_id
            self.client_host = client_host
            self.member_metadata = member_metadata
            self.member_assignment = member_assignment
            self.session_timeout_ms = session_timeout_ms
            self.rebalance_timeout_ms = rebalance_timeout_ms


class DescribeLogDirsRequest(Message):
    API_KEY: ClassVar = 35
    __slots__ = ("topics",)

    def __init__(
        self, *, topics: Sequence[DescribeLogDirsRequest.DescribableLogDirTopic] | None = (),
    ) -> None:
        self.topics = topics

    class DescribableLogDirTopic(Message):
        __slots__ = ("topic", "partitions",)

        def __init__(self, *, topic: str = '', partitions: Sequence[int] = (),) -> None:
            self.topic = topic
            self.partitions = partitions


class DescribeLogDirsResponse(Message):
    API_KEY: ClassVar = 35
    __slots__ = ("throttle_time_ms", "error_code", "results",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0,
        results: Sequence[DescribeLogDirsResponse.DescribeLogDirsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = results

    class DescribeLogDirsResult(Message):
        __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned",)

        def __init__(
            self, *, error_code: int = 0, log_dir: str = '',
            topics: Sequence[DescribeLogDirsResponse.DescribeLogDirsTopic] = (), total_bytes: int = -1,
            usable_bytes: int = -1, is_cordoned: bool = False,
        ) -> None:
            self.error_code = error_code
            self.log_dir = log_dir
            self.topics = topics
            self.total_bytes = total_bytes
            self.usable_bytes = usable_bytes
            self.is_cordoned = is_cordoned

    class DescribeLogDirsTopic(Message):
        __slots__ = ("name", "partitions",)

        def __init__(
            self, *, name: str = '', partitions: Sequence[DescribeLogDirsResponse.DescribeLogDirsPartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class DescribeLogDirsPartition(Message):
        __slots__ = (
            "partition_index", "partition_size", "offset_lag", "is_future_key", "uncleanable", "late_transaction",
            "incomplete",
        )

        def __init__(
            self, *, partition_index: int = 0, partition_size: int = 0, offset_lag: int = 0,
            is_future_key: bool = False, uncleanable: str = '', late_transaction: bool = False,
            incomplete: bool = False,
        ) -> None:
            self.partition_index = partition_index
            self.partition_size = partition_size
            self.offset_lag = offset_lag
            self.is_future_key = is_future_key
            self.uncleanable = uncleanable
            self.late_transaction = late_transaction
            self.incomplete = incomplete


class DescribeProducersRequest(Message):
    API_KEY: ClassVar = 61
    __slots__ = ("topics",)

    def __init__(self, *, topics: Sequence[DescribeProducersRequest.TopicRequest] = (),) -> None:
        self.topics = topics

    class TopicRequest(Message):
        __slots__ = ("name", "partition_indexes",)

        def __init__(self, *, name: str = '', partition_indexes: Sequence[int] = (),) -> None:
            self.name = name
            self.partition_indexes = partition_indexes


class DescribeProducersResponse(Message):
    API_KEY: ClassVar = 61
    __slots__ = ("throttle_time_ms", "topics",)

    def __init__(
        self, *, throttle_time_ms: int = 0, topics: Sequence[DescribeProducersResponse.TopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    class TopicResponse(Message):
        __slots__ = ("name", "partitions",)

        def __init__(
            self, *, name: str = '', partitions: Sequence[DescribeProducersResponse.PartitionResponse] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class PartitionResponse(Message):
        __slots__ = (
            "partition_index", "error_code", "error_message", "active_producers", "high_watermark",
            "last_stable_offset",
        )

        def __init__(
            self, *, partition_index: int = 0, error_code: int = 0, error_message: str | None = None,
            active_producers: Sequence[DescribeProducersResponse.ProducerState] = (), high_watermark: int = -1,
            last_stable_offset: int = -1,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message
            self.active_producers = active_producers
            self.high_watermark = high_watermark
            self.last_stable_offset = last_stable_offset

    class ProducerState(Message):
        __slots__ = (
            "producer_id", "producer_epoch", "last_sequence", "last_timestamp", "coordinator_epoch",
            "current_txn_start_offset",
        )

        def __init__(
            self, *, producer_id: int = 0, producer_epoch: int = 0, last_sequence: int = -1,
            last_timestamp: int = -1, coordinator_epoch: int = 0, current_txn_start_offset: int = -1,
        ) -> None:
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.last_sequence = last_sequence
            self.last_timestamp = last_timestamp
            self.coordinator_epoch = coordinator_epoch
            self.current_txn_start_offset = current_txn_start_offset


class DescribeQuorumRequest(Message):
    API_KEY: ClassVar = 55
    __slots__ = ("topics",)

    def __init__(self, *, topics: Sequence[DescribeQuorumRequest.TopicData] = (),) -> None:
        self.topics = topics

    class TopicData(Message):
        __slots__ = ("topic_name", "partitions",)

        def __init__(
            self, *, topic_name: str = '', partitions: Sequence[DescribeQuorumRequest.PartitionData] = (),
        ) -> None:
            self.topic_name = topic_name
            self.partitions = partitions

    class PartitionData(Message):
        __slots__ = ("partition_index",)

        def __init__(self, *, partition_index: int = 0,) -> None:
            self.partition_index = partition_index


class DescribeQuorumResponse(Message):
    API_KEY: ClassVar = 55
    __slots__ = ("error_code", "error_message", "topics", "nodes",)

    def __init__(
        self, *, error_code: int = 0, error_message: str | None = '',
        topics: Sequence[DescribeQuorumResponse.TopicData] = (),
        nodes: Sequence[DescribeQuorumResponse.Node] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = topics
        self.nodes = nodes

    class TopicData(Message):
        __slots__ = ("topic_name", "partitions",)

        def __init__(
            self, *, topic_name: str = '', partitions: Sequence[DescribeQuorumResponse.PartitionData] = (),
        ) -> None:
            self.topic_name = topic_name
            self.partitions = partitions

    class PartitionData(Message):
        __slots__ = (
            "partition_index", "error_code", "error_message", "leader_id", "leader_epoch", "high_watermark",
            "current_voters", "observers",
        )

        def __init__(
            self, *, partition_index: int = 0, error_code: int = 0, error_message: str | None = '',
            leader_id: int = 0, leader_epoch: int = 0, high_watermark: int = 0,
            current_voters: Sequence[DescribeQuorumResponse.ReplicaState] = (),
            observers: Sequence[DescribeQuorumResponse.ReplicaState] = (),
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.high_watermark = high_watermark
            self.current_voters = current_voters
            self.observers = observers

    class ReplicaState(Message):
        __slots__ = (
            "replica_id", "replica_directory_id", "log_end_offset", "last_fetch_timestamp",
            "last_caught_up_timestamp",
        )

        def __init__(
            self, *, replica_id: int = 0,
            replica_directory_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            log_end_offset: int = 0, last_fetch_timestamp: int = -1, last_caught_up_timestamp: int = -1,
        ) -> None:
            self.replica_id = replica_id
            self.replica_directory_id = replica_directory_id
            self.log_end_offset = log_end_offset
            self.last_fetch_timestamp = last_fetch_timestamp
            self.last_caught_up_timestamp = last_caught_up_timestamp

    class Node(Message):
        __slots__ = ("node_id", "listeners",)

        def __init__(
            self, *, node_id: int = 0, listeners: Sequence[DescribeQuorumResponse.Listener] = (),
        ) -> None:
            self.node_id = node_id
            self.listeners = listeners

    class Listener(Message):
        __slots__ = ("name", "host", "port",)

        def __init__(self, *, name: str = '', host: str = '', port: int = 0,) -> None:
            self.name = name
            self.host = host
            self.port = port


class DescribeTopicPartitionsRequest(Message):
    API_KEY: ClassVar = 75
    __slots__ = ("topics", "response_partition_limit", "cursor",)

    def __init__(
        self, *, topics: Sequence[DescribeTopicPartitionsRequest.TopicRequest] = (),
        response_partition_limit: int = 2000, cursor: DescribeTopicPartitionsRequest.Cursor | None = None,
    ) -> None:
        self.topics = topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor

    class TopicRequest(Message):
        __slots__ = ("name",)

        def __init__(self, *, name: str = '',) -> None:
            self.name = name

    class Cursor(Message):
        __slots__ = ("topic_name", "partition_index",)

        def __init__(self, *, topic_name: str = '', partition_index: int = 0,) -> None:
            self.topic_name = topic_name
            self.partition_index = partition_index


class DescribeTopicPartitionsResponse(Message):
    API_KEY: ClassVar = 75
    __slots__ = ("throttle_time_ms", "topics", "next_cursor",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        topics: Sequence[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = (),
        next_cursor: DescribeTopicPartitionsResponse.Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.next_cursor = next_cursor

    class DescribeTopicPartitionsResponseTopic(Message):
        __slots__ = (
            "error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations",
        )

        def __init__(
            self, *, error_code: int = 0, name: str | None = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            is_internal: bool = False,
            partitions: Sequence[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = (),
            topic_authorized_operations: int = -2147483648,
        ) -> None:
            self.error_code = error_code
            self.name = name
            self.topic_id = topic_id
            self.is_internal = is_internal
            self.partitions = partitions
            self.topic_authorized_operations = topic_authorized_operations

    class DescribeTopicPartitionsResponsePartition(Message):
        __slots__ = (
            "error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes",
            "eligible_leader_replicas", "last_known_elr", "offline_replicas",
        )

        def __init__(
            self, *, error_code: int = 0, partition_index: int = 0, leader_id: int = 0, leader_epoch: int = -1,
            replica_nodes: Sequence[int] = (), isr_nodes: Sequence[int] = (),
            eligible_leader_replicas: Sequence[int] | None = None, last_known_elr: Sequence[int] | None = None,
            offline_replicas: Sequence[int] = (),
        ) -> None:
            self.error_code = error_code
            self.partition_index = partition_index
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.replica_nodes = replica_nodes
            self.isr_nodes = isr_nodes
            self.eligible_leader_replicas = eligible_leader_replicas
            self.last_known_elr = last_known_elr
            self.offline_replicas = offline_replicas

    class Cursor(Message):
        __slots__ = ("topic_name", "partition_index",)

        def __init__(self, *, topic_name: str = '', partition_index: int = 0,) -> None:
            self.topic_name = topic_name
            self.partition_index = partition_index


class DescribeTransactionsRequest(Message):
    API_KEY: ClassVar = 65
    __slots__ = ("transactional_ids",)

    def __init__(self, *, transactional_ids: Sequence[str] = (),) -> None:
        self.transactional_ids = transactional_ids


class DescribeTransactionsResponse(Message):
    API_KEY: ClassVar = 65
    __slots__ = ("throttle_time_ms", "transaction_states",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        transaction_states: Sequence[DescribeTransactionsResponse.TransactionState] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = transaction_states

    class TransactionState(Message):
        __slots__ = (
            "error_code", "transactional_id", "transaction_state", "transaction_timeout_ms",
            "transaction_start_time_ms", "producer_id", "producer_epoch", "topics", "error_message",
            "updated_at_ms", "prepared", "transaction_version", "events", "shard", "coordinator",
        )

        def __init__(
            self, *, error_code: int = 0, transactional_id: str = '', transaction_state: str = '',
            transaction_timeout_ms: int = 0, transaction_start_time_ms: int = 0, producer_id: int = 0,
            producer_epoch: int = 0, topics: Sequence[DescribeTransactionsResponse.TopicData] = (),
            error_message: str = '', updated_at_ms: int = -1, prepared: bool = False,
            transaction_version: int = 0, events: Sequence[DescribeTransactionsResponse.TransactionEvent] = (),
            shard: int = -1, coordinator: int = -1,
        ) -> None:
            self.error_code = error_code
            self.transactional_id = transactional_id
            self.transaction_state = transaction_state
            self.transaction_timeout_ms = transaction_timeout_ms
            self.transaction_start_time_ms = transaction_start_time_ms
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.topics = topics
            self.error_message = error_message
            self.updated_at_ms = updated_at_ms
            self.prepared = prepared
            self.transaction_version = transaction_version
            self.events = events
            self.shard = shard
            self.coordinator = coordinator

    class TopicData(Message):
        __slots__ = ("topic", "partitions",)

        def __init__(self, *, topic: str = '', partitions: Sequence[int] = (),) -> None:
            self.topic = topic
            self.partitions = partitions

    class TransactionEvent(Message):
        __slots__ = ("at_ms", "kind", "producer_id", "producer_epoch", "client_id", "client_host", "cause",)

        def __init__(
            self, *, at_ms: int = 0, kind: str = '', producer_id: int = 0, producer_epoch: int = 0,
            client_id: str = '', client_host: str = '', cause: str = '',
        ) -> None:
            self.at_ms = at_ms
            self.kind = kind
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.client_id = client_id
            self.client_host = client_host
            self.cause = cause


class DescribeUserScramCredentialsRequest(Message):
    API_KEY: ClassVar = 50
    __slots__ = ("users",)

    def __init__(self, *, users: Sequence[DescribeUserScramCredentialsRequest.UserName] | None = (),) -> None:
        self.users = users

    class UserName(Message):
        __slots__ = ("name",)

        def __init__(self, *, name: str = '',) -> None:
            self.name = name


class DescribeUserScramCredentialsResponse(Message):
    API_KEY: ClassVar = 50
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = '',
        results: Sequence[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results

    class DescribeUserScramCredentialsResult(Message):
        __slots__ = ("user", "error_code", "error_message", "credential_infos",)

        def __init__(
            self, *, user: str = '', error_code: int = 0, error_message: str | None = '',
            credential_infos: Sequence[DescribeUserScramCredentialsResponse.CredentialInfo] = (),
        ) -> None:
            self.user = user
            self.error_code = error_code
            self.error_message = error_message
            self.credential_infos = credential_infos

    class CredentialInfo(Message):
        __slots__ = ("mechanism", "iterations",)

        def __init__(self, *, mechanism: int = 0, iterations: int = 0,) -> None:
            self.mechanism = mechanism
            self.iterations = iterations


class ElectLeadersRequest(Message):
    API_KEY: ClassVar = 43
    __slots__ = ("election_type", "topic_partitions", "timeout_ms",)

    def __init__(
        self, *, election_type: int = 0,
        topic_partitions: Sequence[ElectLeadersRequest.TopicPartitions] | None = (), timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = topic_partitions
        self.timeout_ms = timeout_ms

    class TopicPartitions(Message):
        __slots__ = ("topic", "partitions",)

        def __init__(self, *, topic: str = '', partitions: Sequence[int] = (),) -> None:
            self.topic = topic
            self.partitions = partitions


class ElectLeadersResponse(Message):
    API_KEY: ClassVar = 43
    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0,
        replica_election_results: Sequence[ElectLeadersResponse.ReplicaElectionResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = replica_election_results

    class ReplicaElectionResult(Message):
        __slots__ = ("topic", "partition_result",)

        def __init__(
            self, *, topic: str = '', partition_result: Sequence[ElectLeadersResponse.PartitionResult] = (),
        ) -> None:
            self.topic = topic
            self.partition_result = partition_result

    class PartitionResult(Message):
        __slots__ = ("partition_id", "error_code", "error_message",)

        def __init__(
            self, *, partition_id: int = 0, error_code: int = 0, error_message: str | None = '',
        ) -> None:
            self.partition_id = partition_id
            self.error_code = error_code
            self.error_message = error_message


class EndTxnRequest(Message):
    API_KEY: ClassVar = 26
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed",)

    def __init__(
        self, *, transactional_id: str = '', producer_id: int = 0, producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class EndTxnResponse(Message):
    API_KEY: ClassVar = 26
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch", "error_message",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, producer_id: int = -1,
        producer_epoch: int = -1, error_message: str = '',
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.error_message = error_message


class FetchRequest(Message):
    API_KEY: ClassVar = 1
    __slots__ = (
        "cluster_id", "replica_id", "replica_state", "max_wait_ms", "min_bytes", "max_bytes",
        "isolation_level", "session_id", "session_epoch", "topics", "forgotten_topics_data", "rack_id",
    )

    def __init__(
        self, *, cluster_id: str | None = None, replica_id: int = -1,
        replica_state: FetchRequest.ReplicaState | None = None, max_wait_ms: int = 0, min_bytes: int = 0,
        max_bytes: int = 2147483647, isolation_level: int = 0, session_id: int = 0, session_epoch: int = -1,
        topics: Sequence[FetchRequest.FetchTopic] = (),
        forgotten_topics_data: Sequence[FetchRequest.ForgottenTopic] = (), rack_id: str = '',
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten_topics_data = forgotten_topics_data
        self.rack_id = rack_id

    class ReplicaState(Message):
        __slots__ = ("replica_id", "replica_epoch",)

        def __init__(self, *, replica_id: int = -1, replica_epoch: int = -1,) -> None:
            self.replica_id = replica_id
            self.replica_epoch = replica_epoch

    class FetchTopic(Message):
        __slots__ = ("topic", "topic_id", "partitions",)

        def __init__(
            self, *, topic: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partitions: Sequence[FetchRequest.FetchPartition] = (),
        ) -> None:
            self.topic = topic
            self.topic_id = topic_id
            self.partitions = partitions

    class FetchPartition(Message):
        __slots__ = (
            "partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset",
            "partition_max_bytes", "replica_directory_id", "high_watermark",
        )

        def __init__(
            self, *, partition: int = 0, current_leader_epoch: int = -1, fetch_offset: int = 0,
            last_fetched_epoch: int = -1, log_start_offset: int = -1, partition_max_bytes: int = 0,
            replica_directory_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            high_watermark: int = 9223372036854775807,
        ) -> None:
            self.partition = partition
            self.current_leader_epoch = current_leader_epoch
            self.fetch_offset = fetch_offset
            self.last_fetched_epoch = last_fetched_epoch
            self.log_start_offset = log_start_offset
            self.partition_max_bytes = partition_max_bytes
            self.replica_directory_id = replica_directory_id
            self.high_watermark = high_watermark

    class ForgottenTopic(Message):
        __slots__ = ("topic", "topic_id", "partitions",)

        def __init__(
            self, *, topic: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partitions: Sequence[int] = (),
        ) -> None:
            self.topic = topic
            self.topic_id = topic_id
            self.partitions = partitions


class FetchResponse(Message):
    API_KEY: ClassVar = 1
    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, session_id: int = 0,
        responses: Sequence[FetchResponse.FetchableTopicResponse] = (),
        node_endpoints: Sequence[FetchResponse.NodeEndpoint] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = responses
        self.node_endpoints = node_endpoints

    class FetchableTopicResponse(Message):
        __slots__ = ("topic", "topic_id", "partitions",)

        def __init__(
            self, *, topic: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partitions: Sequence[FetchResponse.PartitionData] = (),
        ) -> None:
            self.topic = topic
            self.topic_id = topic_id
            self.partitions = partitions

    class PartitionData(Message):
        __slots__ = (
            "partition_index", "error_code", "high_watermark", "last_stable_offset", "log_start_offset",
            "diverging_epoch", "current_leader", "snapshot_id", "aborted_transactions", "preferred_read_replica",
            "records",
        )

        def __init__(
            self, *, partition_index: int = 0, error_code: int = 0, high_watermark: int = 0,
            last_stable_offset: int = -1, log_start_offset: int = -1,
            diverging_epoch: FetchResponse.EpochEndOffset | None = None,
            current_leader: FetchResponse.LeaderIdAndEpoch | None = None,
            snapshot_id: FetchResponse.SnapshotId | None = None,
            aborted_transactions: Sequence[FetchResponse.AbortedTransaction] | None = (),
            preferred_read_replica: int = -1, records: bytes | memoryview | None = b'',
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.high_watermark = high_watermark
            self.last_stable_offset = last_stable_offset
            self.log_start_offset = log_start_offset
            self.diverging_epoch = diverging_epoch
            self.current_leader = current_leader
            self.snapshot_id = snapshot_id
            self.aborted_transactions = aborted_transactions
            self.preferred_read_replica = preferred_read_replica
            self.records = records

    class EpochEndOffset(Message):
        __slots__ = ("epoch", "end_offset",)

        def __init__(self, *, epoch: int = -1, end_offset: int = -1,) -> None:
            self.epoch = epoch
            self.end_offset = end_offset

    class LeaderIdAndEpoch(Message):
        __slots__ = ("leader_id", "leader_epoch",)

        def __init__(self, *, leader_id: int = -1, leader_epoch: int = -1,) -> None:
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch

    class SnapshotId(Message):
        __slots__ = ("end_offset", "epoch",)

        def __init__(self, *, end_offset: int = -1, epoch: int = -1,) -> None:
            self.end_offset = end_offset
            self.epoch = epoch

    class AbortedTransaction(Message):
        __slots__ = ("producer_id", "first_offset",)

        def __init__(self, *, producer_id: int = 0, first_offset: int = 0,) -> None:
            self.producer_id = producer_id
            self.first_offset = first_offset

    class NodeEndpoint(Message):
        __slots__ = ("node_id", "host", "port", "rack",)

        def __init__(self, *, node_id: int = 0, host: str = '', port: int = 0, rack: str | None = None,) -> None:
            self.node_id = node_id
            self.host = host
            self.port = port
            self.rack = rack


class FindCoordinatorRequest(Message):
    API_KEY: ClassVar = 10
    __slots__ = ("key", "key_type", "coordinator_keys",)

    def __init__(self, *, key: str = '', key_type: int = 0, coordinator_keys: Sequence[str] = (),) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = coordinator_keys


class FindCoordinatorResponse(Message):
    API_KEY: ClassVar = 10
    __slots__ = (
        "throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators",
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = '',
        node_id: int = 0, host: str = '', port: int = 0,
        coordinators: Sequence[FindCoordinatorResponse.Coordinator] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = coordinators

    class Coordinator(Message):
        __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message",)

        def __init__(
            self, *, key: str = '', node_id: int = 0, host: str = '', port: int = 0, error_code: int = 0,
            error_message: str | None = '',
        ) -> None:
            self.key = key
            self.node_id = node_id
            self.host = host
            self.port = port
            self.error_code = error_code
            self.error_message = error_message


class HeartbeatRequest(Message):
    API_KEY: ClassVar = 12
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id",)

    def __init__(
        self, *, group_id: str = '', generation_id: int = 0, member_id: str = '',
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(Message):
    API_KEY: ClassVar = 12
    __slots__ = ("throttle_time_ms", "error_code",)

    def __init__(self, *, throttle_time_ms: int = 0, error_code: int = 0,) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


class IncrementalAlterConfigsRequest(Message):
    API_KEY: ClassVar = 44
    __slots__ = ("resources", "validate_only",)

    def __init__(
        self, *, resources: Sequence[IncrementalAlterConfigsRequest.AlterConfigsResource] = (),
        validate_only: bool = False,
    ) -> None:
        self.resources = resources
        self.validate_only = validate_only

    class AlterConfigsResource(Message):
        __slots__ = ("resource_type", "resource_name", "configs",)

        def __init__(
            self, *, resource_type: int = 0, resource_name: str = '',
            configs: Sequence[IncrementalAlterConfigsRequest.AlterableConfig] = (),
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.configs = configs

    class AlterableConfig(Message):
        __slots__ = ("name", "config_operation", "value",)

        def __init__(self, *, name: str = '', config_operation: int = 0, value: str | None = '',) -> None:
            self.name = name
            self.config_operation = config_operation
            self.value = value


class IncrementalAlterConfigsResponse(Message):
    API_KEY: ClassVar = 44
    __slots__ = ("throttle_time_ms", "responses",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        responses: Sequence[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses

    class AlterConfigsResourceResponse(Message):
        __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "warnings",)

        def __init__(
            self, *, error_code: int = 0, error_message: str | None = '', resource_type: int = 0,
            resource_name: str = '', warnings: Sequence[str] = (),
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.warnings = warnings


class InitProducerIdRequest(Message):
    API_KEY: ClassVar = 22
    __slots__ = (
        "transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch", "enable2_pc",
        "keep_prepared_txn",
    )

    def __init__(
        self, *, transactional_id: str | None = '', transaction_timeout_ms: int = 0, producer_id: int = -1,
        producer_epoch: int = -1, enable2_pc: bool = False, keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn


class InitProducerIdResponse(Message):
    API_KEY: ClassVar = 22
    __slots__ = (
        "throttle_time_ms", "error_code", "producer_id", "producer_epoch", "ongoing_txn_producer_id",
        "ongoing_txn_producer_epoch", "error_message",
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, producer_id: int = -1,
        producer_epoch: int = 0, ongoing_txn_producer_id: int = -1, ongoing_txn_producer_epoch: int = -1,
        error_message: str = '',
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch
        self.error_message = error_message


class JoinGroupRequest(Message):
    API_KEY: ClassVar = 11
    __slots__ = (
        "group_id", "session_timeout_ms", "rebalance_timeout_ms", "member_id", "group_instance_id",
        "protocol_type", "protocols", "reason",
    )

    def __init__(
        self, *, group_id: str = '', session_timeout_ms: int = 0, rebalance_timeout_ms: int = -1,
        member_id: str = '', group_instance_id: str | None = None, protocol_type: str = '',
        protocols: Sequence[JoinGroupRequest.JoinGroupRequestProtocol] = (), reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.reason = reason

    class JoinGroupRequestProtocol(Message):
        __slots__ = ("name", "metadata",)

        def __init__(self, *, name: str = '', metadata: bytes = b'',) -> None:
            self.name = name
            self.metadata = metadata


class JoinGroupResponse(Message):
    API_KEY: ClassVar = 11
    __slots__ = (
        "throttle_time_ms", "error_code", "generation_id", "protocol_type", "protocol_name", "leader",
        "skip_assignment", "member_id", "members", "error_message",
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, generation_id: int = -1,
        protocol_type: str | None = None, protocol_name: str | None = '', leader: str = '',
        skip_assignment: bool = False, member_id: str = '',
        members: Sequence[JoinGroupResponse.JoinGroupResponseMember] = (), error_message: str = '',
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = members
        self.error_message = error_message

    class JoinGroupResponseMember(Message):
        __slots__ = ("member_id", "group_instance_id", "metadata",)

        def __init__(
            self, *, member_id: str = '', group_instance_id: str | None = None, metadata: bytes = b'',
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.metadata = metadata


class LeaveGroupRequest(Message):
    API_KEY: ClassVar = 13
    __slots__ = ("group_id", "member_id", "members",)

    def __init__(
        self, *, group_id: str = '', member_id: str = '',
        members: Sequence[LeaveGroupRequest.MemberIdentity] = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = members

    class MemberIdentity(Message):
        __slots__ = ("member_id", "group_instance_id", "reason",)

        def __init__(
            self, *, member_id: str = '', group_instance_id: str | None = None, reason: str | None = None,
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.reason = reason


class LeaveGroupResponse(Message):
    API_KEY: ClassVar = 13
    __slots__ = ("throttle_time_ms", "error_code", "members",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0,
        members: Sequence[LeaveGroupResponse.MemberResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = members

    class MemberResponse(Message):
        __slots__ = ("member_id", "group_instance_id", "error_code",)

        def __init__(
            self, *, member_id: str = '', group_instance_id: str | None = '', error_code: int = 0,
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.error_code = error_code


class ListConfigResourcesRequest(Message):
    API_KEY: ClassVar = 74
    __slots__ = ("resource_types",)

    def __init__(self, *, resource_types: Sequence[int] = (),) -> None:
        self.resource_types = resource_types


class ListConfigResourcesResponse(Message):
    API_KEY: ClassVar = 74
    __slots__ = ("throttle_time_ms", "error_code", "config_resources",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0,
        config_resources: Sequence[ListConfigResourcesResponse.ConfigResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = config_resources

    class ConfigResource(Message):
        __slots__ = ("resource_name", "resource_type",)

        def __init__(self, *, resource_name: str = '', resource_type: int = 16,) -> None:
            self.resource_name = resource_name
            self.resource_type = resource_type


class ListGroupsRequest(Message):
    API_KEY: ClassVar = 16
    __slots__ = ("states_filter", "types_filter",)

    def __init__(self, *, states_filter: Sequence[str] = (), types_filter: Sequence[str] = (),) -> None:
        self.states_filter = states_filter
        self.types_filter = types_filter


class ListGroupsResponse(Message):
    API_KEY: ClassVar = 16
    __slots__ = ("throttle_time_ms", "error_code", "groups", "shards", "shard_count",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0,
        groups: Sequence[ListGroupsResponse.ListedGroup] = (), shards: Sequence[int] = (),
        shard_count: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = groups
        self.shards = shards
        self.shard_count = shard_count

    class ListedGroup(Message):
        __slots__ = ("group_id", "protocol_type", "group_state", "group_type", "members", "shard", "coordinator",)

        def __init__(
            self, *, group_id: str = '', protocol_type: str = '', group_state: str = '', group_type: str = '',
            members: int = 0, shard: int = -1, coordinator: int = -1,
        ) -> None:
            self.group_id = group_id
            self.protocol_type = protocol_type
            self.group_state = group_state
            self.group_type = group_type
            self.members = members
            self.shard = shard
            self.coordinator = coordinator


class ListOffsetsRequest(Message):
    API_KEY: ClassVar = 2
    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms",)

    def __init__(
        self, *, replica_id: int = 0, isolation_level: int = 0,
        topics: Sequence[ListOffsetsRequest.ListOffsetsTopic] = (), timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = topics
        self.timeout_ms = timeout_ms

    class ListOffsetsTopic(Message):
        __slots__ = ("name", "partitions",)

        def __init__(
            self, *, name: str = '', partitions: Sequence[ListOffsetsRequest.ListOffsetsPartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class ListOffsetsPartition(Message):
        __slots__ = ("partition_index", "current_leader_epoch", "timestamp",)

        def __init__(
            self, *, partition_index: int = 0, current_leader_epoch: int = -1, timestamp: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.current_leader_epoch = current_leader_epoch
            self.timestamp = timestamp


class ListOffsetsResponse(Message):
    API_KEY: ClassVar = 2
    __slots__ = ("throttle_time_ms", "topics",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        topics: Sequence[ListOffsetsResponse.ListOffsetsTopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    class ListOffsetsTopicResponse(Message):
        __slots__ = ("name", "partitions",)

        def __init__(
            self, *, name: str = '', partitions: Sequence[ListOffsetsResponse.ListOffsetsPartitionResponse] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class ListOffsetsPartitionResponse(Message):
        __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch", "error_message",)

        def __init__(
            self, *, partition_index: int = 0, error_code: int = 0, timestamp: int = -1, offset: int = -1,
            leader_epoch: int = -1, error_message: str = '',
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.timestamp = timestamp
            self.offset = offset
            self.leader_epoch = leader_epoch
            self.error_message = error_message


class ListPartitionReassignmentsRequest(Message):
    API_KEY: ClassVar = 46
    __slots__ = ("timeout_ms", "topics",)

    def __init__(
        self, *, timeout_ms: int = 60000,
        topics: Sequence[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics

    class ListPartitionReassignmentsTopics(Message):
        __slots__ = ("name", "partition_indexes",)

        def __init__(self, *, name: str = '', partition_indexes: Sequence[int] = (),) -> None:
            self.name = name
            self.partition_indexes = partition_indexes


class ListPartitionReassignmentsResponse(Message):
    API_KEY: ClassVar = 46
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = '',
        topics: Sequence[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = topics

    class OngoingTopicReassignment(Message):
        __slots__ = ("name", "partitions",)

        def __init__(
            self, *, name: str = '',
            partitions: Sequence[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class OngoingPartitionReassignment(Message):
        __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas",)

        def __init__(
            self, *, partition_index: int = 0, replicas: Sequence[int] = (), adding_replicas: Sequence[int] = (),
            removing_replicas: Sequence[int] = (),
        ) -> None:
            self.partition_index = partition_index
            self.replicas = replicas
            self.adding_replicas = adding_replicas
            self.removing_replicas = removing_replicas


class ListTransactionsRequest(Message):
    API_KEY: ClassVar = 66
    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern",)

    def __init__(
        self, *, state_filters: Sequence[str] = (), producer_id_filters: Sequence[int] = (),
        duration_filter: int = -1, transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = state_filters
        self.producer_id_filters = producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class ListTransactionsResponse(Message):
    API_KEY: ClassVar = 66
    __slots__ = (
        "throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states", "shards",
        "shard_count",
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, unknown_state_filters: Sequence[str] = (),
        transaction_states: Sequence[ListTransactionsResponse.TransactionState] = (),
        shards: Sequence[int] = (), shard_count: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = unknown_state_filters
        self.transaction_states = transaction_states
        self.shards = shards
        self.shard_count = shard_count

    class TransactionState(Message):
        __slots__ = ("transactional_id", "producer_id", "transaction_state", "shard", "coordinator",)

        def __init__(
            self, *, transactional_id: str = '', producer_id: int = 0, transaction_state: str = '',
            shard: int = -1, coordinator: int = -1,
        ) -> None:
            self.transactional_id = transactional_id
            self.producer_id = producer_id
            self.transaction_state = transaction_state
            self.shard = shard
            self.coordinator = coordinator


class MetadataRequest(Message):
    API_KEY: ClassVar = 3
    __slots__ = (
        "topics", "allow_auto_topic_creation", "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    )

    def __init__(
        self, *, topics: Sequence[MetadataRequest.MetadataRequestTopic] | None = (),
        allow_auto_topic_creation: bool = True, include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations

    class MetadataRequestTopic(Message):
        __slots__ = ("topic_id", "name",)

        def __init__(
            self, *, topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            name: str | None = '',
        ) -> None:
            self.topic_id = topic_id
            self.name = name


class MetadataResponse(Message):
    API_KEY: ClassVar = 3
    __slots__ = (
        "throttle_time_ms", "brokers", "cluster_id", "controller_id", "topics",
        "cluster_authorized_operations", "error_code",
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, brokers: Sequence[MetadataResponse.MetadataResponseBroker] = (),
        cluster_id: str | None = None, controller_id: int = -1,
        topics: Sequence[MetadataResponse.MetadataResponseTopic] = (),
        cluster_authorized_operations: int = -2147483648, error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code

    class MetadataResponseBroker(Message):
        __slots__ = ("node_id", "host", "port", "rack",)

        def __init__(self, *, node_id: int = 0, host: str = '', port: int = 0, rack: str | None = None,) -> None:
            self.node_id = node_id
            self.host = host
            self.port = port
            self.rack = rack

    class MetadataResponseTopic(Message):
        __slots__ = (
            "error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations",
        )

        def __init__(
            self, *, error_code: int = 0, name: str | None = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            is_internal: bool = False, partitions: Sequence[MetadataResponse.MetadataResponsePartition] = (),
            topic_authorized_operations: int = -2147483648,
        ) -> None:
            self.error_code = error_code
            self.name = name
            self.topic_id = topic_id
            self.is_internal = is_internal
            self.partitions = partitions
            self.topic_authorized_operations = topic_authorized_operations

    class MetadataResponsePartition(Message):
        __slots__ = (
            "error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes",
            "offline_replicas",
        )

        def __init__(
            self, *, error_code: int = 0, partition_index: int = 0, leader_id: int = 0, leader_epoch: int = -1,
            replica_nodes: Sequence[int] = (), isr_nodes: Sequence[int] = (),
            offline_replicas: Sequence[int] = (),
        ) -> None:
            self.error_code = error_code
            self.partition_index = partition_index
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.replica_nodes = replica_nodes
            self.isr_nodes = isr_nodes
            self.offline_replicas = offline_replicas


class OffsetCommitRequest(Message):
    API_KEY: ClassVar = 8
    __slots__ = (
        "group_id", "generation_id_or_member_epoch", "member_id", "group_instance_id", "retention_time_ms",
        "topics",
    )

    def __init__(
        self, *, group_id: str = '', generation_id_or_member_epoch: int = -1, member_id: str = '',
        group_instance_id: str | None = None, retention_time_ms: int = -1,
        topics: Sequence[OffsetCommitRequest.OffsetCommitRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = topics

    class OffsetCommitRequestTopic(Message):
        __slots__ = ("name", "topic_id", "partitions",)

        def __init__(
            self, *, name: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partitions: Sequence[OffsetCommitRequest.OffsetCommitRequestPartition] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partitions = partitions

    class OffsetCommitRequestPartition(Message):
        __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata",)

        def __init__(
            self, *, partition_index: int = 0, committed_offset: int = 0, committed_leader_epoch: int = -1,
            committed_metadata: str | None = '',
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.committed_metadata = committed_metadata


class OffsetCommitResponse(Message):
    API_KEY: ClassVar = 8
    __slots__ = ("throttle_time_ms", "topics",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        topics: Sequence[OffsetCommitResponse.OffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    class OffsetCommitResponseTopic(Message):
        __slots__ = ("name", "topic_id", "partitions",)

        def __init__(
            self, *, name: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partitions: Sequence[OffsetCommitResponse.OffsetCommitResponsePartition] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partitions = partitions

    class OffsetCommitResponsePartition(Message):
        __slots__ = ("partition_index", "error_code", "error_message",)

        def __init__(self, *, partition_index: int = 0, error_code: int = 0, error_message: str = '',) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message


class OffsetDeleteRequest(Message):
    API_KEY: ClassVar = 47
    __slots__ = ("group_id", "topics",)

    def __init__(
        self, *, group_id: str = '', topics: Sequence[OffsetDeleteRequest.OffsetDeleteRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics

    class OffsetDeleteRequestTopic(Message):
        __slots__ = ("name", "partitions",)

        def __init__(
            self, *, name: str = '', partitions: Sequence[OffsetDeleteRequest.OffsetDeleteRequestPartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class OffsetDeleteRequestPartition(Message):
        __slots__ = ("partition_index",)

        def __init__(self, *, partition_index: int = 0,) -> None:
            self.partition_index = partition_index


class OffsetDeleteResponse(Message):
    API_KEY: ClassVar = 47
    __slots__ = ("error_code", "throttle_time_ms", "topics",)

    def __init__(
        self, *, error_code: int = 0, throttle_time_ms: int = 0,
        topics: Sequence[OffsetDeleteResponse.OffsetDeleteResponseTopic] = (),
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    class OffsetDeleteResponseTopic(Message):
        __slots__ = ("name", "partitions",)

        def __init__(
            self, *, name: str = '',
            partitions: Sequence[OffsetDeleteResponse.OffsetDeleteResponsePartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class OffsetDeleteResponsePartition(Message):
        __slots__ = ("partition_index", "error_code",)

        def __init__(self, *, partition_index: int = 0, error_code: int = 0,) -> None:
            self.partition_index = partition_index
            self.error_code = error_code


class OffsetFetchRequest(Message):
    API_KEY: ClassVar = 9
    __slots__ = ("group_id", "topics", "groups", "require_stable",)

    def __init__(
        self, *, group_id: str = '', topics: Sequence[OffsetFetchRequest.OffsetFetchRequestTopic] | None = (),
        groups: Sequence[OffsetFetchRequest.OffsetFetchRequestGroup] = (), require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.groups = groups
        self.require_stable = require_stable

    class OffsetFetchRequestTopic(Message):
        __slots__ = ("name", "partition_indexes",)

        def __init__(self, *, name: str = '', partition_indexes: Sequence[int] = (),) -> None:
            self.name = name
            self.partition_indexes = partition_indexes

    class OffsetFetchRequestGroup(Message):
        __slots__ = ("group_id", "member_id", "member_epoch", "topics",)

        def __init__(
            self, *, group_id: str = '', member_id: str | None = None, member_epoch: int = -1,
            topics: Sequence[OffsetFetchRequest.OffsetFetchRequestTopics] | None = (),
        ) -> None:
            self.group_id = group_id
            self.member_id = member_id
            self.member_epoch = member_epoch
            self.topics = topics

    class OffsetFetchRequestTopics(Message):
        __slots__ = ("name", "topic_id", "partition_indexes",)

        def __init__(
            self, *, name: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partition_indexes: Sequence[int] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partition_indexes = partition_indexes


class OffsetFetchResponse(Message):
    API_KEY: ClassVar = 9
    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        topics: Sequence[OffsetFetchResponse.OffsetFetchResponseTopic] = (), error_code: int = 0,
        groups: Sequence[OffsetFetchResponse.OffsetFetchResponseGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.error_code = error_code
        self.groups = groups

    class OffsetFetchResponseTopic(Message):
        __slots__ = ("name", "partitions",)

        def __init__(
            self, *, name: str = '', partitions: Sequence[OffsetFetchResponse.OffsetFetchResponsePartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class OffsetFetchResponsePartition(Message):
        __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code",)

        def __init__(
            self, *, partition_index: int = 0, committed_offset: int = 0, committed_leader_epoch: int = -1,
            metadata: str | None = '', error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.metadata = metadata
            self.error_code = error_code

    class OffsetFetchResponseGroup(Message):
        __slots__ = ("group_id", "topics", "error_code",)

        def __init__(
            self, *, group_id: str = '', topics: Sequence[OffsetFetchResponse.OffsetFetchResponseTopics] = (),
            error_code: int = 0,
        ) -> None:
            self.group_id = group_id
            self.topics = topics
            self.error_code = error_code

    class OffsetFetchResponseTopics(Message):
        __slots__ = ("name", "topic_id", "partitions",)

        def __init__(
            self, *, name: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partitions: Sequence[OffsetFetchResponse.OffsetFetchResponsePartitions] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partitions = partitions

    class OffsetFetchResponsePartitions(Message):
        __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code",)

        def __init__(
            self, *, partition_index: int = 0, committed_offset: int = 0, committed_leader_epoch: int = -1,
            metadata: str | None = '', error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.metadata = metadata
            self.error_code = error_code


class OffsetForLeaderEpochRequest(Message):
    API_KEY: ClassVar = 23
    __slots__ = ("replica_id", "topics",)

    def __init__(
        self, *, replica_id: int = -2,
        topics: Sequence[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = (),
    ) -> None:
        self.replica_id = replica_id
        self.topics = topics

    class OffsetForLeaderTopic(Message):
        __slots__ = ("topic", "partitions",)

        def __init__(
            self, *, topic: str = '',
            partitions: Sequence[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = (),
        ) -> None:
            self.topic = topic
            self.partitions = partitions

    class OffsetForLeaderPartition(Message):
        __slots__ = ("partition", "current_leader_epoch", "leader_epoch",)

        def __init__(self, *, partition: int = 0, current_leader_epoch: int = -1, leader_epoch: int = 0,) -> None:
            self.partition = partition
            self.current_leader_epoch = current_leader_epoch
            self.leader_epoch = leader_epoch


class OffsetForLeaderEpochResponse(Message):
    API_KEY: ClassVar = 23
    __slots__ = ("throttle_time_ms", "topics",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        topics: Sequence[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    class OffsetForLeaderTopicResult(Message):
        __slots__ = ("topic", "partitions",)

        def __init__(
            self, *, topic: str = '', partitions: Sequence[OffsetForLeaderEpochResponse.EpochEndOffset] = (),
        ) -> None:
            self.topic = topic
            self.partitions = partitions

    class EpochEndOffset(Message):
        __slots__ = ("error_code", "partition", "leader_epoch", "end_offset",)

        def __init__(
            self, *, error_code: int = 0, partition: int = 0, leader_epoch: int = -1, end_offset: int = -1,
        ) -> None:
            self.error_code = error_code
            self.partition = partition
            self.leader_epoch = leader_epoch
            self.end_offset = end_offset


class ProduceRequest(Message):
    API_KEY: ClassVar = 0
    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data",)

    def __init__(
        self, *, transactional_id: str | None = None, acks: int = 0, timeout_ms: int = 0,
        topic_data: Sequence[ProduceRequest.TopicProduceData] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = topic_data

    class TopicProduceData(Message):
        __slots__ = ("name", "topic_id", "partition_data",)

        def __init__(
            self, *, name: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partition_data: Sequence[ProduceRequest.PartitionProduceData] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partition_data = partition_data

    class PartitionProduceData(Message):
        __slots__ = ("index", "records",)

        def __init__(self, *, index: int = 0, records: bytes | memoryview | None = b'',) -> None:
            self.index = index
            self.records = records


class ProduceResponse(Message):
    API_KEY: ClassVar = 0
    __slots__ = ("responses", "throttle_time_ms", "node_endpoints",)

    def __init__(
        self, *, responses: Sequence[ProduceResponse.TopicProduceResponse] = (), throttle_time_ms: int = 0,
        node_endpoints: Sequence[ProduceResponse.NodeEndpoint] = (),
    ) -> None:
        self.responses = responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = node_endpoints

    class TopicProduceResponse(Message):
        __slots__ = ("name", "topic_id", "partition_responses",)

        def __init__(
            self, *, name: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partition_responses: Sequence[ProduceResponse.PartitionProduceResponse] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partition_responses = partition_responses

    class PartitionProduceResponse(Message):
        __slots__ = (
            "index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset", "record_errors",
            "error_message", "current_leader",
        )

        def __init__(
            self, *, index: int = 0, error_code: int = 0, base_offset: int = 0, log_append_time_ms: int = -1,
            log_start_offset: int = -1, record_errors: Sequence[ProduceResponse.BatchIndexAndErrorMessage] = (),
            error_message: str | None = None, current_leader: ProduceResponse.LeaderIdAndEpoch | None = None,
        ) -> None:
            self.index = index
            self.error_code = error_code
            self.base_offset = base_offset
            self.log_append_time_ms = log_append_time_ms
            self.log_start_offset = log_start_offset
            self.record_errors = record_errors
            self.error_message = error_message
            self.current_leader = current_leader

    class BatchIndexAndErrorMessage(Message):
        __slots__ = ("batch_index", "batch_index_error_message",)

        def __init__(self, *, batch_index: int = 0, batch_index_error_message: str | None = None,) -> None:
            self.batch_index = batch_index
            self.batch_index_error_message = batch_index_error_message

    class LeaderIdAndEpoch(Message):
        __slots__ = ("leader_id", "leader_epoch",)

        def __init__(self, *, leader_id: int = -1, leader_epoch: int = -1,) -> None:
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch

    class NodeEndpoint(Message):
        __slots__ = ("node_id", "host", "port", "rack",)

        def __init__(self, *, node_id: int = 0, host: str = '', port: int = 0, rack: str | None = None,) -> None:
            self.node_id = node_id
            self.host = host
            self.port = port
            self.rack = rack


class SaslAuthenticateRequest(Message):
    API_KEY: ClassVar = 36
    __slots__ = ("auth_bytes",)

    def __init__(self, *, auth_bytes: bytes = b'',) -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(Message):
    API_KEY: ClassVar = 36
    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms",)

    def __init__(
        self, *, error_code: int = 0, error_message: str | None = '', auth_bytes: bytes = b'',
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms


class SaslHandshakeRequest(Message):
    API_KEY: ClassVar = 17
    __slots__ = ("mechanism",)

    def __init__(self, *, mechanism: str = '',) -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(Message):
    API_KEY: ClassVar = 17
    __slots__ = ("error_code", "mechanisms",)

    def __init__(self, *, error_code: int = 0, mechanisms: Sequence[str] = (),) -> None:
        self.error_code = error_code
        self.mechanisms = mechanisms


class SyncGroupRequest(Message):
    API_KEY: ClassVar = 14
    __slots__ = (
        "group_id", "generation_id", "member_id", "group_instance_id", "protocol_type", "protocol_name",
        "assignments",
    )

    def __init__(
        self, *, group_id: str = '', generation_id: int = 0, member_id: str = '',
        group_instance_id: str | None = None, protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: Sequence[SyncGroupRequest.SyncGroupRequestAssignment] = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = assignments

    class SyncGroupRequestAssignment(Message):
        __slots__ = ("member_id", "assignment",)

        def __init__(self, *, member_id: str = '', assignment: bytes = b'',) -> None:
            self.member_id = member_id
            self.assignment = assignment


class SyncGroupResponse(Message):
    API_KEY: ClassVar = 14
    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, protocol_type: str | None = None,
        protocol_name: str | None = None, assignment: bytes = b'',
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment


class TxnOffsetCommitRequest(Message):
    API_KEY: ClassVar = 28
    __slots__ = (
        "transactional_id", "group_id", "producer_id", "producer_epoch", "generation_id_or_member_epoch",
        "member_id", "group_instance_id", "topics",
    )

    def __init__(
        self, *, transactional_id: str = '', group_id: str = '', producer_id: int = 0,
        producer_epoch: int = 0, generation_id_or_member_epoch: int = -1, member_id: str = '',
        group_instance_id: str | None = None,
        topics: Sequence[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = topics

    class TxnOffsetCommitRequestTopic(Message):
        __slots__ = ("name", "topic_id", "partitions",)

        def __init__(
            self, *, name: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partitions: Sequence[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partitions = partitions

    class TxnOffsetCommitRequestPartition(Message):
        __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata",)

        def __init__(
            self, *, partition_index: int = 0, committed_offset: int = 0, committed_leader_epoch: int = -1,
            committed_metadata: str | None = '',
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.committed_metadata = committed_metadata


class TxnOffsetCommitResponse(Message):
    API_KEY: ClassVar = 28
    __slots__ = ("throttle_time_ms", "topics",)

    def __init__(
        self, *, throttle_time_ms: int = 0,
        topics: Sequence[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    class TxnOffsetCommitResponseTopic(Message):
        __slots__ = ("name", "topic_id", "partitions",)

        def __init__(
            self, *, name: str = '',
            topic_id: bytes = b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
            partitions: Sequence[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partitions = partitions

    class TxnOffsetCommitResponsePartition(Message):
        __slots__ = ("partition_index", "error_code", "error_message",)

        def __init__(self, *, partition_index: int = 0, error_code: int = 0, error_message: str = '',) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message


class UpdateFeaturesRequest(Message):
    API_KEY: ClassVar = 57
    __slots__ = ("timeout_ms", "feature_updates", "validate_only",)

    def __init__(
        self, *, timeout_ms: int = 60000,
        feature_updates: Sequence[UpdateFeaturesRequest.FeatureUpdateKey] = (), validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = feature_updates
        self.validate_only = validate_only

    class FeatureUpdateKey(Message):
        __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type",)

        def __init__(
            self, *, feature: str = '', max_version_level: int = 0, allow_downgrade: bool = False,
            upgrade_type: int = 1,
        ) -> None:
            self.feature = feature
            self.max_version_level = max_version_level
            self.allow_downgrade = allow_downgrade
            self.upgrade_type = upgrade_type


class UpdateFeaturesResponse(Message):
    API_KEY: ClassVar = 57
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = '',
        results: Sequence[UpdateFeaturesResponse.UpdatableFeatureResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results

    class UpdatableFeatureResult(Message):
        __slots__ = ("feature", "error_code", "error_message",)

        def __init__(self, *, feature: str = '', error_code: int = 0, error_message: str | None = '',) -> None:
            self.feature = feature
            self.error_code = error_code
            self.error_message = error_message


class WriteTxnMarkersRequest(Message):
    API_KEY: ClassVar = 27
    __slots__ = ("markers",)

    def __init__(self, *, markers: Sequence[WriteTxnMarkersRequest.WritableTxnMarker] = (),) -> None:
        self.markers = markers

    class WritableTxnMarker(Message):
        __slots__ = (
            "producer_id", "producer_epoch", "transaction_result", "topics", "coordinator_epoch",
            "transaction_version",
        )

        def __init__(
            self, *, producer_id: int = 0, producer_epoch: int = 0, transaction_result: bool = False,
            topics: Sequence[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = (), coordinator_epoch: int = 0,
            transaction_version: int = 0,
        ) -> None:
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.transaction_result = transaction_result
            self.topics = topics
            self.coordinator_epoch = coordinator_epoch
            self.transaction_version = transaction_version

    class WritableTxnMarkerTopic(Message):
        __slots__ = ("name", "partition_indexes",)

        def __init__(self, *, name: str = '', partition_indexes: Sequence[int] = (),) -> None:
            self.name = name
            self.partition_indexes = partition_indexes


class WriteTxnMarkersResponse(Message):
    API_KEY: ClassVar = 27
    __slots__ = ("markers",)

    def __init__(self, *, markers: Sequence[WriteTxnMarkersResponse.WritableTxnMarkerResult] = (),) -> None:
        self.markers = markers

    class WritableTxnMarkerResult(Message):
        __slots__ = ("producer_id", "topics",)

        def __init__(
            self, *, producer_id: int = 0,
            topics: Sequence[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = (),
        ) -> None:
            self.producer_id = producer_id
            self.topics = topics

    class WritableTxnMarkerTopicResult(Message):
        __slots__ = ("name", "partitions",)

        def __init__(
            self, *, name: str = '',
            partitions: Sequence[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class WritableTxnMarkerPartitionResult(Message):
        __slots__ = ("partition_index", "error_code",)

        def __init__(self, *, partition_index: int = 0, error_code: int = 0,) -> None:
            self.partition_index = partition_index
            self.error_code = error_code


class RequestHeader(Message):
    __slots__ = ("request_api_key", "request_api_version", "correlation_id", "client_id",)

    def __init__(
        self, *, request_api_key: int = 0, request_api_version: int = 0, correlation_id: int = 0,
        client_id: str | None = '',
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id


class ResponseHeader(Message):
    __slots__ = ("correlation_id",)

    def __init__(self, *, correlation_id: int = 0,) -> None:
        self.correlation_id = correlation_id
