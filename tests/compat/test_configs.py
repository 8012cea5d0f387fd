"""Our tables of configs agree with the definitions in Apache Kafka's own jars."""

from __future__ import annotations

from peers.kafka.configs import KafkaConfig, configs
from tests.compat.cells import DIFFERS

from ottla_core.configs.config_key import ConfigKey, ConfigType
from ottla_core.configs.config_table import BROKER_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS
from ottla_core.configs.kafka_configs import CLIENT_METRICS_CONFIGS, OTHER_BROKER_CONFIGS, OTHER_GROUP_CONFIGS

OURS = {
    "broker": {**BROKER_CONFIGS, **OTHER_BROKER_CONFIGS},
    "topic": TOPIC_CONFIGS,
    "group": {**GROUP_CONFIGS, **OTHER_GROUP_CONFIGS},
    "client-metrics": CLIENT_METRICS_CONFIGS,
}
OTTLAS = {
    ("broker", "group.consumer.regex.refresh.interval.ms"),  # Kafka has it, but describes it to nobody
    ("broker", "log.cleaner.drop.keyless"),
    ("topic", "compaction.drop.keyless"),
}
ONLY_ALTERED = {
    ("broker", "follower.replication.throttled.rate"),
    ("broker", "leader.replication.throttled.rate"),
    ("broker", "replica.alter.log.dirs.io.max.bytes.per.second"),
}
"""Kafka defines these configs apart, because no file of settings can contain them."""
OTHER_VERSIONS = {
    ("broker", "leader.imbalance.per.broker.percentage"),
    ("broker", "unclean.recovery.strategy"),
    ("topic", "unclean.recovery.strategy"),
}
"""The configs of other versions: the first is older, and unclean.recovery.strategy is part of KIP-966."""


def described(key: ConfigKey) -> KafkaConfig:
    default = key.default
    if default is not None and key.type is ConfigType.DOUBLE:
        default = default.upper().replace("E+", "E")  # as Java writes it
    return KafkaConfig(key.type.value, default, key.scope.value if key.dynamic else "static")


@DIFFERS.cell
def test_the_tables_have_each_of_kafkas_configs_with_its_type_and_default() -> None:
    theirs = configs()
    ours = {(kind, name): described(key) for kind, table in OURS.items() for name, key in table.items()}
    assert ours.keys() - theirs.keys() == OTTLAS | ONLY_ALTERED | OTHER_VERSIONS
    assert theirs.keys() - ours.keys() == set()
    differing = {
        name: (ours[name], config)
        for name, config in theirs.items()
        if ours[name] != config and not is_wider(name[1], ours[name], config)
    }
    no_id = KafkaConfig("int", None, "static"), KafkaConfig("int", "-1", "static")
    assert differing == {("broker", "broker.id"): no_id}


def is_wider(name: str, ours: KafkaConfig, theirs: KafkaConfig) -> bool:
    """Return whether ottla acts on the config and takes it at run time, while Kafka needs a restart for it."""
    return name in BROKER_CONFIGS and ours._replace(changed="static") == theirs
