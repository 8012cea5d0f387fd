"""What Admin's methods ask in Kafka's messages, and what they make of the answers."""

from __future__ import annotations

from typing import Any

import pytest
from answering import Answer, AnsweringBrokers

import ottla
from ottla.admin.acl import core_acl
from ottla.admin.acls import creation
from ottla.admin.topics import deletion_of_records
from ottla.client.kafka.apis import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    INCREMENTAL_ALTER_CONFIGS,
    AnyApi,
)
from ottla.client.log_dirs import described_log_dirs
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla_core.model import TopicPartition

NOT_CONTROLLER, TIMED_OUT = ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT
LEAST_MS = 1500
"""The brokers get what is left of the 1.6 s that a method has."""


ACL = ottla.Acl.allow("User:a", "write", ottla.Resource.topic("t"))


def admin_of(brokers: AnsweringBrokers) -> ottla.Admin:
    return ottla.Admin("b0:1", request_timeout=1.6, _transport=brokers.connect)


def answering(api: AnyApi, answer: Answer, **topics: int) -> AnsweringBrokers:
    return AnsweringBrokers({api.name: answer}, **topics)


def created(*codes: int) -> CreateTopicsResponse:
    result = CreateTopicsResponse.CreatableTopicResult
    return CreateTopicsResponse(
        topics=[result(name="t", error_code=code, error_message="so", configs=None) for code in codes]
    )


# ---- topics ----------------------------------------------------------------------------------------------------------


def test_a_new_topic_goes_with_its_counts_and_configs() -> None:
    brokers = answering(CREATE_TOPICS, created(0))
    admin_of(brokers).topics.create("t", partitions=3, replicas=2, config={"retention.ms": 7}, dry_run=True)
    (message,) = brokers.requests(CreateTopicsRequest)
    (found,) = message.topics
    assert message.validate_only
    assert LEAST_MS <= message.timeout_ms <= 1600
    assert (found.name, found.num_partitions, found.replication_factor, list(found.assignments)) == ("t", 3, 2, [])
    assert [(config.name, config.value) for config in found.configs] == [("retention.ms", "7")]


def test_a_new_topic_goes_with_its_assignments() -> None:
    brokers = answering(CREATE_TOPICS, created(0))
    admin_of(brokers).topics.create("t", assignments={0: [1, 2], 1: [2]}, dry_run=True)
    (found,) = brokers.requests(CreateTopicsRequest)[0].topics
    assert (found.num_partitions, found.replication_factor) == (-1, -1)
    assert [(a.partition_index, list(a.broker_ids)) for a in found.assignments] == [(0, [1, 2]), (1, [2])]


def test_the_error_of_a_topic_that_can_not_be_created_has_the_controllers_words() -> None:
    with pytest.raises(ottla.ConfigError, match="so"):
        admin_of(answering(CREATE_TOPICS, created(ErrorCode.INVALID_CONFIG))).topics.create("t")


