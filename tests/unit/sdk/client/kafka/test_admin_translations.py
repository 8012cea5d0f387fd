"""Admin's methods in Kafka's messages, in every version that the clients know."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.kafka.apis import DESCRIBE_LOG_DIRS, DESCRIBE_QUORUM
from ottla.client.kafka.translations.table import translations_of
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka import codec
from ottla_core.kafka.messages import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteRecordsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
    DescribeQuorumResponse,
    ElectLeadersResponse,
    IncrementalAlterConfigsResponse,
)
from ottla_core.kafka.schema import schema_of
from ottla_proto import client_pb2
from ottla_proto import controller_pb2 as pb
from ottla_proto.client_calls import Client
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Controller, Method

ID_A, ID_B = b"a" * 16, b"b" * 16
NOT_CONTROLLER, TIMED_OUT = ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT

ADMINS = [
    Controller.CREATE_TOPICS,
    Controller.DELETE_TOPICS,
    Controller.CREATE_PARTITIONS,
    Controller.DESCRIBE_CONFIGS,
    Controller.ALTER_CONFIGS,
    Controller.ELECT_LEADERS,
    Controller.DESCRIBE_QUORUM,
    Client.DELETE_RECORDS,
    Client.DESCRIBE_LOG_DIRS,
]


def terms(version: int) -> Terms:
    names = TopicNames()
    names.learn(ID_A, "a")
    names.learn(ID_B, "b")
    return Terms(version, 1500, names)


def sent(method: Method[Any, Any], request: Any) -> Any:
    """Return the request as a broker gets it, which is the same in every version."""
    found = []
    translation = translations_of(method)()
    for version in translation.api.versions:
        message = translation.request(request, terms(version))
        found.append(codec.decode(translation.api.request, codec.encode(message, version), version))
    assert all(each == found[0] for each in found)
    return found[0]


def returned(method: Method[Any, Any], response: Any, version: int | None = None) -> Any:
    """Return what the client makes of a broker's response, by default in the highest version."""
    translation = translations_of(method)()
    version = translation.api.versions[-1] if version is None else version
    arrived = codec.decode(translation.api.response, codec.encode(response, version), version)
    return translation.response(arrived, terms(version))


@pytest.mark.parametrize("method", ADMINS, ids=lambda method: method.name)
def test_keys_and_versions_are_kafkas(method: Method[Any, Any]) -> None:
    api = translations_of(method)().api
    schema = schema_of(f"{api.name}Request")
    assert api.key == schema.api_key == schema_of(f"{api.name}Response").api_key
    assert set(api.versions) <= set(schema.versions) & set(schema.flexible)


# ---- topics ----------------------------------------------------------------------------------------------------------


def test_a_new_topic_goes_with_its_counts_and_configs() -> None:
    topic = pb.NewTopic(name="t", partitions=3, replication_factor=2, configs={"retention.ms": "7"})
    message = sent(Controller.CREATE_TOPICS, pb.CreateTopicsRequest(topics=[topic], validate_only=True))
    (found,) = message.topics
    assert (message.validate_only, message.timeout_ms) == (True, 1500)
    assert (found.name, found.num_partitions, found.replication_factor, list(found.assignments)) == ("t", 3, 2, [])
    assert [(config.name, config.value) for config in found.configs] == [("retention.ms", "7")]


def test_a_new_topic_goes_with_its_assignments() -> None:
    assignments = [pb.ReplicaAssignment(partition=0, replicas=[1, 2]), pb.ReplicaAssignment(partition=1, replicas=[2])]
    topic = pb.NewTopic(name="t", partitions=-1, replication_factor=-1, assignments=assignments)
    (found,) = sent(Controller.CREATE_TOPICS, pb.CreateTopicsRequest(topics=[topic])).topics
    assert (found.num_partitions, found.replication_factor) == (-1, -1)
    assert [(a.partition_index, list(a.broker_ids)) for a in found.assignments] == [(0, [1, 2]), (1, [2])]


