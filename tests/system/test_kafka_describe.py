"""What Kafka's administrators ask beside topics: groups' and loggers' configs, the quorum, log directories."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from typing import Any

import kafka.protocol.admin as messages
import pytest
from kafka_messages import known_versions
from tests.fuzz.kafka_wire import KafkaWire
from waiting import wait_until

import ottla
from ottla_broker.kafka.apis import APIS
from ottla_core.errors import ErrorCode
from ottla_stack.cluster import Cluster

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create("orders", partitions=2, replicas=2)
        yield cluster


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[KafkaWire]:
    with KafkaWire(cluster.brokers[0].kafka_address) as kafka:
        yield kafka


def versions(key: int) -> range:
    return known_versions(APIS[key])


def ask(kafka: KafkaWire, name: str, version: int, **fields: Any) -> Any:
    request = getattr(messages, f"{name}Request")(version=version, **fields)
    return kafka.ask(request, version, getattr(messages, f"{name}Response"))


def described(kafka: KafkaWire, kind: int, name: str, version: int = 4) -> Any:
    wanted = messages.DescribeConfigsRequest.DescribeConfigsResource
    resource = wanted(resource_type=kind, resource_name=name, configuration_keys=None)
    fields = {"include_synonyms": True, "include_documentation": True}
    return ask(kafka, "DescribeConfigs", version, resources=[resource], **fields).results[0]


def values(kafka: KafkaWire, kind: int, name: str) -> dict[str, tuple[str | None, int]]:
    return {c.name: (c.value, c.config_source) for c in described(kafka, kind, name).configs}


def altered(kafka: KafkaWire, kind: int, name: str, *ops: tuple[str, int, str | None], dry: bool = False) -> int:
    wanted = messages.IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [wanted.AlterableConfig(name=n, config_operation=op, value=v) for n, op, v in ops]
    resource = wanted(resource_type=kind, resource_name=name, configs=configs)
    answer = ask(kafka, "IncrementalAlterConfigs", 1, resources=[resource], validate_only=dry)
    return int(answer.responses[0].error_code)


def replaced(kafka: KafkaWire, kind: int, name: str, **values: str) -> int:
    wanted = messages.AlterConfigsRequest.AlterConfigsResource
    configs = [wanted.AlterableConfig(name=n.replace("_", "."), value=v) for n, v in values.items()]
    resource = wanted(resource_type=kind, resource_name=name, configs=configs)
    return int(ask(kafka, "AlterConfigs", 2, resources=[resource]).responses[0].error_code)


@pytest.mark.story("loggers-have-no-configs")
@pytest.mark.parametrize("version", versions(32))
def test_groups_metrics_and_loggers_are_described_in_every_version(kafka: KafkaWire, version: int) -> None:
    for kind, name, config in ((GROUP, "g", "consumer.session.timeout.ms"), (METRICS, "m", "interval.ms")):
        told = described(kafka, kind, name, version)
        assert (told.error_code, told.resource_type, told.resource_name) == (0, kind, name)
        assert config in {c.name for c in told.configs}
    told = described(kafka, LOGGER, "0", version)
    assert {c.config_source for c in told.configs} == {6}
    assert {c.read_only for c in told.configs} == {False}
    assert {"root", "ottla_broker.replication.replica_fetcher"} <= {c.name for c in told.configs}


def test_a_groups_configs_are_stored(kafka: KafkaWire) -> None:
    name = "consumer.session.timeout.ms"
    assert values(kafka, GROUP, "a/b")[name] == ("45000", 5)
    assert altered(kafka, GROUP, "a/b", (name, SET, "50000")) == 0
    wait_until(lambda: values(kafka, GROUP, "a/b")[name] == ("50000", 8))
    assert altered(kafka, GROUP, "a/b", (name, SET, "1")) == ErrorCode.INVALID_CONFIG
    assert altered(kafka, GROUP, "", (name, SET, "50000")) == ErrorCode.INVALID_REQUEST
    assert replaced(kafka, GROUP, "a/b", share_isolation_level="read_committed") == 0
    wait_until(lambda: values(kafka, GROUP, "a/b")["share.isolation.level"] == ("read_committed", 8))
    assert values(kafka, GROUP, "a/b")[name] == ("45000", 5)
    assert replaced(kafka, METRICS, "all", interval_ms="1000") == 0
    wait_until(lambda: values(kafka, METRICS, "all")["interval.ms"] == ("1000", 7))


@pytest.mark.parametrize(("count", "code"), [(250, 0), (251, ErrorCode.INVALID_REQUEST)])
def test_groups_that_nobody_has_heard_of_are_described_up_to_a_bound(kafka: KafkaWire, count: int, code: int) -> None:
    wanted = messages.DescribeConfigsRequest.DescribeConfigsResource
    resources = [wanted(resource_type=GROUP, resource_name=f"g{n}", configuration_keys=[]) for n in range(count)]
    results = ask(kafka, "DescribeConfigs", 4, resources=resources).results
    assert (len(results), {r.error_code for r in results}) == (count, {code})


def test_a_loggers_level_is_set_while_the_broker_runs(kafka: KafkaWire) -> None:
    name = "ottla_broker.replication.replica_fetcher"
    logger, before = logging.getLogger(name), logging.getLogger(name).level
    try:
        assert altered(kafka, LOGGER, "0", (name, SET, "DEBUG"), dry=True) == 0
        assert logger.level == before
        for level, number in (("TRACE", 5), ("DEBUG", 10), ("WARN", 30), ("FATAL", 50)):
            assert altered(kafka, LOGGER, "0", (name, SET, level)) == 0
            assert logger.level == number
            assert values(kafka, LOGGER, "0")[name] == (level, 6)
        assert altered(kafka, LOGGER, "0", (name, DELETE, None)) == 0
        assert logger.level == logging.NOTSET
    finally:
        logger.setLevel(before)


@pytest.mark.parametrize(
    ("broker", "op", "code"),
    [
        ("0", ("ottla_broker.replication.replica_fetcher", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ("0", ("ottla_broker.replication.replica_fetcher", SET, None), ErrorCode.INVALID_CONFIG),
        ("0", ("ottla_broker.replication.replica_fetcher", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        ("0", ("no.such.logger", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        ("0", ("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        ("1", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        ("", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_logger_that_can_not_be_altered_so(kafka: KafkaWire, broker: str, op: Any, code: ErrorCode) -> None:
    before = logging.root.level
    assert altered(kafka, LOGGER, broker, op) == code
    assert altered(kafka, LOGGER, broker, ("ottla_broker.replication.isr_changes", SET, "DEBUG"), op) == code, (
        "all of them, or none"
    )
    assert (logging.root.level, logging.getLogger("ottla_broker.replication.isr_changes").level) == (
        before,
        logging.NOTSET,
    )


def test_loggers_beside_other_resources_of_one_request(kafka: KafkaWire) -> None:
    wanted = messages.DescribeConfigsRequest.DescribeConfigsResource
    kinds = [(LOGGER, "0"), (TOPIC, "orders"), (LOGGER, "1"), (99, "x"), (BROKER, "0"), (TOPIC, "nobody")]
    resources = [wanted(resource_type=kind, resource_name=name, configuration_keys=["root"]) for kind, name in kinds]
    results = ask(kafka, "DescribeConfigs", 4, resources=resources).results
    assert [(r.resource_type, r.resource_name) for r in results] == kinds
    invalid, unknown = ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [r.error_code for r in results] == [0, 0, invalid, invalid, 0, unknown]
    assert [c.name for c in results[0].configs] == ["root"]
    assert replaced(kafka, LOGGER, "0", root="INFO") == ErrorCode.INVALID_REQUEST


def test_a_config_of_kafkas_is_taken_and_says_that_it_has_no_effect(kafka: KafkaWire) -> None:
    name = "sasl.kerberos.min.time.before.relogin"
    assert altered(kafka, BROKER, "0", (name, SET, "1000"), ("sasl.jaas.config", SET, "top secret")) == 0
    wait_until(lambda: values(kafka, BROKER, "0")[name] == ("1000", 2))
    told = {c.name: c for c in described(kafka, BROKER, "0").configs}
    assert told[name].documentation.endswith("It has no effect in this release.")
    assert (told["sasl.jaas.config"].value, told["sasl.jaas.config"].is_sensitive) == (None, True)
    assert "top secret" not in repr(told["sasl.jaas.config"])
    assert (told["num.io.threads"].read_only, told["process.roles"].read_only) == (False, True)
    assert not told["segment.bytes" if "segment.bytes" in told else "log.segment.bytes"].documentation.endswith(
        "release."
    )
    assert altered(kafka, BROKER, "0", ("process.roles", SET, "broker")) == ErrorCode.INVALID_REQUEST
    assert replaced(kafka, BROKER, "0") == 0


@pytest.mark.story("three-apis-are-not-served")
@pytest.mark.parametrize("version", versions(34))
def test_alter_replica_log_dirs(cluster: Cluster, kafka: KafkaWire, version: int) -> None:
    own = ask(kafka, "DescribeLogDirs", 4, topics=None).results[0].log_dir
    wanted = messages.AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic = wanted.AlterReplicaLogDirTopic

    def codes(path: str, *named: tuple[str, list[int]]) -> dict[tuple[str, int], int]:
        asked = wanted(path=path, topics=[topic(name=name, partitions=numbers) for name, numbers in named])
        results = ask(kafka, "AlterReplicaLogDirs", version, dirs=[asked]).results
        return {(t.topic_name, p.partition_index): p.error_code for t in results for p in t.partitions}

    both, missing = ("orders", [0, 1]), ErrorCode.LOG_DIR_NOT_FOUND
    assert codes("/elsewhere", both, ("nobody", [0])) == {("orders", 0): 57, ("orders", 1): missing, ("nobody", 0): 57}
    there = {("orders", 0): 0, ("orders", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    wait_until(lambda: codes(own, ("orders", [0, 7])) == there)


@pytest.mark.story("three-apis-are-not-served")
@pytest.mark.parametrize("version", versions(55))
def test_describe_quorum(cluster: Cluster, kafka: KafkaWire, version: int) -> None:
    wanted = messages.DescribeQuorumRequest.TopicData

    def topic(name: str, *numbers: int) -> Any:
        return wanted(topic_name=name, partitions=[wanted.PartitionData(partition_index=n) for n in numbers])

    answer = ask(kafka, "DescribeQuorum", version, topics=[topic("__cluster_metadata", 0, 1), topic("orders", 0)])
    assert answer.error_code == 0
    (metadata, other), (orders,) = (t.partitions for t in answer.topics)
    assert other.error_code == orders.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (metadata.error_code, metadata.partition_index, metadata.leader_id) == (0, 0, 0)
    assert metadata.leader_epoch > 0
    (voter,) = metadata.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (metadata.leader_id, metadata.high_watermark)
    assert [o.replica_id for o in metadata.observers] == [0, 1]
    asked, not_asked = metadata.observers
    assert not_asked.log_end_offset == -1
    assert metadata.high_watermark - 100 < asked.log_end_offset
    if version >= 1:
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp > 1_700_000_000_000) == (-1, True)
    if version >= 2:
        (node,) = answer.nodes
        (listener,) = node.listeners
        assert (node.node_id, listener.name, listener.port > 0) == (0, "GRPC", True)
        assert voter.replica_directory_id in (None, uuid.UUID(int=0))  # kafka-python's spelling of no directory


@pytest.mark.story("three-apis-are-not-served")
@pytest.mark.parametrize("version", versions(74))
def test_list_config_resources(kafka: KafkaWire, version: int) -> None:
    def listed(*kinds: int) -> list[tuple[int, str]]:
        fields = {"resource_types": list(kinds)} if version else {}
        answer = ask(kafka, "ListConfigResources", version, **fields)
        assert answer.error_code == 0
        return [(r.resource_type if version else METRICS, r.resource_name) for r in answer.config_resources]

    assert altered(kafka, METRICS, "listed", ("interval.ms", SET, "1000")) == 0
    assert altered(kafka, GROUP, "listed", ("share.isolation.level", SET, "read_committed")) == 0
    wait_until(lambda: (METRICS, "listed") in listed())
    if version:
        everything = {(BROKER, "0"), (BROKER, "1"), (LOGGER, "0"), (LOGGER, "1"), (TOPIC, "orders"), (GROUP, "listed")}
        wait_until(lambda: everything <= set(listed()))
        assert listed(BROKER, BROKER) == [(BROKER, "0"), (BROKER, "1")]
        answer = ask(kafka, "ListConfigResources", version, resource_types=[TOPIC, 99])
        assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


@pytest.mark.story("acls-cannot-be-described")
@pytest.mark.parametrize("version", versions(29))
def test_describe_acls(kafka: KafkaWire, version: int) -> None:
    """There is no authorizer, which is what MirrorMaker 2 and kafka-acls take from the code."""
    either, match = 1, 2
    filters = {"resource_type_filter": either, "pattern_type_filter": match, "operation": either}
    anyone = {"resource_name_filter": None, "principal_filter": None, "host_filter": None, "permission_type": either}
    answer = ask(kafka, "DescribeAcls", version, **filters, **anyone)
    assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert "no authorizer" in answer.error_message
