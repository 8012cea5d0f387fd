"""Administration over the Kafka protocol, byte by byte: every API in every version."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import kafka.protocol.admin as messages
import pytest
from kafka_messages import known_versions
from tests.fuzz.kafka_wire import KafkaWire
from waiting import wait_until
from wire import Wire, batch

import ottla
from ottla_broker.kafka.apis import APIS
from ottla_core.errors import ErrorCode
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

_names = (f"admin-{n}" for n in itertools.count())
TOPIC, BROKER = 2, 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[KafkaWire]:
    with KafkaWire(cluster.bootstrap) as kafka:
        yield kafka


@pytest.fixture
def topic(admin: ottla.Admin) -> ottla.TopicInfo:
    info = admin.topics.create(next(_names), partitions=2)
    assert info is not None
    return info


def versions(key: int) -> range:
    return known_versions(APIS[key])


def ask(kafka: KafkaWire, name: str, version: int, **fields: Any) -> Any:
    request = getattr(messages, f"{name}Request")(version=version, **fields)
    return kafka.ask(request, version, getattr(messages, f"{name}Response"))


def new_topic(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> Any:
    kind = messages.CreateTopicsRequest.CreatableTopic
    values = [kind.CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()]
    return kind(name=name, num_partitions=partitions, replication_factor=factor, assignments=[], configs=values)


@pytest.mark.parametrize("version", versions(19))
def test_create_topics(kafka: KafkaWire, admin: ottla.Admin, version: int) -> None:
    name = next(_names)
    wanted = [new_topic(name, 3, retention_ms="60000"), new_topic("not legal"), new_topic(name + "-x", 1, 9)]
    dry = ask(kafka, "CreateTopics", version, topics=wanted[:1], timeout_ms=5_000, validate_only=True)
    assert ([t.error_code for t in dry.topics], admin.topics.exists(name)) == ([0], False)
    made = ask(kafka, "CreateTopics", version, topics=wanted, timeout_ms=5_000, validate_only=False)
    assert [t.error_code for t in made.topics] == [0, 17, 38]
    assert made.topics[0].error_message is None
    assert made.topics[1].error_message
    (info,) = admin.topics.describe(name)
    assert len(info.partitions) == 3
    if version >= 7:
        assert (made.topics[0].topic_id, made.topics[0].num_partitions) == (uuid.UUID(info.id), 3)
    again = ask(kafka, "CreateTopics", version, topics=wanted[:1], timeout_ms=5_000, validate_only=False)
    assert [t.error_code for t in again.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]


@pytest.mark.parametrize("version", versions(20))
def test_delete_topics(kafka: KafkaWire, admin: ottla.Admin, topic: ottla.TopicInfo, version: int) -> None:
    state = messages.DeleteTopicsRequest.DeleteTopicState
    by_id = [state(name=None, topic_id=uuid.UUID(topic.id)), state(name=None, topic_id=uuid.UUID(int=7))]
    wanted = {"topics": by_id} if version >= 6 else {"topic_names": [topic.name, "nobody"]}
    answer = ask(kafka, "DeleteTopics", version, timeout_ms=5_000, **wanted)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 6 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [t.error_code for t in answer.responses] == [0, missing]
    assert answer.responses[0].name == topic.name
    assert not admin.topics.exists(topic.name)


def test_a_topic_is_deleted_by_its_name_or_by_its_id(kafka: KafkaWire, admin: ottla.Admin) -> None:
    state = messages.DeleteTopicsRequest.DeleteTopicState
    info = admin.topics.create(next(_names), partitions=1)
    assert info is not None
    for wanted in (state(name=info.name, topic_id=uuid.UUID(info.id)), state(name=None, topic_id=None)):
        answer = ask(kafka, "DeleteTopics", 6, timeout_ms=5_000, topics=[wanted])
        assert [t.error_code for t in answer.responses] == [ErrorCode.INVALID_REQUEST]
    by_name = ask(kafka, "DeleteTopics", 6, timeout_ms=5_000, topics=[state(name=info.name, topic_id=None)])
    assert [(t.error_code, t.topic_id) for t in by_name.responses] == [(0, uuid.UUID(info.id))]


@pytest.mark.parametrize("version", versions(20))
def test_topics_may_not_be_deleted(kafka: KafkaWire, topic: ottla.TopicInfo, version: int) -> None:
    wanted = messages.IncrementalAlterConfigsRequest.AlterConfigsResource
    for operation, expected in ((0, ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else 42), (1, 0)):
        config = wanted.AlterableConfig(name="delete.topic.enable", config_operation=operation, value="false")
        resource = wanted(resource_type=BROKER, resource_name="", configs=[config])
        assert not ask(kafka, "IncrementalAlterConfigs", 1, resources=[resource]).responses[0].error_code
        told = {c.name for c in described(kafka, 4, BROKER, "").configs}
        assert "auto.create.topics.enable" not in told, "of the cluster's configs, those that are set"
        assert ("delete.topic.enable" in told) == (operation == 0)
        states = [messages.DeleteTopicsRequest.DeleteTopicState(name=topic.name, topic_id=None)]
        answer = ask(kafka, "DeleteTopics", version, timeout_ms=5_000, topics=states)
        assert [t.error_code for t in answer.responses] == [expected]


@pytest.mark.parametrize("version", versions(37))
def test_create_partitions(kafka: KafkaWire, admin: ottla.Admin, topic: ottla.TopicInfo, version: int) -> None:
    wanted = messages.CreatePartitionsRequest.CreatePartitionsTopic
    chosen = [wanted.CreatePartitionsAssignment(broker_ids=[0])]

    def grow(name: str, count: int, assignments: Any = None, *, dry: bool = False) -> Any:
        topics = [wanted(name=name, count=count, assignments=assignments)]
        answer = ask(kafka, "CreatePartitions", version, topics=topics, timeout_ms=5_000, validate_only=dry)
        (told,) = answer.results
        assert (told.name, bool(told.error_message)) == (name, bool(told.error_code))
        return told.error_code

    assert grow(topic.name, 5, dry=True) == 0
    assert len(admin.topics.describe(topic.name)[0].partitions) == 2
    assert grow(topic.name, 5) == 0
    assert len(admin.topics.describe(topic.name)[0].partitions) == 5
    assert grow(topic.name, 6, chosen) == 0
    assert grow(topic.name, 8, chosen) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(topic.name, 6) == ErrorCode.INVALID_PARTITIONS
    assert grow("nobody", 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert grow("__consumer_offsets", 60) == ErrorCode.INVALID_TOPIC_EXCEPTION


def described(kafka: KafkaWire, version: int, kind: int, name: str, keys: list[str] | None = None) -> Any:
    wanted = messages.DescribeConfigsRequest.DescribeConfigsResource
    resources = [wanted(resource_type=kind, resource_name=name, configuration_keys=keys)]
    fields = {"include_synonyms": False, "include_documentation": True}
    return ask(kafka, "DescribeConfigs", version, resources=resources, **fields).results[0]


@pytest.mark.parametrize("version", versions(32))
def test_describe_configs(kafka: KafkaWire, topic: ottla.TopicInfo, version: int) -> None:
    everything = described(kafka, version, TOPIC, topic.name)
    assert everything.error_code == 0
    assert {"retention.ms", "cleanup.policy", "max.message.bytes"} <= {c.name for c in everything.configs}
    (one,) = described(kafka, version, TOPIC, topic.name, ["retention.ms"]).configs
    assert (one.value, one.config_source) == ("604800000", 5)
    if version >= 3:
        assert one.config_type == 5
        assert one.documentation
    assert described(kafka, version, TOPIC, "nobody").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(kafka, version, 77, "x").error_code == ErrorCode.INVALID_REQUEST
    assert described(kafka, version, BROKER, "").error_code == 0


@pytest.mark.parametrize("version", versions(44))
def test_incremental_alter_configs(kafka: KafkaWire, topic: ottla.TopicInfo, version: int) -> None:
    wanted = messages.IncrementalAlterConfigsRequest.AlterConfigsResource

    def alter(*ops: tuple[str, int, str | None]) -> int:
        configs = [wanted.AlterableConfig(name=n, config_operation=op, value=v) for n, op, v in ops]
        resource = wanted(resource_type=TOPIC, resource_name=topic.name, configs=configs)
        answer = ask(kafka, "IncrementalAlterConfigs", version, resources=[resource], validate_only=False)
        return int(answer.responses[0].error_code)

    def is_told(value: str, source: int) -> bool:
        (told,) = described(kafka, 4, TOPIC, topic.name, ["retention.ms"]).configs
        return (told.value, told.config_source) == (value, source)

    assert alter(("retention.ms", 0, "60000")) == 0
    wait_until(lambda: is_told("60000", 1))
    assert alter(("retention.ms", 1, None)) == 0
    wait_until(lambda: is_told("604800000", 5))
    assert alter(("retention.ms", 0, "much")) == ErrorCode.INVALID_CONFIG
    assert alter(("no.such", 0, "1")) == ErrorCode.INVALID_CONFIG
    assert alter(("retention.ms", 9, "1")) == ErrorCode.INVALID_REQUEST


def test_what_is_named_twice_or_has_no_value_changes_nothing(kafka: KafkaWire, topic: ottla.TopicInfo) -> None:
    wanted = messages.IncrementalAlterConfigsRequest.AlterConfigsResource

    def alter(value: str | None, times: int) -> list[int]:
        config = wanted.AlterableConfig(name="retention.ms", config_operation=0, value=value)
        resources = [wanted(resource_type=TOPIC, resource_name=topic.name, configs=[config])] * times
        answer = ask(kafka, "IncrementalAlterConfigs", 1, resources=resources, validate_only=False)
        return [r.error_code for r in answer.responses]

    assert alter("1", 2) == [ErrorCode.INVALID_REQUEST] * 2
    assert alter(None, 1) == [ErrorCode.INVALID_REQUEST]
    assert described(kafka, 4, TOPIC, topic.name, ["retention.ms"]).configs[0].config_source == 5
    name = next(_names)
    unset, legal = new_topic(name), new_topic(name + "-x")
    unset.configs = [type(unset).CreatableTopicConfig(name="retention.ms", value=None)]
    asked = [
        ask(kafka, "CreateTopics", 7, topics=t, timeout_ms=5_000)
        for t in ([unset, new_topic(name)], [unset, legal], [legal, legal])
    ]
    codes = [[t.error_code for t in answer.topics] for answer in asked]
    assert codes == [[ErrorCode.INVALID_REQUEST], [ErrorCode.INVALID_CONFIG, 0], [ErrorCode.INVALID_REQUEST]]


@pytest.mark.parametrize("version", versions(33))
def test_alter_configs_replaces_all_of_them(kafka: KafkaWire, topic: ottla.TopicInfo, version: int) -> None:
    wanted = messages.AlterConfigsRequest.AlterConfigsResource

    def alter(**values: str) -> int:
        configs = [wanted.AlterableConfig(name=n.replace("_", "."), value=v) for n, v in values.items()]
        resource = wanted(resource_type=TOPIC, resource_name=topic.name, configs=configs)
        return int(ask(kafka, "AlterConfigs", version, resources=[resource]).responses[0].error_code)

    def told() -> dict[str, str]:
        return {c.name: c.value for c in described(kafka, 4, TOPIC, topic.name).configs if c.config_source == 1}

    assert alter(retention_ms="60000", segment_bytes="1048576") == 0
    wait_until(lambda: told() == {"retention.ms": "60000", "segment.bytes": "1048576"})
    assert alter(retention_ms="70000") == 0
    wait_until(lambda: told() == {"retention.ms": "70000"})


@pytest.mark.parametrize("version", versions(21))
def test_delete_records(cluster: Cluster, kafka: KafkaWire, topic: ottla.TopicInfo, version: int) -> None:
    with Wire(cluster.bootstrap) as wire:
        wire.produce(bytes.fromhex(topic.id), batch(b"a"))
        wire.produce(bytes.fromhex(topic.id), batch(b"b"))
    wanted = messages.DeleteRecordsRequest.DeleteRecordsTopic

    def delete(*offsets: tuple[int, int]) -> list[tuple[int, int]]:
        parts = [wanted.DeleteRecordsPartition(partition_index=n, offset=offset) for n, offset in offsets]
        topics = [wanted(name=topic.name, partitions=parts)]
        answer = ask(kafka, "DeleteRecords", version, topics=topics, timeout_ms=5_000)
        return [(p.error_code, p.low_watermark) for p in answer.topics[0].partitions]

    assert delete((0, 1), (7, 1)) == [(0, 1), (3, -1)]
    assert delete((0, 9)) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    assert delete((0, 1), (0, -1)) == [(0, 2)], "what is named twice counts once, as it is named last, as in Kafka"
    internal = [
        wanted(name="__consumer_offsets", partitions=[wanted.DeleteRecordsPartition(partition_index=0, offset=1)])
    ]
    answer = ask(kafka, "DeleteRecords", version, topics=internal, timeout_ms=5_000)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("version", versions(35))
def test_describe_log_dirs(cluster: Cluster, kafka: KafkaWire, topic: ottla.TopicInfo, version: int) -> None:
    with Wire(cluster.bootstrap) as wire:
        wire.produce(bytes.fromhex(topic.id), batch(b"a"))
    wanted = messages.DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic.name, partitions=[0])
    (told,) = ask(kafka, "DescribeLogDirs", version, topics=[wanted]).results
    ((name, (part,)),) = [(t.name, t.partitions) for t in told.topics]
    assert (name, part.partition_index, part.partition_size) == (topic.name, 0, len(batch(b"a")))
    assert told.total_bytes > 0 if version >= 4 else True
    everything = ask(kafka, "DescribeLogDirs", version, topics=None).results[0]
    assert topic.name in [t.name for t in everything.topics]


@pytest.mark.parametrize("version", versions(43))
def test_elect_leaders(kafka: KafkaWire, topic: ottla.TopicInfo, version: int) -> None:
    wanted = messages.ElectLeadersRequest.TopicPartitions(topic=topic.name, partitions=[0, 9])
    answer = ask(kafka, "ElectLeaders", version, election_type=0, topic_partitions=[wanted], timeout_ms=5_000)
    (told,) = answer.replica_election_results
    codes = [p.error_code for p in told.partition_result]
    assert codes == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    everything = ask(kafka, "ElectLeaders", version, election_type=0, topic_partitions=None, timeout_ms=5_000)
    assert everything.replica_election_results == []


@pytest.mark.parametrize("version", versions(60))
def test_describe_cluster(cluster: Cluster, kafka: KafkaWire, version: int) -> None:
    answer = ask(kafka, "DescribeCluster", version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "ottla", 0)
    assert [f"{b.host}:{b.port}" for b in answer.brokers] == [cluster.bootstrap]
    if version >= 1:
        asked = [ask(kafka, "DescribeCluster", version, endpoint_type=kind).error_code for kind in (2, 9)]
        assert asked == [ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE]


def test_describe_topic_partitions_page_by_page(kafka: KafkaWire, admin: ottla.Admin) -> None:
    names = sorted([next(_names), next(_names)])
    for name in names:
        admin.topics.create(name, partitions=3)
    wanted = [messages.DescribeTopicPartitionsRequest.TopicRequest(name=n) for n in (*names, "nobody")]
    seen, cursor = [], None
    for _ in range(4):  # the last for the topic that is not there
        answer = ask(kafka, "DescribeTopicPartitions", 0, topics=wanted, response_partition_limit=2, cursor=cursor)
        told = [(t.name, p) for t in answer.topics for p in t.partitions]
        assert all((p.eligible_leader_replicas, p.last_known_elr) == ([], []) for _, p in told), "Java takes no null"
        seen += [(name, p.partition_index) for name, p in told]
        cursor = answer.next_cursor
        if cursor is not None:
            cursor = messages.DescribeTopicPartitionsRequest.Cursor(
                topic_name=cursor.topic_name, partition_index=cursor.partition_index
            )
    assert seen == [(name, n) for name in names for n in range(3)]
    assert cursor is None
    assert answer.topics[-1].error_code == 3


def test_describe_producers(cluster: Cluster, kafka: KafkaWire, topic: ottla.TopicInfo) -> None:
    with Wire(cluster.bootstrap) as wire:
        sent = batch(b"a", b"b", producer_id=77, producer_epoch=3, base_sequence=0)
        wire.produce(bytes.fromhex(topic.id), sent)
    wanted = messages.DescribeProducersRequest.TopicRequest(name=topic.name, partition_indexes=[0, 9])
    known, missing = ask(kafka, "DescribeProducers", 0, topics=[wanted]).topics[0].partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (77, 3, 1)
    assert (missing.error_code, missing.active_producers) == (3, [])