def test_a_created_topic_has_its_id_and_a_checked_one_none() -> None:
    result = CreateTopicsResponse.CreatableTopicResult
    made = result(name="a", topic_id=ID_A, error_message=None, num_partitions=3, replication_factor=2, configs=[])
    checked = result(name="b", error_message=None, configs=None)
    failed = result(name="c", error_code=36, error_message="is there already", configs=None)
    response = returned(Controller.CREATE_TOPICS, CreateTopicsResponse(topics=[made, checked, failed]))
    assert [(topic.name, topic.topic_id, topic.error) for topic in response.topics] == [
        ("a", ID_A, Error()),
        ("b", b"", Error()),
        ("c", b"", Error(code=36, message="is there already")),
    ]
    assert (response.topics[0].partitions, response.topics[0].replication_factor) == (3, 2)
    assert response.error == Error()


def test_topics_are_deleted_by_name_or_id() -> None:
    topics = sent(Controller.DELETE_TOPICS, pb.DeleteTopicsRequest(names=["a"], topic_ids=[ID_B])).topics
    assert [(topic.name, topic.topic_id) for topic in topics] == [("a", bytes(16)), (None, ID_B)]


def test_a_deleted_topic_has_its_id() -> None:
    result = DeleteTopicsResponse.DeletableTopicResult
    results = [result(name="a", topic_id=ID_A), result(name=None, topic_id=ID_B, error_code=100, error_message="no")]
    response = returned(Controller.DELETE_TOPICS, DeleteTopicsResponse(responses=results))
    assert [(topic.name, topic.topic_id, topic.error.code, topic.error.message) for topic in response.topics] == [
        ("a", ID_A, 0, ""),
        ("", ID_B, 100, "no"),
    ]


def test_the_name_of_a_deleted_topic_is_forgotten() -> None:
    result = DeleteTopicsResponse.DeletableTopicResult
    results = [result(name="a", topic_id=ID_A), result(name="b", topic_id=ID_B, error_code=41)]
    then = terms(6)
    translations_of(Controller.DELETE_TOPICS)().response(DeleteTopicsResponse(responses=results), then)
    assert (then.names.id_of("a"), then.names.id_of("b")) == (bytes(16), ID_B)


def test_partitions_are_added_with_assignments_or_without() -> None:
    topics = [
        pb.PartitionIncrease(name="a", total_count=4),
        pb.PartitionIncrease(name="b", total_count=2, assignments=[pb.ReplicaList(replicas=[2, 1])]),
    ]
    message = sent(Controller.CREATE_PARTITIONS, pb.CreatePartitionsRequest(topics=topics, validate_only=True))
    assert (message.validate_only, message.timeout_ms) == (True, 1500)
    a, b = message.topics
    assert (a.name, a.count, a.assignments) == ("a", 4, None)
    assert (b.name, b.count, [list(each.broker_ids) for each in b.assignments]) == ("b", 2, [[2, 1]])


def test_added_partitions_come_back_with_a_warning_or_an_error() -> None:
    translation = translations_of(Controller.CREATE_PARTITIONS)()
    increases = [pb.PartitionIncrease(name="a", total_count=4), pb.PartitionIncrease(name="b", total_count=1)]
    translation.request(pb.CreatePartitionsRequest(topics=increases), terms(3))
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    results = [result(name="a"), result(name="b", error_code=37, error_message="has more")]
    response: Any = translation.response(CreatePartitionsResponse(results=results), terms(3))
    a, b = response.topics
    assert (a.name, a.error) == ("a", Error())
    assert "go to another partition than before: a has 4 partitions now" in a.warning
    assert (b.name, b.error, b.warning) == ("b", Error(code=37, message="has more"), "")


def of_topics(*codes: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.CreatableTopicResult(name="t", error_code=code, error_message="so", configs=None)
            for code in codes
        ]
    )


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((NOT_CONTROLLER,), NOT_CONTROLLER),
        ((TIMED_OUT, TIMED_OUT), TIMED_OUT),
        ((TIMED_OUT, 0), 0),
        ((TIMED_OUT, NOT_CONTROLLER), 0),
        ((36, 36), 0),
        ((), 0),
    ],
)
def test_a_missing_answer_of_the_controller_is_an_error_of_the_request(codes: tuple[int, ...], expected: int) -> None:
    """The next try knows that the first one may have been carried out."""
    assert returned(Controller.CREATE_TOPICS, of_topics(*codes)).error.code == expected


