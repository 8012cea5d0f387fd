"""Administration with the admin clients that people have, unchanged: confluent-kafka's and kafka-python's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import kafka.admin as kafka_python
import kafka.errors
import pytest
from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from kafka.structs import TopicPartition as PyTopicPartition
from waiting import LIMIT_S, wait_until

import ottla
from ottla_core.errors import ErrorCode
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

_names = (f"clients-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture(scope="module")
def pure(cluster: Cluster) -> Iterator[kafka_python.KafkaAdminClient]:
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield admin
    admin.close()


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = next(_names)
    outcome(admin.create_topics([NewTopic(name, 2, replica_assignment=[[0, 1], [1, 2]])]))
    return name


def outcome(futures: Mapping[Any, Any]) -> Any:
    """Return the outcome of the only future."""
    (future,) = futures.values()
    return future.result(LIMIT_S)


def refusal(futures: Mapping[Any, Any]) -> tuple[int, str]:
    """Code and words with which the only one was refused."""
    with pytest.raises(KafkaException) as refused:
        outcome(futures)
    return refused.value.args[0].code(), refused.value.args[0].str()


def replicas(admin: AdminClient, topic: str) -> dict[int, list[int]]:
    partitions = admin.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
    return {number: partition.replicas for number, partition in partitions.items()}


def configs(admin: AdminClient, name: str, kind: Any = ConfigResource.Type.TOPIC) -> dict[str, Any]:
    found: dict[str, Any] = outcome(admin.describe_configs([ConfigResource(kind, name)]))
    return found


def set_for(admin: AdminClient, topic: str) -> dict[str, str]:
    """The configs that are the topic's own."""
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in configs(admin, topic).items() if entry.source == own}


# ---- confluent-kafka -----------------------------------------------------------------------------------------------


def test_confluent_creates_topics(admin: AdminClient) -> None:
    name = next(_names)
    wanted = NewTopic(name, 3, 2, config={"retention.ms": "60000"})
    outcome(admin.create_topics([wanted], validate_only=True))
    assert name not in admin.list_topics(timeout=LIMIT_S).topics
    outcome(admin.create_topics([wanted]))
    assert {number: len(r) for number, r in replicas(admin, name).items()} == {0: 2, 1: 2, 2: 2}
    assert set_for(admin, name) == {"retention.ms": "60000"}
    assert name in admin.list_topics(timeout=LIMIT_S).topics, "librdkafka asks for all topics in its own way"


def test_confluent_leaves_counts_to_the_cluster(admin: AdminClient) -> None:
    name = next(_names)
    outcome(admin.create_topics([NewTopic(name)], operation_timeout=0))
    assert {number: len(r) for number, r in replicas(admin, name).items()} == {0: 1}


