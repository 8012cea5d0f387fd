"""Describing and altering configs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from images import after, image_of, with_topic

from ottla_controller.config import ControllerConfig
from ottla_controller.machines.configs import (
    Op,
    OpKind,
    Resource,
    ResourceKind,
    decide_alter_configs,
    decide_first_configs,
    describe_configs,
)
from ottla_controller.machines.decision import ReliedOn
from ottla_core.cluster.image import Change, ClusterImage, ResourceConfigs
from ottla_core.configs.config_values import Source
from ottla_core.errors import ErrorCode, OttlaError

TOPIC = Resource(ResourceKind.TOPIC, "orders")
CLUSTER = Resource(ResourceKind.BROKER, "")
BROKER_1 = Resource(ResourceKind.BROKER, "1")
GROUP = Resource(ResourceKind.GROUP, "billing/€")
SUBSCRIPTION = Resource(ResourceKind.CLIENT_METRICS, "all")


def put(name: str, value: str) -> Op:
    return Op(name, OpKind.SET, value)


def altered(image: ClusterImage, resource: Resource, *ops: Op) -> ClusterImage:
    return after(image, decide_alter_configs(image, resource, ops))


def shown(image: ClusterImage, resource: Resource, name: str) -> tuple[str | None, Source]:
    entry = describe_configs(image, resource).entries[name]
    return entry.text, entry.source


@pytest.fixture
def image() -> ClusterImage:
    return with_topic(image_of(3, racks=["a", "b", "c"]), "orders", 2, configs={"segment.bytes": "1MiB"})


@pytest.mark.feature(101)
def test_a_topics_configs_are_altered_one_by_one(image: ClusterImage) -> None:
    image = altered(image, TOPIC, put("retention.ms", "1h"), Op("segment.bytes", OpKind.DELETE))
    assert shown(image, TOPIC, "retention.ms") == ("3600000", Source.TOPIC)
    assert shown(image, TOPIC, "segment.bytes") == ("1073741824", Source.DEFAULT)
    assert image.topics["orders"].configs == {"retention.ms": "3600000"}
    assert image.topics["orders"].partition_count == 2


def test_what_the_cluster_says_holds_for_topics_that_say_nothing(image: ClusterImage) -> None:
    image = altered(image, CLUSTER, put("log.segment.bytes", "2MiB"), put("log.retention.hours", "2"))
    assert shown(image, TOPIC, "segment.bytes") == ("1048576", Source.TOPIC)
    assert shown(image, TOPIC, "retention.ms") == ("7200000", Source.CLUSTER)
    assert shown(image, CLUSTER, "log.segment.bytes") == ("2097152", Source.CLUSTER)
    assert shown(image, BROKER_1, "log.segment.bytes") == ("2097152", Source.CLUSTER)


def test_one_broker_may_differ_and_shows_what_its_process_was_started_with(image: ClusterImage) -> None:
    image = altered(image, BROKER_1, put("log.cleaner.threads", "4"))
    assert shown(image, BROKER_1, "log.cleaner.threads") == ("4", Source.BROKER)
    assert shown(image, CLUSTER, "log.cleaner.threads") == ("1", Source.DEFAULT)
    assert shown(image, BROKER_1, "broker.rack") == ("b", Source.PROCESS)
    assert "broker.rack" not in describe_configs(image, CLUSTER).entries


@pytest.mark.story("kafkas-config-is-unknown")
def test_a_config_of_kafkas_that_nothing_acts_on_is_taken_and_described(image: ClusterImage) -> None:
    relogin, threads = "sasl.kerberos.min.time.before.relogin", "num.network.threads"
    of_listener = "listener.name.external.scram-sha-256.sasl.jaas.config"
    image = altered(image, BROKER_1, put(relogin, "1000"), put(of_listener, "secret"))
    image = altered(image, CLUSTER, put(threads, "5"))
    assert shown(image, BROKER_1, relogin) == ("1000", Source.BROKER)
    assert shown(image, BROKER_1, threads) == ("5", Source.CLUSTER)
    entry = describe_configs(image, BROKER_1).entries[of_listener]
    assert (entry.source, entry.key.sensitive, entry.key.enforced) == (Source.BROKER, True, False)
    assert shown(image, BROKER_1, "num.io.threads") == ("8", Source.DEFAULT)
    assert shown(image, BROKER_1, "node.id") == ("1", Source.PROCESS)
    assert not describe_configs(image, BROKER_1).entries["log.dirs"].key.dynamic
    assert "ssl.protocol" not in describe_configs(image, CLUSTER).entries
    assert image.configs["broker", "1"].values == {relogin: "1000", of_listener: "secret"}


@pytest.mark.story("groups-have-no-configs")
def test_groups_and_subscriptions_have_configs_of_their_own(image: ClusterImage) -> None:
    name = "consumer.session.timeout.ms"
    assert shown(image, GROUP, name) == ("45000", Source.DEFAULT)
    image = altered(image, GROUP, put(name, "50s"))
    assert shown(image, GROUP, name) == ("50000", Source.GROUP)
    assert shown(image, Resource(ResourceKind.GROUP, "another"), name) == ("45000", Source.DEFAULT)
    image = altered(image, CLUSTER, put("group.consumer.assignment.interval.ms", "7"))
    assert shown(image, GROUP, "consumer.assignment.interval.ms") == ("7", Source.CLUSTER)
    image = altered(image, GROUP, Op(name, OpKind.DELETE))
    assert ("group", GROUP.name) not in image.configs
    image = altered(
        image, SUBSCRIPTION, put("interval.ms", "60000"), put("match", "client_id=a.*,client_source_port=1")
    )
    assert shown(image, SUBSCRIPTION, "interval.ms") == ("60000", Source.CLIENT_METRICS)
    assert shown(image, SUBSCRIPTION, "metrics") == ("", Source.DEFAULT)


def test_a_groups_value_is_bounded_by_the_cluster(image: ClusterImage) -> None:
    session = put("consumer.session.timeout.ms", "9s")
    with pytest.raises(OttlaError, match="is not between the cluster's"):
        decide_alter_configs(image, GROUP, [session])
    with pytest.raises(OttlaError, match=r"group\.consumer\.session\.timeout\.ms=9000 is not between"):
        decide_alter_configs(image, CLUSTER, [put("group.consumer.session.timeout.ms", "9s")])
    image = altered(image, CLUSTER, put("group.consumer.min.session.timeout.ms", "6s"))
    image = altered(image, GROUP, session)
    assert shown(image, GROUP, "consumer.session.timeout.ms") == ("9000", Source.GROUP)
    image = altered(image, CLUSTER, Op("group.consumer.min.session.timeout.ms", OpKind.DELETE))
    assert shown(image, GROUP, "consumer.session.timeout.ms") == ("9000", Source.GROUP), "it is capped where it holds"


def test_what_is_stored_has_a_bound(image: ClusterImage) -> None:
    big = [put(f"listener.name.l{n}.ssl.keystore.key", "k" * 32_000) for n in range(40)]
    with pytest.raises(OttlaError, match="at most 1,048,576 bytes") as refused:
        decide_alter_configs(image, BROKER_1, big)
    assert "kkk" not in str(refused.value)
    many = {("group", str(n)): ResourceConfigs({"share.isolation.level": "read_committed"}) for n in range(10_000)}
    image = replace(image, configs=many)
    op = put("share.isolation.level", "read_uncommitted")
    with pytest.raises(OttlaError, match="10,000 group resources"):
        decide_alter_configs(image, GROUP, [op])
    altered(image, Resource(ResourceKind.GROUP, "7"), op)


def test_a_password_that_is_refused_is_not_shown(image: ClusterImage) -> None:
    with pytest.raises(OttlaError) as refused:
        decide_alter_configs(image, BROKER_1, [put("sasl.jaas.config", "swordfish" * 10_000)])
    assert "swordfish" not in str(refused.value)


def test_lists_grow_and_shrink_by_items(image: ClusterImage) -> None:
    image = altered(image, TOPIC, Op("cleanup.policy", OpKind.APPEND, "compact"))
    assert shown(image, TOPIC, "cleanup.policy")[0] == "delete,compact"  # its default is what is added to
    image = altered(image, TOPIC, Op("cleanup.policy", OpKind.APPEND, "compact"))
    assert shown(image, TOPIC, "cleanup.policy")[0] == "delete,compact"
    image = altered(image, TOPIC, Op("cleanup.policy", OpKind.SUBTRACT, "delete"))
    assert shown(image, TOPIC, "cleanup.policy")[0] == "compact"
    throttled = "leader.replication.throttled.replicas"
    image = altered(image, TOPIC, Op(throttled, OpKind.APPEND, "0:1,1:2"))
    assert shown(image, TOPIC, throttled)[0] == "0:1,1:2"


def test_an_alteration_relies_on_what_it_changed(image: ClusterImage) -> None:
    topic = decide_alter_configs(image, TOPIC, [put("retention.ms", "-1")])
    assert ReliedOn(("topic", "orders"), mod_revision=201) in topic.writes[0].relied_on
    assert ReliedOn(("configs", "broker", ""), mod_revision=0) in topic.writes[0].relied_on
    image = altered(image, BROKER_1, put("log.cleaner.threads", "4"))
    broker = decide_alter_configs(image, BROKER_1, [Op("log.cleaner.threads", OpKind.DELETE)])
    assert broker.writes[0].change == Change(("configs", "broker", "1"), None)
    assert ReliedOn(("configs", "broker", "1"), mod_revision=202) in broker.writes[0].relied_on


def test_an_alteration_that_changes_nothing_writes_nothing(image: ClusterImage) -> None:
    assert decide_alter_configs(image, TOPIC, [put("segment.bytes", "1048576")]).writes == ()
    assert decide_alter_configs(image, CLUSTER, [Op("num.partitions", OpKind.DELETE)]).writes == ()


@pytest.mark.parametrize(
    ("resource", "op", "code", "words"),
    [
        (TOPIC, put("retention.mss", "1"), ErrorCode.INVALID_CONFIG, "did you mean retention.ms"),
        (TOPIC, put("log.retention.hours", "1"), ErrorCode.INVALID_CONFIG, "on a topic it is called retention.ms"),
        (TOPIC, put("segment.bytes", "1"), ErrorCode.INVALID_CONFIG, "not below 14"),
        (TOPIC, put("min.compaction.lag.ms", str(2**63)), ErrorCode.INVALID_CONFIG, "of at most"),
        (TOPIC, Op("retention.ms", OpKind.APPEND, "1"), ErrorCode.INVALID_CONFIG, "append is for lists"),
        (TOPIC, Op("nonsense", OpKind.DELETE), ErrorCode.INVALID_CONFIG, "no topic config 'nonsense'"),
        (CLUSTER, put("retention.ms", "1"), ErrorCode.INVALID_CONFIG, "set log.retention.ms"),
        (CLUSTER, put("broker.rack", "x"), ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically"),
        (BROKER_1, put("broker.id", "7"), ErrorCode.INVALID_REQUEST, "dynamically: Set(broker.id)"),
        (
            BROKER_1,
            put("process.roles", "broker"),
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically",
        ),
        (
            CLUSTER,
            put("ssl.protocol", "x"),
            ErrorCode.INVALID_REQUEST,
            "broker id must be specified: Set(ssl.protocol)",
        ),
        (BROKER_1, put("ssl.keystore.type", "x"), ErrorCode.INVALID_REQUEST, "set listener.name.<listener>.ssl.keys"),
        (BROKER_1, put("num.network.thread", "3"), ErrorCode.INVALID_CONFIG, "did you mean num.network.threads"),
        (BROKER_1, put("num.network.threads", "0"), ErrorCode.INVALID_CONFIG, "not below 1"),
        (
            GROUP,
            put("consumer.session.timeout.ms", "1"),
            ErrorCode.INVALID_CONFIG,
            "group.consumer.max.session.timeout.ms=60000",
        ),
        (GROUP, put("session.timeout.ms", "50000"), ErrorCode.INVALID_CONFIG, "no group config 'session.timeout.ms'"),
        (SUBSCRIPTION, put("match", "client=x"), ErrorCode.INVALID_CONFIG, "must look like"),
        (
            Resource(ResourceKind.GROUP, ""),
            put("share.isolation.level", "x"),
            ErrorCode.INVALID_REQUEST,
            "the name of a group",
        ),
        (Resource(ResourceKind.BROKER, "9"), put("num.partitions", "2"), ErrorCode.BROKER_ID_NOT_REGISTERED, "9"),
        (Resource(ResourceKind.BROKER, "1a"), put("num.partitions", "2"), ErrorCode.INVALID_REQUEST, "not a broker id"),
        (Resource(ResourceKind.BROKER, "01"), put("num.partitions", "2"), ErrorCode.INVALID_REQUEST, "not a broker id"),
        (Resource(ResourceKind.TOPIC, "x"), put("retention.ms", "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'x'"),
    ],
)
def test_an_alteration_that_can_not_be_is_refused_in_words(
    image: ClusterImage, resource: Resource, op: Op, code: ErrorCode, words: str
) -> None:
    with pytest.raises(OttlaError) as refused:
        decide_alter_configs(image, resource, [op])
    assert refused.value.code == code
    assert words in str(refused.value)


def test_configs_that_exclude_each_other_are_named_wherever_they_are_set(image: ClusterImage) -> None:
    both = "min.compaction.lag.ms=5000 is above max.compaction.lag.ms=1000"
    with pytest.raises(OttlaError, match=both):
        decide_alter_configs(image, TOPIC, [put("min.compaction.lag.ms", "5s"), put("max.compaction.lag.ms", "1s")])
    ops = [put("log.cleaner.min.compaction.lag.ms", "5s"), put("log.cleaner.max.compaction.lag.ms", "1s")]
    with pytest.raises(OttlaError, match=both):
        decide_alter_configs(image, CLUSTER, ops)
    image = image.with_changes(
        [Change(("configs", "broker", ""), ResourceConfigs({"log.cleaner.max.compaction.lag.ms": "1000"}, 210))], 210
    )
    with pytest.raises(OttlaError, match=both):
        decide_alter_configs(image, TOPIC, [put("min.compaction.lag.ms", "5s")])


def test_no_broker_keeps_out_every_client(image: ClusterImage) -> None:
    nobody = put("max.connections.per.ip", "0")
    for resource in (CLUSTER, BROKER_1):
        with pytest.raises(OttlaError, match="would keep out every client"):
            decide_alter_configs(image, resource, [nobody])
        assert decide_alter_configs(image, resource, [nobody, put("max.connections.per.ip.overrides", "::1:5")]).writes


def test_one_op_that_is_refused_refuses_them_all_and_a_config_is_altered_once(image: ClusterImage) -> None:
    with pytest.raises(OttlaError, match=r"retention\.bytes"):
        decide_alter_configs(image, TOPIC, [put("retention.ms", "1"), put("retention.bytes", "x")])
    with pytest.raises(OttlaError, match="twice") as refused:
        decide_alter_configs(image, TOPIC, [put("retention.ms", "1"), put("retention.ms", "2")])
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_a_new_cluster_begins_with_the_configs_of_its_controllers_settings() -> None:
    settings = ControllerConfig(first_configs=("default.replication.factor=3", "min.insync.replicas=2"))
    new = ClusterImage("c")
    image = after(new, decide_first_configs(new, settings.cluster_configs()))
    assert shown(image, CLUSTER, "default.replication.factor") == ("3", Source.CLUSTER)
    assert shown(image, CLUSTER, "min.insync.replicas") == ("2", Source.CLUSTER)
    unset = replace(altered(image, CLUSTER, Op("min.insync.replicas", OpKind.DELETE)), seq=2)
    assert decide_first_configs(unset, settings.cluster_configs()).writes == (), "what was changed since stays so"
    assert decide_first_configs(new, {}).writes == ()


@pytest.mark.parametrize("text", ["min.insync.replicas", "=2", "min.insync.replica=2", "min.insync.replicas=none"])
def test_first_configs_that_mean_nothing_are_told_at_the_start(text: str) -> None:
    with pytest.raises(OttlaError) as refused:
        decide_first_configs(ClusterImage("c"), ControllerConfig(first_configs=(text,)).cluster_configs())
    assert refused.value.code == ErrorCode.INVALID_CONFIG


@pytest.mark.rule(9)
def test_min_insync_replicas_stays_within_the_replicas_that_a_topic_has(image: ClusterImage) -> None:
    with pytest.raises(OttlaError, match="above the replication factor of 1") as refused:
        decide_alter_configs(image, TOPIC, [put("min.insync.replicas", "2")])
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert altered(image, TOPIC, put("min.insync.replicas", "1")).topics["orders"].configs["min.insync.replicas"] == "1"
    image = altered(image, CLUSTER, put("min.insync.replicas", "2"))  # for topics that have two
    assert shown(image, TOPIC, "min.insync.replicas") == ("2", Source.CLUSTER)


def test_a_topic_that_asks_for_too_many_already_can_be_altered_otherwise(image: ClusterImage) -> None:
    topic = image.topics["orders"]
    former = replace(topic, configs={"min.insync.replicas": "3"})
    image = image.with_changes([Change(("topic", "orders"), former)], 300)
    assert decide_alter_configs(image, TOPIC, [put("retention.ms", "1h")]).writes
    assert decide_alter_configs(image, TOPIC, [Op("min.insync.replicas", OpKind.DELETE)]).writes