@pytest.mark.parametrize(
    ("method", "response"),
    [
        (
            Controller.DELETE_TOPICS,
            DeleteTopicsResponse(responses=[DeleteTopicsResponse.DeletableTopicResult(name="a", error_code=41)]),
        ),
        (
            Controller.CREATE_PARTITIONS,
            CreatePartitionsResponse(
                results=[CreatePartitionsResponse.CreatePartitionsTopicResult(name="a", error_code=41)]
            ),
        ),
        (
            Controller.DESCRIBE_CONFIGS,
            DescribeConfigsResponse(results=[DescribeConfigsResponse.DescribeConfigsResult(error_code=41)]),
        ),
        (
            Controller.ALTER_CONFIGS,
            IncrementalAlterConfigsResponse(
                responses=[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(error_code=41)]
            ),
        ),
        (Controller.ELECT_LEADERS, ElectLeadersResponse(error_code=41)),
        (Controller.DESCRIBE_QUORUM, DescribeQuorumResponse(error_code=41)),
    ],
    ids=lambda value: value.name if isinstance(value, Method) else "",
)
def test_a_request_that_found_no_controller_may_be_repeated(method: Method[Any, Any], response: Any) -> None:
    assert returned(method, response).error.code == NOT_CONTROLLER


# ---- configs ---------------------------------------------------------------------------------------------------------


def test_all_configs_of_a_resource_are_asked_for_with_their_documentation() -> None:
    resources = [
        pb.ConfigResource(type=pb.CONFIG_RESOURCE_TOPIC, name="t"),
        pb.ConfigResource(type=pb.CONFIG_RESOURCE_BROKER, name=""),
    ]
    message = sent(Controller.DESCRIBE_CONFIGS, pb.DescribeConfigsRequest(resources=resources))
    assert message.include_documentation
    assert [(r.resource_type, r.resource_name, r.configuration_keys) for r in message.resources] == [
        (2, "t", None),
        (4, "", None),
    ]


def test_a_config_has_the_words_of_the_contract() -> None:
    config, result = (
        DescribeConfigsResponse.DescribeConfigsResourceResult,
        DescribeConfigsResponse.DescribeConfigsResult,
    )
    configs = [
        config(name="retention.ms", value="7", config_source=1, config_type=5, documentation="How long."),
        config(name="password", value=None, config_source=4, config_type=9, is_sensitive=True, read_only=True),
        config(name="new", value="", config_source=99, config_type=99),
    ]
    results = [
        result(error_message=None, resource_type=2, resource_name="t", configs=configs),
        result(error_code=3, error_message="is not there", resource_type=2, resource_name="u", configs=[]),
    ]
    found, missing = returned(Controller.DESCRIBE_CONFIGS, DescribeConfigsResponse(results=results)).resources
    assert (found.resource.type, found.resource.name, found.error) == (pb.CONFIG_RESOURCE_TOPIC, "t", Error())
    assert [(e.name, e.value, e.source, e.type, e.read_only, e.sensitive, e.documentation) for e in found.entries] == [
        ("retention.ms", "7", "DYNAMIC_TOPIC_CONFIG", "long", False, False, "How long."),
        ("password", "", "STATIC_BROKER_CONFIG", "password", True, True, ""),
        ("new", "", "UNKNOWN", "unknown", False, False, ""),
    ]
    assert all(entry.enforced for entry in found.entries)
    assert (missing.resource.name, missing.error) == ("u", Error(code=3, message="is not there"))