REFUSED: dict[str, tuple[Callable[[str], NewTopic], int, str]] = {
    "there already": (lambda topic: NewTopic(topic), 36, "already exists"),
    "no name": (lambda topic: NewTopic("not legal"), 17, "is not valid"),
    "the cluster's own": (lambda topic: NewTopic("__consumer_offsets", 1, 1), 17, "internal topic"),
    "more replicas than brokers": (lambda topic: NewTopic(topic + "-x", 1, 9), 38, "live brokers is 3"),
    "too many partitions": (lambda topic: NewTopic(topic + "-x", 10_001, 1), 37, "10001 partitions"),
    "no such config": (lambda topic: NewTopic(topic + "-x", 1, 1, config={"retention": "1"}), 40, "retention.ms"),
    "no such broker": (lambda topic: NewTopic(topic + "-x", 1, replica_assignment=[[7]]), 39, "not registered"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_confluent_is_told_in_words_why_there_is_no_topic(admin: AdminClient, topic: str, why: str) -> None:
    wanted, code, words = REFUSED[why]
    told, text = refusal(admin.create_topics([wanted(topic)]))
    assert told == code
    assert words in text


def test_confluent_adds_partitions(admin: AdminClient, topic: str) -> None:
    assert replicas(admin, topic) == {0: [0, 1], 1: [1, 2]}
    outcome(admin.create_partitions([NewPartitions(topic, 4)], validate_only=True))
    assert len(replicas(admin, topic)) == 2
    outcome(admin.create_partitions([NewPartitions(topic, 3, replica_assignment=[[2, 0]])]))
    assert replicas(admin, topic)[2] == [2, 0]
    assert refusal(admin.create_partitions([NewPartitions(topic, 2)]))[0] == ErrorCode.INVALID_PARTITIONS
    wrong = [NewPartitions(topic, 4, replica_assignment=[[0, 1, 2]])]
    assert refusal(admin.create_partitions(wrong))[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refusal(admin.create_partitions([NewPartitions("nobody", 3)]))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_confluent_is_told_where_a_config_comes_from(admin: AdminClient, topic: str) -> None:
    entry = configs(admin, topic)["retention.ms"]
    assert (entry.value, entry.source, entry.is_default) == ("604800000", ConfigSource.DEFAULT_CONFIG.value, True)
    assert {s.name: s.value for s in entry.synonyms.values()} == {"log.retention.hours": "168"}
    rack = configs(admin, "1", ConfigResource.Type.BROKER)["broker.rack"]
    assert (rack.value, rack.source, rack.is_read_only) == (None, ConfigSource.STATIC_BROKER_CONFIG.value, True)


def test_confluent_changes_single_configs(admin: AdminClient, topic: str) -> None:
    def change(name: str, operation: AlterConfigOpType, value: str | None = None, **settings: Any) -> Any:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        return admin.incremental_alter_configs([resource], **settings)

    outcome(change("retention.ms", AlterConfigOpType.SET, "60000"))
    outcome(change("retention.ms", AlterConfigOpType.SET, "1", validate_only=True))
    outcome(change("cleanup.policy", AlterConfigOpType.APPEND, "compact"))
    assert set_for(admin, topic) == {"retention.ms": "60000", "cleanup.policy": "delete,compact"}
    outcome(change("cleanup.policy", AlterConfigOpType.SUBTRACT, "delete"))
    outcome(change("retention.ms", AlterConfigOpType.DELETE))
    assert set_for(admin, topic) == {"cleanup.policy": "compact"}
    code, words = refusal(change("retention.ms", AlterConfigOpType.SET, "soon"))
    assert (code, "retention.ms" in words) == (ErrorCode.INVALID_CONFIG, True)


def test_confluent_replaces_all_configs(admin: AdminClient, topic: str) -> None:
    for wanted in ({"retention.ms": "60000", "segment.bytes": "1048576"}, {"segment.ms": "5000"}, {}):
        outcome(admin.alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=wanted)]))
        assert set_for(admin, topic) == wanted


