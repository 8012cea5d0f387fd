"""Administration by hand, in every version of its APIs, and the APIs and features that each side has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafka.protocol.admin import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
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
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from tests.compat.differential.stories.produces import produce
from tests.compat.differential.story import Facts, Side, Story, by_version, code_name
from tests.fuzz.kafka_wire import KafkaWire
from waiting import wait_until
from wire import batch

from ottla_broker.kafka.apis import APIS

METADATA, CREATE, DELETE, RECORDS, DESCRIBE, PARTITIONS, ALTER, FEATURES = 3, 19, 20, 21, 32, 37, 44, 57
_TOPIC_KIND: Final = 2
_BROKER_KIND: Final = 4
_MS: Final = 10_000
ALL_TOPICS: Final = MetadataRequest(
    topics=None,
    allow_auto_topic_creation=False,
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)
_VALIDATED: Final = 2
_DOWNGRADE: Final = 2


def create(wire: KafkaWire, version: int, name: str, *counts: int, **config: str) -> str:
    partitions, replicas = counts or (1, 1)
    topic = CreateTopicsRequest.CreatableTopic
    configs = [topic.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
    wanted = topic(name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=configs)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=_MS, validate_only=False)
    return code_name(wire.ask(request, version, CreateTopicsResponse).topics[0].error_code)


def delete(wire: KafkaWire, version: int, name: str) -> str:
    state = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=None)
    request = DeleteTopicsRequest(topics=[state], topic_names=[name], timeout_ms=_MS)
    return code_name(wire.ask(request, version, DeleteTopicsResponse).responses[0].error_code)


def more(wire: KafkaWire, version: int, name: str, count: int) -> str:
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=_MS, validate_only=True)
    return code_name(wire.ask(request, version, CreatePartitionsResponse).results[0].error_code)


def delete_records(wire: KafkaWire, version: int, name: str, offset: int, partition: int = 0) -> str:
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    part = topic.DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[topic(name=name, partitions=[part])], timeout_ms=_MS)
    found = wire.ask(request, version, DeleteRecordsResponse).topics[0].partitions[0]
    return f"{code_name(found.error_code)} {found.low_watermark}"


def describe(wire: KafkaWire, version: int, kind: int, name: str) -> str:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=["retention.ms"]
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
    return code_name(wire.ask(request, version, DescribeConfigsResponse).results[0].error_code)


def alter(wire: KafkaWire, version: int, name: str, config: str, value: str | None, operation: int = 0) -> str:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = resource.AlterableConfig(name=config, config_operation=operation, value=value)
    wanted = resource(resource_type=_TOPIC_KIND, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False)
    return code_name(wire.ask(request, version, IncrementalAlterConfigsResponse).responses[0].error_code)


def update(wire: KafkaWire, version: int, feature: str, level: int, kind: int = 1) -> str:
    one = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=feature, max_version_level=level, allow_downgrade=kind != 1, upgrade_type=kind
    )
    request = UpdateFeaturesRequest(timeout_ms=_MS, feature_updates=[one], validate_only=version >= 1)
    response = wire.ask(request, version, UpdateFeaturesResponse)
    results = [code_name(r.error_code) for r in response.results or ()] if version < 2 else []
    return " ".join([code_name(response.error_code), *results])


def _topics(side: Side) -> Facts:
    topic, compacted = side.topic(2), side.topic(cleanup_policy="compact")
    with side.wire() as wire:
        produce(wire, 9, topic, batch(b"a", b"b"))

    def on(key: int, live: Callable[[KafkaWire, int], str]) -> str:
        def of(version: int) -> str:
            with side.wire() as wire:
                return live(wire, version)

        return by_version(key, of)

    def created(*counts: int, **config: str) -> str:
        return on(CREATE, lambda w, v: create(w, v, side.fresh("t"), *counts, **config))

    return {
        "create: one that is there": on(CREATE, lambda w, v: create(w, v, topic)),
        "create: a bad name": on(CREATE, lambda w, v: create(w, v, "no/name")),
        "create: a long name": on(CREATE, lambda w, v: create(w, v, "n" * 250)),
        "create: no partitions": created(0, 1),
        "create: more replicas than brokers": created(1, 5),
        "create: no replicas": created(1, 0),
        "create: an unknown config": created(no_such_config="1"),
        "create: a bad value": created(retention_ms="soon"),
        "create: a value out of range": created(min_insync_replicas="0"),
        "delete: an unknown one": on(DELETE, lambda w, v: delete(w, v, "nowhere")),
        "partitions: fewer": on(PARTITIONS, lambda w, v: more(w, v, topic, 1)),
        "partitions: as many": on(PARTITIONS, lambda w, v: more(w, v, topic, 2)),
        "partitions: none": on(PARTITIONS, lambda w, v: more(w, v, topic, 0)),
        "partitions: of an unknown topic": on(PARTITIONS, lambda w, v: more(w, v, "nowhere", 3)),
        "delete records: beyond the end": on(RECORDS, lambda w, v: delete_records(w, v, topic, 100)),
        "delete records: below -1": on(RECORDS, lambda w, v: delete_records(w, v, topic, -2)),
        "delete records: of a compacted topic": on(RECORDS, lambda w, v: delete_records(w, v, compacted, 0)),
        "delete records: of an unknown topic": on(RECORDS, lambda w, v: delete_records(w, v, "nowhere", 0)),
        "delete records: of an unknown partition": on(RECORDS, lambda w, v: delete_records(w, v, topic, 0, 9)),
        "describe configs: an unknown topic": on(DESCRIBE, lambda w, v: describe(w, v, _TOPIC_KIND, "nowhere")),
        "describe configs: a bad name": on(DESCRIBE, lambda w, v: describe(w, v, _TOPIC_KIND, "no/name")),
        "describe configs: an unknown broker": on(DESCRIBE, lambda w, v: describe(w, v, 4, "77")),
        "describe configs: of no kind": on(DESCRIBE, lambda w, v: describe(w, v, 77, "x")),
        "alter configs: an unknown topic": on(ALTER, lambda w, v: alter(w, v, "nowhere", "retention.ms", "1")),
        "alter configs: an unknown config": on(ALTER, lambda w, v: alter(w, v, topic, "no.such.config", "1")),
        "alter configs: a bad value": on(ALTER, lambda w, v: alter(w, v, topic, "retention.ms", "soon")),
        "alter configs: no value": on(ALTER, lambda w, v: alter(w, v, topic, "retention.ms", None)),
        "alter configs: append to a number": on(ALTER, lambda w, v: alter(w, v, topic, "retention.ms", "1", 2)),
    }


def _features(side: Side) -> Facts:
    def on(feature: str, level: int, kind: int = 1) -> str:
        def of(version: int) -> str:
            with side.wire() as wire:
                return update(wire, version, feature, level, kind)

        return by_version(FEATURES, of)

    facts = {
        "update: an unknown feature": on("no.such.feature", 1),
        "update: a level that nobody has": on("transaction.version", 77),
        "update: a lower level as an upgrade": on("transaction.version", 1),
    }
    with side.wire() as wire:
        for feature, level in (("transaction", 1), ("eligible.leader.replicas", 0), ("group", 0)):
            name = f"{feature}.version"
            facts[f"update: {name} to {level}"] = update(wire, _VALIDATED, name, level, _DOWNGRADE)
        request = ApiVersionsRequest(client_software_name="differential", client_software_version="1")
        found = wire.ask(request, 4, ApiVersionsResponse)
    supported = {f.name: (f.min_version, f.max_version) for f in found.supported_features}
    finalized = {f.name: f.max_version_level for f in found.finalized_features}
    facts |= {f"feature {name}": f"{lo} to {hi}, at {finalized.get(name)}" for name, (lo, hi) in supported.items()}
    served = {api.api_key: f"{api.min_version} to {api.max_version}" for api in found.api_keys}
    facts |= {api.name: served.get(key, "-") for key, api in APIS.items()}
    return facts | {"APIs beside those of ottla": ", ".join(str(key) for key in served if key not in APIS)}


def _credentials(side: Side) -> Facts:
    def altered(*changes: tuple[str, int, bool]) -> str:
        """Change credentials, each named by its user, its mechanism and whether it is deleted."""
        request = AlterUserScramCredentialsRequest
        deletions = [request.ScramCredentialDeletion(name=u, mechanism=m) for u, m, deletes in changes if deletes]
        upsertions = [
            request.ScramCredentialUpsertion(
                name=u, mechanism=m, iterations=4096, salt=bytes(16), salted_password=bytes(32 * m)
            )
            for u, m, deletes in changes
            if not deletes
        ]
        with side.wire() as wire:
            asked = request(deletions=deletions, upsertions=upsertions)
            results = wire.ask(asked, 0, AlterUserScramCredentialsResponse).results
        return " ".join(sorted(f"{result.user}: {code_name(result.error_code)}" for result in results))

    sha_256, sha_512 = 1, 2
    return {
        "one": altered(("a", sha_256, False)),
        "two mechanisms of one user": altered(("a", sha_256, False), ("a", sha_512, False)),
        "one mechanism twice": altered(("a", sha_256, False), ("a", sha_256, False)),
        "one that is deleted twice": altered(("a", sha_256, True), ("a", sha_256, True)),
        "one mechanism deleted and another stored": altered(("a", sha_256, True), ("a", sha_512, False)),
        "two mechanisms deleted": altered(("a", sha_256, True), ("a", sha_512, True)),
        "another user beside one that is named twice": altered(
            ("a", sha_256, False), ("a", sha_512, False), ("b", sha_256, False)
        ),
        "an unknown mechanism beside a known one": altered(("a", 7, False), ("a", sha_512, False)),
        "one that does not exist": altered(("nobody", sha_256, True)),
    }


def _synonyms(side: Side) -> Facts:
    name = side.topic(retention_ms="3600000")

    def of(config: str, kind: int = _TOPIC_KIND, resource: str = name) -> str:
        wanted = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=kind, resource_name=resource, configuration_keys=[config]
        )
        request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True, include_documentation=False)
        with side.wire() as wire:
            (result,) = wire.ask(request, 4, DescribeConfigsResponse).results
        return ", ".join(f"{c.config_source} {[(s.name, s.source) for s in c.synonyms]}" for c in result.configs)

    with side.wire() as wire:
        (node,) = wire.ask(ALL_TOPICS, 8, MetadataResponse).brokers
    broker = str(node.node_id)
    topics = ("retention.ms", "segment.ms", "cleanup.policy", "flush.ms", "compression.type")
    brokers = ("log.retention.ms", "log.cleaner.threads")
    return {f"topic: {config}": of(config) for config in topics} | {
        f"broker: {config}": of(config, kind=_BROKER_KIND, resource=broker) for config in brokers
    }


def _auto_creation(side: Side) -> Facts:
    def of(version: int) -> str:
        name = side.fresh("auto")
        wanted = MetadataRequest.MetadataRequestTopic(topic_id=None, name=name)
        request = MetadataRequest(
            topics=[wanted],
            allow_auto_topic_creation=True,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        with side.wire() as wire:
            told = [_one_topic(wire, request, version)]
            wait_until(lambda: told.append(_one_topic(wire, request, version)) or told[-1].startswith("NONE"))
        return f"at first {told[0]}, then {told[-1]}"

    return {"a topic that does not exist": by_version(METADATA, of)}


def _one_topic(wire: KafkaWire, request: MetadataRequest, version: int) -> str:
    (topic,) = wire.ask(request, version, MetadataResponse).topics
    return f"{code_name(topic.error_code)} with {len(topic.partitions)} partitions"


STORIES: Final = (
    Story("topics", _topics),
    Story("protocol", _features),
    Story("credentials", _credentials),
    Story("synonyms", _synonyms),
    Story("auto-creation", _auto_creation),
)