def test_configs_are_set_and_deleted() -> None:
    ops = [
        pb.ConfigOp(name="retention.ms", op=pb.CONFIG_OP_SET, value="7"),
        pb.ConfigOp(name="segment.ms", op=pb.CONFIG_OP_DELETE),
        pb.ConfigOp(name="cleanup.policy", op=pb.CONFIG_OP_APPEND, value="compact"),
    ]
    resource = pb.ConfigResource(type=pb.CONFIG_RESOURCE_BROKER, name="1")
    request = pb.AlterConfigsRequest(resources=[pb.ConfigsAltered(resource=resource, ops=ops)], validate_only=True)
    message = sent(Controller.ALTER_CONFIGS, request)
    (found,) = message.resources
    assert (message.validate_only, found.resource_type, found.resource_name) == (True, 4, "1")
    assert [(config.name, config.config_operation, config.value) for config in found.configs] == [
        ("retention.ms", 0, "7"),
        ("segment.ms", 1, None),
        ("cleanup.policy", 2, "compact"),
    ]


def test_altered_configs_come_back_with_errors() -> None:
    result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    results = [
        result(error_message=None, resource_type=2, resource_name="t"),
        result(error_code=40, error_message="is no number", resource_type=4, resource_name="1"),
    ]
    response = returned(Controller.ALTER_CONFIGS, IncrementalAlterConfigsResponse(responses=results))
    assert [(each.resource.type, each.resource.name, each.error) for each in response.resources] == [
        (2, "t", Error()),
        (4, "1", Error(code=40, message="is no number")),
    ]


# ---- elections and the quorum ----------------------------------------------------------------------------------------


def test_elections_are_of_some_partitions_or_of_all() -> None:
    partitions = [pb.PartitionOfTopic(topic=topic, partition=n) for topic, n in (("a", 1), ("b", 0), ("a", 0))]
    some = sent(Controller.ELECT_LEADERS, pb.ElectLeadersRequest(type=pb.ELECTION_UNCLEAN, partitions=partitions))
    assert (some.election_type, some.timeout_ms) == (1, 1500)
    assert [(topic.topic, list(topic.partitions)) for topic in some.topic_partitions] == [("a", [1, 0]), ("b", [0])]
    assert list(sent(Controller.ELECT_LEADERS, pb.ElectLeadersRequest()).topic_partitions) == []
    assert sent(Controller.ELECT_LEADERS, pb.ElectLeadersRequest(all_partitions=True)).topic_partitions is None


def test_an_election_does_not_say_who_leads() -> None:
    partition, topic = ElectLeadersResponse.PartitionResult, ElectLeadersResponse.ReplicaElectionResult
    results = [
        partition(partition_id=0, error_message=None),
        partition(partition_id=1, error_code=84, error_message="leads"),
    ]
    response = ElectLeadersResponse(replica_election_results=[topic(topic="a", partition_result=results)])
    elected = returned(Controller.ELECT_LEADERS, response).partitions
    assert [(each.topic, each.partition, each.leader, each.error) for each in elected] == [
        ("a", 0, -1, Error()),
        ("a", 1, -1, Error(code=84, message="leads")),
    ]


@pytest.mark.parametrize("version", DESCRIBE_QUORUM.versions)
def test_the_quorum_is_that_of_the_metadata(version: int) -> None:
    (topic,) = sent(Controller.DESCRIBE_QUORUM, pb.DescribeQuorumRequest()).topics
    assert (topic.topic_name, [p.partition_index for p in topic.partitions]) == ("__cluster_metadata", [0])
    partition = DescribeQuorumResponse.PartitionData(leader_id=3, leader_epoch=7, high_watermark=90)
    listener = DescribeQuorumResponse.Listener(name="CONTROLLER", host="h", port=9093)
    nodes = [DescribeQuorumResponse.Node(node_id=3, listeners=[listener])] if version >= 2 else []
    response = DescribeQuorumResponse(
        topics=[DescribeQuorumResponse.TopicData(topic_name="__cluster_metadata", partitions=[partition])], nodes=nodes
    )
    found = returned(Controller.DESCRIBE_QUORUM, response, version)
    assert (found.leader_id, found.epoch, found.revision) == (3, 7, 90)
    assert found.address == ("h:9093" if version >= 2 else "")
    assert returned(Controller.DESCRIBE_QUORUM, DescribeQuorumResponse(), version).leader_id == -1
    partition.error_code = 3
    assert returned(Controller.DESCRIBE_QUORUM, response, version).error.code == 3