def test_the_name_of_a_deleted_topic_is_forgotten() -> None:
    result = DeleteTopicsResponse.DeletableTopicResult
    brokers = AnsweringBrokers(a=1, b=1)

    def delete(request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        del brokers.topics["a"]
        refused = result(name="b", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="no")
        return DeleteTopicsResponse(responses=[result(name="a", topic_id=brokers.topic_id("a")), refused])

    brokers.answers[DELETE_TOPICS.name] = delete
    admin = admin_of(brokers)
    admin.topics.list()
    names = admin._cluster.names
    assert names.id_of("a") == brokers.topic_id("a")
    with pytest.raises(ottla.errors.AuthorizationError, match="no"):
        admin.topics.delete("a", "b")
    assert (names.id_of("a"), names.id_of("b")) == (bytes(16), brokers.topic_id("b"))
    assert [topic.name for topic in brokers.requests(DeleteTopicsRequest)[0].topics] == ["a", "b"]


def test_added_partitions_come_with_a_warning_or_an_error() -> None:
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    brokers = answering(CREATE_PARTITIONS, CreatePartitionsResponse(results=[result(name="a")]), a=4)
    warning = admin_of(brokers).topics.add_partitions("a", 4, dry_run=True)
    assert "go to another partition than before: a has 4 partitions now" in warning
    (message,) = brokers.requests(CreatePartitionsRequest)
    (topic,) = message.topics
    assert message.validate_only
    assert (topic.name, topic.count, topic.assignments) == ("a", 4, None)
    refused = result(name="a", error_code=ErrorCode.INVALID_PARTITIONS, error_message="has more")
    brokers.answers[CREATE_PARTITIONS.name] = CreatePartitionsResponse(results=[refused])
    with pytest.raises(ottla.ConfigError, match="has more"):
        admin_of(brokers).topics.add_partitions("a", 4)


# ---- the controller --------------------------------------------------------------------------------------------------


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
    failure = CREATE_TOPICS.failure(created(*codes))
    assert (0 if failure is None else failure.code) == expected


@pytest.mark.parametrize(
    ("api", "response"),
    [
        (
            DELETE_TOPICS,
            DeleteTopicsResponse(responses=[DeleteTopicsResponse.DeletableTopicResult(name="a", error_code=41)]),
        ),
        (
            CREATE_PARTITIONS,
            CreatePartitionsResponse(
                results=[CreatePartitionsResponse.CreatePartitionsTopicResult(name="a", error_code=41)]
            ),
        ),
        (
            DESCRIBE_CONFIGS,
            DescribeConfigsResponse(results=[DescribeConfigsResponse.DescribeConfigsResult(error_code=41)]),
        ),
        (
            INCREMENTAL_ALTER_CONFIGS,
            IncrementalAlterConfigsResponse(
                responses=[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(error_code=41)]
            ),
        ),
    ],
    ids=["deletion", "growth", "description", "alteration"],
)
def test_a_request_that_found_no_controller_may_be_repeated(api: AnyApi, response: Any) -> None:
    failure = api.failure(response)
    assert failure is not None
    assert failure.code == NOT_CONTROLLER


# ---- configs ---------------------------------------------------------------------------------------------------------


def test_all_configs_of_a_resource_are_asked_for_with_their_documentation() -> None:
    result = DescribeConfigsResponse.DescribeConfigsResult
    brokers = answering(DESCRIBE_CONFIGS, DescribeConfigsResponse(results=[result(error_message=None, configs=[])]))
    admin_of(brokers).configs.get(topic="t")
    admin_of(brokers).configs.get()
    of_topic, of_all = brokers.requests(DescribeConfigsRequest)
    assert of_topic.include_documentation
    assert [
        (r.resource_type, r.resource_name, r.configuration_keys) for r in (*of_topic.resources, *of_all.resources)
    ] == [(2, "t", None), (4, "", None)]


def test_a_config_has_kafkas_words() -> None:
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
    brokers = answering(DESCRIBE_CONFIGS, DescribeConfigsResponse(results=results))
    found = admin_of(brokers).configs.of_topics("t", "u")
    assert found.keys() == {"t"}
    assert [(e.name, e.value, e.source, e.type, e.read_only, e.documentation) for e in found["t"].values()] == [
        ("new", "", "UNKNOWN", "unknown", False, ""),
        ("password", "", "STATIC_BROKER_CONFIG", "password", True, ""),
        ("retention.ms", "7", "DYNAMIC_TOPIC_CONFIG", "long", False, "How long."),
    ]
    assert all(entry.enforced for entry in found["t"].values())


def test_configs_are_set_and_deleted() -> None:
    result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    altered = IncrementalAlterConfigsResponse(responses=[result(error_message=None)])
    brokers = answering(INCREMENTAL_ALTER_CONFIGS, altered)
    admin_of(brokers).configs.set({"retention.ms": 7}, broker=0, dry_run=True)
    admin_of(brokers).configs.unset("segment.ms", topic="t")
    changed, removed = brokers.requests(IncrementalAlterConfigsRequest)
    assert (changed.validate_only, removed.validate_only) == (True, False)
    assert [(r.resource_type, r.resource_name) for r in (*changed.resources, *removed.resources)] == [
        (4, "0"),
        (2, "t"),
    ]
    assert [(c.name, c.config_operation, c.value) for c in changed.resources[0].configs] == [("retention.ms", 0, "7")]
    assert [(c.name, c.config_operation, c.value) for c in removed.resources[0].configs] == [("segment.ms", 1, None)]


def test_the_error_of_a_config_that_can_not_be_set_has_the_controllers_words() -> None:
    result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    refused = IncrementalAlterConfigsResponse(responses=[result(error_code=40, error_message="is no number")])
    with pytest.raises(ottla.ConfigError, match="is no number"):
        admin_of(answering(INCREMENTAL_ALTER_CONFIGS, refused)).configs.set({"retention.ms": "x"})


# ---- partitions ------------------------------------------------------------------------------------------------------


def test_elections_are_of_some_partitions_or_of_all() -> None:
    brokers = AnsweringBrokers(a=2, b=1)
    brokers.answers["ElectLeaders"] = ElectLeadersResponse()
    partitions = admin_of(brokers).partitions
    partitions.elect_leaders([("a", 1), ("b", 0), ("a", 0)], unclean=True)
    partitions.elect_leaders([])
    partitions.elect_leaders()
    some, none, every = brokers.requests(ElectLeadersRequest)
    assert (some.election_type, every.election_type) == (1, 0)
    assert LEAST_MS <= some.timeout_ms <= 1600
    assert [(topic.topic, list(topic.partitions)) for topic in some.topic_partitions] == [("a", [1, 0]), ("b", [0])]
    assert (list(none.topic_partitions), every.topic_partitions) == ([], None)


def test_records_are_deleted_by_the_name_of_their_topic() -> None:
    part, topic = DeleteRecordsResponse.DeleteRecordsPartitionResult, DeleteRecordsResponse.DeleteRecordsTopicResult
    results = [part(partition_index=0, low_watermark=7), part(partition_index=1, low_watermark=3)]
    brokers = AnsweringBrokers(a=2)
    brokers.answers["DeleteRecords"] = DeleteRecordsResponse(topics=[topic(name="a", partitions=results)])
    assert admin_of(brokers).topics.delete_records("a", {0: 7, 1: -1}) == {0: 7, 1: 3}
    (message,) = brokers.requests(DeleteRecordsRequest)
    assert LEAST_MS <= message.timeout_ms <= 1600
    (asked,) = message.topics
    assert (asked.name, [(p.partition_index, p.offset) for p in asked.partitions]) == ("a", [(0, 7), (1, -1)])


def test_records_of_a_topic_that_was_recreated_are_not_deleted() -> None:
    brokers = AnsweringBrokers(a=1)
    admin = admin_of(brokers)
    admin.topics.list()
    admin._cluster.names.learn(b"c" * 16, "a")
    with pytest.raises(OttlaError) as caught:
        deletion_of_records(admin._cluster.names, brokers.topic_id("a"), {0: 7}).builder(1_000)(2)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    assert brokers.requests(DeleteRecordsRequest) == []


# ---- directories -----------------------------------------------------------------------------------------------------


def directories(version: int, code: int) -> DescribeLogDirsResponse:
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
    found = DescribeLogDirsResponse.DescribeLogDirsResult(log_dir="/data", topics=topics, error_code=code)
    if version >= 4:
        found.total_bytes, found.usable_bytes = 1000, 400
    return DescribeLogDirsResponse(results=[found])


@pytest.mark.parametrize("version", DESCRIBE_LOG_DIRS.versions)
def test_directories_have_the_sizes_of_what_is_in_them(version: int) -> None:
    brokers = answering(DESCRIBE_LOG_DIRS, directories(version, 0))
    brokers.versions[DESCRIBE_LOG_DIRS.name] = version
    (found,) = admin_of(brokers).cluster.log_dirs(0)
    assert brokers.requests(DescribeLogDirsRequest)[0].topics is None
    assert (found.path, found.total_bytes, found.usable_bytes) == ("/data", *((1000, 400) if version >= 4 else (0, 0)))
    assert found.replica_bytes == {TopicPartition("a", 2): 70, TopicPartition("b", 0): 9}


def test_only_the_replicas_of_the_request_are_described() -> None:
    request: Any = described_log_dirs([TopicPartition("b", 0), TopicPartition("b", 2)]).builder(1_000)(4)
    assert [(topic.topic, topic.partitions) for topic in request.topics] == [("b", [0, 2])]


@pytest.mark.parametrize(
    "response", [DescribeLogDirsResponse(error_code=31), directories(4, 31)], ids=["all", "a directory"]
)
def test_a_broker_may_refuse_to_describe_its_directories(response: DescribeLogDirsResponse) -> None:
    with pytest.raises(ottla.errors.AuthorizationError):
        admin_of(answering(DESCRIBE_LOG_DIRS, response)).cluster.log_dirs(0)


def test_a_directory_that_a_broker_can_not_use_keeps_the_others_known() -> None:
    failed = DescribeLogDirsResponse.DescribeLogDirsResult(log_dir="/lost", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    response = DescribeLogDirsResponse(results=[*directories(4, 0).results, failed])
    good, lost = described_log_dirs().result(response, "b0:1")
    assert (good.error, lost.replica_bytes) == (None, {})
    assert lost.error is not None
    assert lost.error.code == ErrorCode.KAFKA_STORAGE_ERROR


# ---- answers that are errors, and answers that make no sense ---------------------------------------------------------


def test_an_error_in_a_response_is_an_answer_and_no_other_broker_is_asked() -> None:
    result = CreateAclsResponse.AclCreationResult
    busy = CreateAclsResponse(
        results=[result(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, error_message="too many")]
    )
    brokers = AnsweringBrokers({"CreateAcls": busy}, brokers=2)
    admin = ottla.Admin("b0:1,b1:1", request_timeout=0.01, _transport=brokers.connect)
    with pytest.raises(OttlaError, match="too many"):
        admin.acls.create(ACL)
    assert len(brokers.requests(CreateAclsRequest)) == 1


@pytest.mark.parametrize(
    ("api", "response", "call"),
    [
        (
            "CreateAcls",
            CreateAclsResponse(),
            lambda admin: admin._cluster.exchange_any(creation([core_acl(ACL)]), timeout=1.0),
        ),
        (DESCRIBE_CONFIGS.name, DescribeConfigsResponse(), lambda admin: admin.configs.get(topic="a")),
        (INCREMENTAL_ALTER_CONFIGS.name, IncrementalAlterConfigsResponse(), lambda a: a.configs.set({"x": 1})),
        (CREATE_TOPICS.name, CreateTopicsResponse(), lambda admin: admin.topics.create("t")),
        (DELETE_TOPICS.name, DeleteTopicsResponse(), lambda admin: admin.topics.delete("a")),
        (CREATE_PARTITIONS.name, CreatePartitionsResponse(), lambda admin: admin.topics.add_partitions("a", 2)),
        ("DeleteRecords", DeleteRecordsResponse(), lambda admin: admin.topics.delete_records("a")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_response_that_lacks_what_was_asked_for_makes_no_sense(api: str, response: Any, call: Any) -> None:
    brokers = AnsweringBrokers({api: response}, a=1)
    admin = ottla.Admin("b0:1", request_timeout=0.2, _transport=brokers.connect)
    with pytest.raises(OttlaError, match=rf"{api} at b0:1: the broker's response makes no sense"):
        call(admin)


@pytest.mark.parametrize("name", ["\ud800", None, 7])
def test_a_name_that_is_no_text_is_refused_before_it_is_sent(name: Any) -> None:
    brokers = answering(DELETE_TOPICS, DeleteTopicsResponse())
    with pytest.raises(OttlaError):
        admin_of(brokers).topics.delete(name)
    assert brokers.requests(DeleteTopicsRequest) == []
