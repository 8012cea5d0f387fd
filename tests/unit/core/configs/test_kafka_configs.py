"""Kafka's configs that have no effect in ottla: every one is legal, under Kafka's name and type."""

from __future__ import annotations

from typing import Any

import pytest

from ottla_core.configs.config_key import ConfigType, Scope
from ottla_core.configs.config_table import BROKER_CONFIGS, GROUP_CONFIGS
from ottla_core.configs.config_values import broker_key
from ottla_core.configs.kafka_configs import (
    CLIENT_METRICS_CONFIGS,
    OTHER_BROKER_CONFIGS,
    OTHER_GROUP_CONFIGS,
    of_listener,
)
from ottla_core.errors import ErrorCode, OttlaError

EVERY = [*OTHER_BROKER_CONFIGS.values(), *OTHER_GROUP_CONFIGS.values(), *CLIENT_METRICS_CONFIGS.values()]


@pytest.mark.parametrize("key", EVERY, ids=lambda key: f"{key.scope.value}-{key.name}")
def test_every_default_is_legal_and_canonical(key: Any) -> None:
    assert key.default is None or key.parse(key.default) == key.default
    assert not key.enforced


def test_no_config_is_in_both_tables_and_all_of_kafkas_are_in_one() -> None:
    assert not OTHER_BROKER_CONFIGS.keys() & BROKER_CONFIGS.keys()
    # Kafka 4.4.0 defines 350 that are not internal, and three that only AlterConfigs sets. One of ours is older, one
    # (unclean.recovery.strategy) is only in KIP-966, one (group.consumer.regex.refresh.interval.ms) is internal in
    # Kafka, and one (log.cleaner.drop.keyless) is only ottla's.
    assert len(OTHER_BROKER_CONFIGS) + len(BROKER_CONFIGS) == 350 + 3 + 1 + 1 + 1 + 1
    assert not OTHER_GROUP_CONFIGS.keys() & GROUP_CONFIGS.keys()
    assert (len(OTHER_GROUP_CONFIGS) + len(GROUP_CONFIGS), len(CLIENT_METRICS_CONFIGS)) == (21, 3)


def test_who_may_change_what() -> None:
    def scope(name: str) -> tuple[Scope, bool]:
        key = OTHER_BROKER_CONFIGS[name]
        return key.scope, key.dynamic

    assert scope("process.roles") == (Scope.CLUSTER, False)
    assert scope("num.io.threads") == (Scope.CLUSTER, True)
    assert scope("sasl.kerberos.min.time.before.relogin") == (Scope.BROKER, True)
    assert scope("ssl.keystore.password") == (Scope.LISTENER, True)


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("listener.name.internal.ssl.keystore.password", ConfigType.PASSWORD),
        ("listener.name.internal.ssl.keystore.location", ConfigType.STRING),
        ("listener.name.sasl_ssl.plain.sasl.jaas.config", ConfigType.PASSWORD),
        ("listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms", ConfigType.LONG),
    ],
)
def test_a_listeners_own_configs_are_those_of_its_broker(name: str, type_: ConfigType) -> None:
    key = of_listener(name, BROKER_CONFIGS)
    assert key is not None
    assert (key.name, key.type, key.scope, key.dynamic) == (name, type_, Scope.BROKER, True)
    assert broker_key(name, one_broker=True) == key
    with pytest.raises(OttlaError, match="broker id must be specified") as refused:
        broker_key(name, one_broker=False)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["listener.name.x", "listener.name.x.nothing", "listener.name..ssl.protocol", "x.y"])
def test_what_no_listener_has(name: str) -> None:
    with pytest.raises(OttlaError) as refused:
        broker_key(name, one_broker=True)
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_a_connection_limit_of_a_listener_may_hold_for_the_cluster() -> None:
    assert broker_key("listener.name.x.max.connections", one_broker=False).parse("5") == "5"