# ---- brokers ---------------------------------------------------------------------------------------------------------


def test_records_are_deleted_by_the_names_of_topics() -> None:
    partition = client_pb2.DeleteRecordsPartition
    partitions = [
        partition(topic_id=ID_A, partition=0, before_offset=7),
        partition(topic_id=ID_B, partition=1, before_offset=-1),
        partition(topic_id=ID_A, partition=2, before_offset=0),
    ]
    message = sent(Client.DELETE_RECORDS, client_pb2.DeleteRecordsRequest(partitions=partitions))
    assert message.timeout_ms == 1500
    assert [(topic.name, [(p.partition_index, p.offset) for p in topic.partitions]) for topic in message.topics] == [
        ("a", [(0, 7), (2, 0)]),
        ("b", [(1, -1)]),
    ]


def test_records_of_a_topic_without_a_known_name_are_not_deleted() -> None:
    unknown = client_pb2.DeleteRecordsPartition(topic_id=b"c" * 16)
    with pytest.raises(OttlaError) as caught:
        sent(Client.DELETE_RECORDS, client_pb2.DeleteRecordsRequest(partitions=[unknown]))
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_partition_begins_where_records_were_deleted() -> None:
    partition, topic = (
        DeleteRecordsResponse.DeleteRecordsPartitionResult,
        DeleteRecordsResponse.DeleteRecordsTopicResult,
    )
    results = [
        partition(partition_index=0, low_watermark=7),
        partition(partition_index=1, low_watermark=-1, error_code=1),
    ]
    response = returned(Client.DELETE_RECORDS, DeleteRecordsResponse(topics=[topic(name="a", partitions=results)]))
    assert [(p.topic_id, p.partition, p.low_watermark, p.error.code) for p in response.partitions] == [
        (ID_A, 0, 7, 0),
        (ID_A, 1, -1, 1),
    ]


def directory(version: int) -> DescribeLogDirsResponse:
    partition, topic = DescribeLogDirsResponse.DescribeLogDirsPartition, DescribeLogDirsResponse.DescribeLogDirsTopic
    topics = [
        topic(
            name="a",
            partitions=[
                partition(partition_index=2, partition_size=70),
                partition(partition_index=2, partition_size=50, is_future_key=True),
            ],
        ),
        topic(name="b", partitions=[partition(partition_index=0, partition_size=9)]),
    ]
    found = DescribeLogDirsResponse.DescribeLogDirsResult(log_dir="/data", topics=topics)
    if version >= 4:
        found.total_bytes, found.usable_bytes = 1000, 400
    return DescribeLogDirsResponse(
        results=[found, DescribeLogDirsResponse.DescribeLogDirsResult(log_dir="/lost", error_code=56)]
    )


@pytest.mark.parametrize("version", DESCRIBE_LOG_DIRS.versions)
def test_directories_have_the_sizes_of_what_is_in_them(version: int) -> None:
    assert sent(Client.DESCRIBE_LOG_DIRS, client_pb2.DescribeLogDirsRequest()).topics is None
    found, lost = returned(Client.DESCRIBE_LOG_DIRS, directory(version), version).log_dirs
    assert (found.path, found.total_bytes, found.usable_bytes) == ("/data", *((1000, 400) if version >= 4 else (0, 0)))
    assert [(p.topic_id, p.topic, p.partition, p.size_bytes) for p in found.partitions] == [
        (ID_A, "a", 2, 70),
        (ID_B, "b", 0, 9),
    ]
    assert (lost.path, lost.error.code) == ("/lost", 56)


def test_only_the_partitions_of_the_request_are_described() -> None:
    wanted = client_pb2.DescribeLogDirsRequest(topics=[client_pb2.ReplicasOfTopic(topic="b", partitions=[0, 2])])
    assert [(topic.topic, topic.partitions) for topic in sent(Client.DESCRIBE_LOG_DIRS, wanted).topics] == [
        ("b", [0, 2])
    ]


def test_a_broker_may_refuse_to_describe_its_directories() -> None:
    assert returned(Client.DESCRIBE_LOG_DIRS, DescribeLogDirsResponse(error_code=31)).error.code == 31
