"""The table of configs: what is legal, and which value holds."""

from __future__ import annotations

from typing import Any

import pytest

from ottla_core.configs.config_key import Scope
from ottla_core.configs.config_table import BROKER_CONFIGS, ENFORCED, GROUP_CONFIGS, SYNONYMS, TOPIC_CONFIGS
from ottla_core.configs.config_values import Source, broker_key, check_topic_configs, resolve, resolve_broker, topic_key
from ottla_core.errors import ErrorCode, OttlaError

KAFKA_TOPIC_CONFIGS = [
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "errors.deadletterqueue.group.enable",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.decompressed.message.bytes",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
]
EVERY = [*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values(), *GROUP_CONFIGS.values()]


@pytest.mark.parametrize("key", EVERY, ids=lambda key: f"{key.scope.value}-{key.name}")
def test_every_default_is_legal_and_canonical(key: Any) -> None:
    assert key.default is None or key.parse(key.default) == key.default
    assert key.doc.endswith(".")


def test_the_table_has_every_topic_config_of_kafka() -> None:
    ours = ["compaction.drop.keyless"]
    assert sorted(TOPIC_CONFIGS) == sorted([*KAFKA_TOPIC_CONFIGS, "unclean.recovery.strategy", *ours])
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS), "the strategy is KIP-966's"
    assert {s.name for synonyms in SYNONYMS.values() for s in synonyms} <= set(BROKER_CONFIGS)
    assert {*TOPIC_CONFIGS, *BROKER_CONFIGS, *GROUP_CONFIGS} >= ENFORCED
    assert {BROKER_CONFIGS[s.name].enforced for s in SYNONYMS["retention.ms"]} == {True}


@pytest.mark.parametrize(
    ("name", "text", "canonical"),
    [
        ("retention.ms", " 7d ", "604800000"),
        ("retention.ms", "90 s", "90000"),
        ("retention.ms", "-1", "-1"),
        ("segment.bytes", "64MiB", "67108864"),
        ("segment.bytes", "+100", "100"),
        ("preallocate", "TRUE", "true"),
        ("min.cleanable.dirty.ratio", ".25", "0.25"),
        ("cleanup.policy", "compact, delete,compact", "compact,delete"),
        ("cleanup.policy", "", ""),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ("leader.replication.throttled.replicas", "*", "*"),
        ("compression.gzip.level", "-1", "-1"),
    ],
)
def test_a_text_becomes_canonical(name: str, text: str, canonical: str) -> None:
    assert topic_key(name).parse(text) == canonical


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("retention.ms", "-2", "not below -1"),
        ("retention.ms", "7 weeks", "with a unit"),
        ("retention.ms", "64MiB", "in milliseconds"),
        ("retention.ms", "1_000", "whole number"),
        ("retention.ms", "１", "whole number"),
        ("retention.ms", "", "whole number"),
        ("retention.bytes", "7d", "in bytes"),
        ("segment.bytes", "4GiB", "at most 2147483647"),
        ("compression.lz4.level", "18", "from 1 to 17"),
        ("compression.gzip.level", "0", "-1 or 1"),
        ("min.cleanable.dirty.ratio", "1.1", "from 0 to 1"),
        ("min.cleanable.dirty.ratio", "nan", "a number"),
        ("preallocate", "yes", "true or false"),
        ("cleanup.policy", "shrink", "delete or compact"),
        ("cleanup.policy", "delete,,compact", "single commas"),
        ("message.timestamp.type", "createtime", "CreateTime or LogAppendTime"),
        ("leader.replication.throttled.replicas", "0-1", "must look like"),
        ("remote.storage.enable", "true", "give false"),
        ("cleanup.policy", "x" * 40_000, "at most 32,767 characters"),
    ],
)
def test_a_text_that_is_not_legal_is_refused_with_what_is(name: str, text: str, remedy: str) -> None:
    with pytest.raises(OttlaError, match=remedy) as refused:
        topic_key(name).parse(text)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert refused.value.message.startswith(f"{name}=")
    assert len(refused.value.message) < 200


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("retention.ms", ""),
        ("cleanup.policy", ""),
        ("preallocate", "preallocate is stored; this release does not act on it yet"),
    ],
)
def test_what_has_no_effect_is_told(name: str, told: str) -> None:
    assert topic_key(name).without_effect() == told


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(OttlaError, match=r"no topic config 'retension.ms'.*did you mean retention.ms"):
        topic_key("retension.ms")
    with pytest.raises(OttlaError, match=r"did you mean num\.partitions"):
        broker_key("num.partition", one_broker=False)
    with pytest.raises(OttlaError, match="describe the configs"):
        topic_key("zzz")


@pytest.mark.feature(101)
def test_the_topic_comes_before_its_broker_and_that_before_the_cluster() -> None:
    cluster = {"log.segment.bytes": "300", "log.index.interval.bytes": "30", "log.roll.ms": "3"}
    broker = {"log.segment.bytes": "200", "log.index.interval.bytes": "20"}
    configs = resolve({"segment.bytes": "100"}, cluster, broker)
    assert configs.integer("segment.bytes") == 100
    assert configs.integer("index.interval.bytes") == 20
    assert configs.integer("segment.ms") == 3
    assert configs.integer("retention.ms") == 7 * 86_400_000
    assert [configs.entries[n].source for n in ("segment.bytes", "index.interval.bytes", "segment.ms", "flush.ms")] == [
        Source.TOPIC,
        Source.BROKER,
        Source.CLUSTER,
        Source.DEFAULT,
    ]


@pytest.mark.parametrize(
    ("cluster", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_decides(cluster: dict[str, str], retention_ms: int) -> None:
    assert resolve({}, cluster, {}).integer("retention.ms") == retention_ms


def test_a_finer_unit_of_the_cluster_counts_before_a_coarser_one_of_the_broker() -> None:
    assert resolve({}, {"log.retention.ms": "5"}, {"log.retention.hours": "1"}).integer("retention.ms") == 5


def test_values_have_their_types() -> None:
    configs = resolve({"cleanup.policy": "compact,delete"}, {}, {})
    assert configs.items("cleanup.policy") == ("compact", "delete")
    assert configs.items("leader.replication.throttled.replicas") == ()
    assert configs.boolean("preallocate") is False
    assert configs.decimal("min.cleanable.dirty.ratio") == 0.5
    assert configs.text("compression.type") == "producer"
    with pytest.raises(TypeError, match="preallocate is False, no int"):
        configs.integer("preallocate")


def test_a_name_that_only_a_later_release_knows_is_left_alone() -> None:
    assert resolve({"some.later.config": "1"}, {}, {}).entries.keys() == TOPIC_CONFIGS.keys()


def test_what_a_process_was_started_with_is_its_own() -> None:
    configs = resolve_broker({"num.partitions": "6"}, {}, {"broker.id": "3"})
    assert configs.integer("num.partitions") == 6
    assert configs.integer("broker.id") == 3
    assert configs.value("log.retention.ms") is None
    assert {k.name for k in BROKER_CONFIGS.values() if k.scope is Scope.BROKER} == {
        "advertised.listeners",
        "broker.id",
        "broker.rack",
    }


def test_topic_configs_are_judged_as_they_would_hold() -> None:
    assert check_topic_configs({"max.compaction.lag.ms": "1s"}, {}) == {"max.compaction.lag.ms": "1000"}
    with pytest.raises(OttlaError, match=r"is above max\.compaction\.lag\.ms=1000"):
        check_topic_configs({"max.compaction.lag.ms": "1s"}, {"log.cleaner.min.compaction.lag.ms": "2000"})