def test_confluent_deletes_records(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    cluster.produce(topic, [b"a", b"b", b"c"], partitioner=lambda *_: 0)
    before = TopicPartition(topic, 0, 2)
    assert outcome(admin.delete_records([before])).low_watermark == 2
    spec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # it has no types
    earliest = admin.list_offsets({TopicPartition(topic, 0): spec})
    assert outcome(earliest).offset == 2
    assert refusal(admin.delete_records([TopicPartition(topic, 0, 9)]))[0] == ErrorCode.OFFSET_OUT_OF_RANGE


def test_records_are_deleted_once_the_followers_have_deleted_them(
    cluster: Cluster, admin: AdminClient, topic: str
) -> None:
    cluster.produce(topic, [b"a", b"b"], partitioner=lambda *_: 0)
    before = TopicPartition(topic, 0, 1)
    away = cluster.faults.drop("ReplicaFetch", broker=0).of("replica-1")
    try:
        code, _ = refusal(admin.delete_records([before], operation_timeout=1.0))
        with ottla.Admin(cluster.bootstrap) as sdk, pytest.raises(ottla.OttlaError) as told:
            sdk.topics.delete_records(topic, {0: 1}, timeout=1.0)
    finally:
        cluster.faults.clear()
    assert away.met > 0
    assert (code, told.value.code) == (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT)
    assert outcome(admin.delete_records([before])).low_watermark == 1


def test_what_is_lost_on_the_way_to_the_controller_is_asked_again(cluster: Cluster, admin: AdminClient) -> None:
    """By the broker, which has no client id. The repeat of what was done all the same is refused, as Kafka's is."""
    name = next(_names)
    lost = cluster.faults.drop("CreateTopics").of("").once()
    outcome(admin.create_topics([NewTopic(name, 1, 1)]))
    done = cluster.faults.lose_response("DeleteTopics").of("").once()
    assert refusal(admin.delete_topics([name]))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (lost.met, done.met, name in admin.list_topics(timeout=LIMIT_S).topics) == (1, 1, False)


def test_a_compacted_topics_records_are_not_deleted(admin: AdminClient) -> None:
    name = next(_names)
    outcome(admin.create_topics([NewTopic(name, 1, 1, config={"cleanup.policy": "compact"})]))

    def code() -> int:
        return refusal(admin.delete_records([TopicPartition(name, 0, 0)]))[0]

    wait_until(lambda: code() not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert code() == ErrorCode.POLICY_VIOLATION


def test_confluent_describes_the_cluster(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    told = admin.describe_cluster(include_authorized_operations=True).result(LIMIT_S)
    assert told.cluster_id == "ottla"
    assert {f"{n.host}:{n.port}" for n in told.nodes} == set(cluster.bootstrap.split(","))
    described = outcome(admin.describe_topics(TopicCollection([topic])))
    assert [p.leader.id for p in described.partitions] == [0, 1]


def test_confluent_elects_leaders(admin: AdminClient, topic: str) -> None:
    asked = [TopicPartition(topic, 0), TopicPartition("nobody", 0)]
    told = admin.elect_leaders(ElectionType.PREFERRED, asked).result(LIMIT_S)
    assert {p.topic: error.code() for p, error in told.items()} == {
        topic: ErrorCode.ELECTION_NOT_NEEDED,
        "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_confluent_gives_leadership_back_after_a_failover(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    def leads(broker_id: int) -> bool:
        return bool(admin.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions[0].leader == broker_id)

    def elect() -> int | None:
        (error,) = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(LIMIT_S).values()
        return None if error is None else int(error.code())

    cluster.brokers[0].stop()
    wait_until(lambda: leads(1))
    assert elect() == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.brokers[0].restart()
    wait_until(lambda: elect() in (None, ErrorCode.ELECTION_NOT_NEEDED))
    wait_until(lambda: leads(0))


def test_confluent_deletes_topics(admin: AdminClient, topic: str) -> None:
    outcome(admin.delete_topics([topic]))
    assert topic not in admin.list_topics(timeout=LIMIT_S).topics
    assert refusal(admin.delete_topics([topic]))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(admin.delete_topics(["__consumer_offsets"]))[0] == ErrorCode.INVALID_TOPIC_EXCEPTION


# ---- kafka-python --------------------------------------------------------------------------------------------------


def test_kafka_python_creates_and_deletes_topics(pure: kafka_python.KafkaAdminClient) -> None:
    name = next(_names)
    wanted = [kafka_python.NewTopic(name, replica_assignments={0: [2, 1]}, topic_configs={"retention.ms": "5000"})]
    pure.create_topics(wanted, validate_only=True)
    assert name not in pure.list_topics()
    (created,) = pure.create_topics(wanted)["topics"]
    (described,) = pure.describe_topics([name])
    assert created["topic_id"] == str(described["topic_id"])
    assert (created["num_partitions"], created["replication_factor"]) == (1, 2)
    told = {n: (c["value"], c["config_source"]) for n, c in created["configs"].items()}
    assert told["retention.ms"] == ("5000", "DYNAMIC_TOPIC_CONFIG")
    assert told["segment.bytes"] == ("1073741824", "DEFAULT_CONFIG")
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        pure.create_topics(wanted)
    pure.delete_topics([name])
    assert name not in pure.list_topics()
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        pure.delete_topics([name])


def test_kafka_python_adds_partitions_and_describes_them_by_the_page(
    pure: kafka_python.KafkaAdminClient, topic: str
) -> None:
    pure.create_partitions({topic: 3})
    pure.create_partitions({topic: kafka_python.NewPartitions(4, [[2, 0]])})
    first = pure.describe_topic_partitions([topic], response_partition_limit=3)
    assert first["next_cursor"] == {"topic_name": topic, "partition_index": 3}
    rest = pure.describe_topic_partitions([topic], cursor=first["next_cursor"])
    assert [p["replica_nodes"] for p in rest["topics"][0]["partitions"]] == [[2, 0]]
    with pytest.raises(kafka.errors.InvalidPartitionsError):
        pure.create_partitions({topic: 4})


def test_kafka_python_changes_configs(pure: kafka_python.KafkaAdminClient, topic: str) -> None:
    def resource(wanted: Any = None, name: str = topic) -> kafka_python.ConfigResource:
        return kafka_python.ConfigResource(kafka_python.ConfigResourceType.TOPIC, name, wanted)

    def told() -> dict[str, str]:
        found = pure.describe_configs([resource()])["topic"][topic]
        return {name: entry["value"] for name, entry in found.items()}

    pure.alter_configs([resource({"retention.ms": "60000", "segment.ms": "5000"})])
    assert told() == {"retention.ms": "60000", "segment.ms": "5000"}
    pure.reset_configs([resource(["segment.ms"])])
    assert told() == {"retention.ms": "60000"}
    pure.alter_configs([resource({"segment.bytes": "1048576"})], incremental=False)
    assert told() == {"retention.ms": "60000", "segment.bytes": "1048576"}, "it adds what is set, to keep it"
    refused = pure.alter_configs([resource({"retention.ms": "soon"})])["topic"][topic]
    assert "retention.ms" in refused
    synonyms = pure.describe_configs([resource()], include_synonyms=True)["topic"][topic]["retention.ms"]["synonyms"]
    assert [(s["name"], s["source"]) for s in synonyms] == [
        ("retention.ms", "DYNAMIC_TOPIC_CONFIG"),
        ("log.retention.hours", "DEFAULT_CONFIG"),
    ]


def test_kafka_python_deletes_records_and_describes_directories_and_producers(
    cluster: Cluster, pure: kafka_python.KafkaAdminClient, topic: str
) -> None:
    cluster.produce(topic, [b"a", b"b"], partitioner=lambda *_: 0)
    partition = PyTopicPartition(topic, 0)
    (producer,) = pure.describe_producers([partition])[partition].active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (0, 1)
    assert pure.delete_records({partition: -1})[partition]["low_watermark"] == 2
    with pytest.raises(kafka.errors.OffsetOutOfRangeError):
        pure.delete_records({partition: 5})

    def lie_on() -> dict[int, list[tuple[int, bool]]]:
        """By broker, the topic's partitions there, and whether they take room."""
        return {
            told["broker"]: [(p["partition_index"], p["partition_size"] > 0) for p in of_topic["partitions"]]
            for told in pure.describe_log_dirs()
            for of_topic in told["log_dirs"][0]["topics"]
            if of_topic["name"] == topic
        }

    wait_until(lambda: lie_on() == {0: [(0, True)], 1: [(0, True), (1, False)], 2: [(1, False)]})


def test_kafka_python_describes_the_cluster(cluster: Cluster, pure: kafka_python.KafkaAdminClient) -> None:
    told = pure.describe_cluster()
    assert told["cluster_id"] == "ottla"
    assert sorted((b["broker_id"], b["is_fenced"]) for b in told["brokers"]) == [(n, False) for n in range(3)]
    assert {f"{b['host']}:{b['port']}" for b in told["brokers"]} == set(cluster.bootstrap.split(","))


def test_kafka_python_elects_leaders(pure: kafka_python.KafkaAdminClient, topic: str) -> None:
    (told,) = pure.elect_leaders(0, {topic: [0, 1]}, raise_errors=False).replica_election_results
    assert [p.error_code for p in told.partition_result] == [ErrorCode.ELECTION_NOT_NEEDED] * 2
