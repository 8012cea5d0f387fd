"""Which configs may be set, and which value is in force.

A topic's value comes from the topic, or else from the broker config of the same meaning (`config_table.SYNONYMS`, in
their order: `log.retention.ms` counts before `log.retention.minutes` before `log.retention.hours`), and there from the
one broker before the cluster-wide default. Otherwise it is Kafka's default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Final, TypeVar

from ottla_core.configs import consumer_groups
from ottla_core.configs.config_key import ConfigKey, Scope, Value
from ottla_core.configs.config_table import BROKER_CONFIGS, SYNONYMS, TOPIC_CONFIGS
from ottla_core.configs.kafka_configs import OTHER_BROKER_CONFIGS, of_listener
from ottla_core.errors import ErrorCode, OttlaError

T = TypeVar("T")

_BROKER_NAMES: Final = (*BROKER_CONFIGS, *OTHER_BROKER_CONFIGS)
_NEAR: Final = 3
"""How many letters a name may be longer or shorter and still be suggested."""

MIN_ISR: Final = "min.insync.replicas"

OF_GROUPS: Final = (
    "group.consumer.assignment.interval.ms",
    "group.consumer.assignors",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.max.assignment.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.max.size",
    "group.consumer.migration.policy",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.regex.refresh.interval.ms",
    "group.consumer.session.timeout.ms",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "offset.metadata.max.bytes",
    "offsets.commit.timeout.ms",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
)
"""Configs that group-coordinators act on. Each has a setting of the same name in their process, which applies if the
cluster sets none."""

OF_TRANSACTIONS: Final = ("transaction.max.timeout.ms", "transactional.id.expiration.ms")
"""Configs that txn-coordinators act on. They have settings likewise."""

ONE_FOR_ALL: Final = frozenset({MIN_ISR, *OF_GROUPS, *OF_TRANSACTIONS})
"""Broker configs that have one value for the cluster. A leader and the controller must not disagree on who is eligible
to lead (KIP-966, KAFKA-16540), and groups and transactions do not belong to a broker. A broker's own value, which an
older release accepted, does not count."""

_TOPIC_NAME_OF: Final = {s.name: topic for topic, synonyms in SYNONYMS.items() for s in synonyms if s.name != topic}


class Source(Enum):
    """Where a value comes from. The names are Kafka's, as `describe` shows them."""

    TOPIC = "DYNAMIC_TOPIC_CONFIG"
    BROKER = "DYNAMIC_BROKER_CONFIG"
    CLUSTER = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    PROCESS = "STATIC_BROKER_CONFIG"
    GROUP = "DYNAMIC_GROUP_CONFIG"
    CLIENT_METRICS = "DYNAMIC_CLIENT_METRICS_CONFIG"
    DEFAULT = "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class Effective:
    """The value that is in force, as canonical text (None: unset), and where it comes from."""

    key: ConfigKey
    text: str | None
    source: Source


class EffectiveConfigs:
    """The configs in effect for one topic or one broker. Reading one as the wrong type is a bug (TypeError)."""

    def __init__(self, entries: Iterable[Effective]) -> None:
        self.entries: Final = {entry.key.name: entry for entry in entries}

    def integer(self, name: str) -> int:
        return self._typed(name, int)

    def decimal(self, name: str) -> float:
        return self._typed(name, float)

    def boolean(self, name: str) -> bool:
        return self._typed(name, bool)

    def text(self, name: str) -> str:
        return self._typed(name, str)

    def items(self, name: str) -> tuple[str, ...]:
        return self._typed(name, tuple)

    def value(self, name: str) -> Value | None:
        """Return the typed value, or None if the config is unset."""
        entry = self.entries[name]
        return None if entry.text is None else entry.key.value(entry.text)

    def _typed(self, name: str, type_: type[T]) -> T:
        value = self.value(name)
        if type(value) is not type_:
            raise TypeError(f"{name} is {value!r}, no {type_.__name__}")
        return value


def topic_key(name: str) -> ConfigKey:
    """Return the topic config of that name. Raises OttlaError(INVALID_CONFIG) with the nearest existing name."""
    key = TOPIC_CONFIGS.get(name)
    if key is None:
        ours = _TOPIC_NAME_OF.get(name)
        raise _unknown("topic", name, f"on a topic it is called {ours}" if ours else _nearest(name, TOPIC_CONFIGS))
    return key


def broker_key(name: str, *, one_broker: bool) -> ConfigKey:
    """Return the broker config of that name, if it may be altered for one broker, or as the cluster-wide default.

    Raises OttlaError: INVALID_CONFIG for an unknown name, and INVALID_REQUEST, as Kafka does, for a config that can't
    be altered so.
    """
    key = find_broker_key(name)
    if key is None:
        hint = f"set {SYNONYMS[name][0].name}" if SYNONYMS.get(name) else _nearest(name, _BROKER_NAMES)
        raise _unknown("broker", name, hint)
    if not key.dynamic:
        raise _unalterable("Cannot update these configs dynamically", name, "start the broker with another value")
    if key.scope is Scope.LISTENER:
        message = "These security configs can be dynamically updated only per-listener using the listener prefix"
        raise _unalterable(message, name, f"set listener.name.<listener>.{name}")
    if name in ONE_FOR_ALL and one_broker:
        raise _unalterable(
            f"{name} has one value for the whole cluster", name, "set the cluster's default, or the topic's own"
        )
    if key.scope is Scope.BROKER and not one_broker:
        message = "Cannot update these configs at default cluster level, broker id must be specified"
        raise _unalterable(message, name, "name the broker")
    return key


def find_broker_key(name: str) -> ConfigKey | None:
    """Return the broker config of that name, even one of a single listener, whether or not something acts on it."""
    return BROKER_CONFIGS.get(name) or OTHER_BROKER_CONFIGS.get(name) or of_listener(name, BROKER_CONFIGS)


def resource_key(table: Mapping[str, ConfigKey], kind: str, name: str) -> ConfigKey:
    """Return the config of a group or of a client metrics subscription. Raises INVALID_CONFIG with the nearest name."""
    key = table.get(name)
    if key is None:
        raise _unknown(kind, name, _nearest(name, table))
    return key


def without_effect(key_of: Callable[[str], ConfigKey], names: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each of these configs that has no effect. The names are known."""
    return tuple(filter(None, (key_of(name).without_effect() for name in names)))


def check_topic_configs(configs: Mapping[str, str], cluster_configs: Mapping[str, str]) -> dict[str, str]:
    """Return a topic's configs in canonical text. Raises OttlaError(INVALID_CONFIG) for the first that is not valid.

    Values that exclude each other are judged together with the cluster's values, as they would be in force.
    """
    canonical = {name: topic_key(name).parse(text) for name, text in configs.items()}
    check_conflicts(resolve(canonical, cluster_configs, {}))
    return canonical


def check_conflicts(configs: EffectiveConfigs) -> None:
    """Raise INVALID_CONFIG if a topic's values exclude each other (Kafka's LogConfig.validateValues)."""
    least, most = configs.integer("min.compaction.lag.ms"), configs.integer("max.compaction.lag.ms")
    if least > most:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms={least} is above max.compaction.lag.ms={most}",
            hint="lower the first, or raise the second",
        )


def check_broker_conflicts(configs: EffectiveConfigs) -> None:
    """Raise INVALID_CONFIG if a broker's values exclude each other (Kafka's KafkaConfig.validateValues)."""
    if not configs.integer("max.connections.per.ip") and not configs.text("max.connections.per.ip.overrides"):
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            "max.connections.per.ip=0 would keep out every client, because no address has a limit of its own",
            hint="set max.connections.per.ip.overrides with it, or give a number above 0",
        )
    consumer_groups.check_cluster(configs.integer)


def resolve(
    topic_configs: Mapping[str, str], cluster_configs: Mapping[str, str], broker_configs: Mapping[str, str]
) -> EffectiveConfigs:
    """Return a topic's effective configs, on the broker whose configs are given ({} for the cluster as a whole).

    All three hold canonical texts. A name that this release does not know is left to a later one.
    """
    return EffectiveConfigs(
        _effective(key, topic_configs, cluster_configs, broker_configs) for key in TOPIC_CONFIGS.values()
    )


def resolve_broker(
    cluster_configs: Mapping[str, str], broker_configs: Mapping[str, str], process: Mapping[str, str | None]
) -> EffectiveConfigs:
    """Return a broker's effective configs, of those that something acts on. `process` has its process's settings."""
    keys = BROKER_CONFIGS.values()
    return EffectiveConfigs(_effective_broker(key, cluster_configs, broker_configs, process) for key in keys)


def resolve_every(
    cluster_configs: Mapping[str, str], broker_configs: Mapping[str, str], process: Mapping[str, str | None]
) -> EffectiveConfigs:
    """Do as `resolve_broker` does, but add the Kafka configs that nothing acts on and the listener configs that are
    set."""
    names = {**cluster_configs, **broker_configs}
    of_listeners = (of_listener(name, BROKER_CONFIGS) for name in sorted(names))
    keys = (*BROKER_CONFIGS.values(), *OTHER_BROKER_CONFIGS.values(), *(key for key in of_listeners if key))
    return EffectiveConfigs(_effective_broker(key, cluster_configs, broker_configs, process) for key in keys)


def _effective_broker(
    key: ConfigKey, cluster: Mapping[str, str], broker: Mapping[str, str], process: Mapping[str, str | None]
) -> Effective:
    if key.name in process:
        return Effective(key, process[key.name], Source.PROCESS)
    if key.name in broker and key.name not in ONE_FOR_ALL:
        return Effective(key, broker[key.name], Source.BROKER)
    if key.name in cluster:
        return Effective(key, cluster[key.name], Source.CLUSTER)
    return Effective(key, key.default, Source.DEFAULT)


def resolve_resource(
    table: Mapping[str, ConfigKey], configs: Mapping[str, str], source: Source, cluster_configs: Mapping[str, str]
) -> EffectiveConfigs:
    """Return a group's effective configs, or a client-metrics subscription's, whose own `configs` have `source`."""

    def effective(key: ConfigKey) -> Effective:
        if key.name in configs:
            return Effective(key, configs[key.name], source)
        stand_in = f"group.{key.name}"
        if key.scope is Scope.GROUP and stand_in in cluster_configs:
            return Effective(key, cluster_configs[stand_in], Source.CLUSTER)
        return Effective(key, key.default, Source.DEFAULT)

    return EffectiveConfigs(map(effective, table.values()))


def _effective(
    key: ConfigKey, topic: Mapping[str, str], cluster: Mapping[str, str], broker: Mapping[str, str]
) -> Effective:
    if key.name in topic:
        return Effective(key, topic[key.name], Source.TOPIC)
    for synonym in SYNONYMS[key.name]:
        for configs, source in ((broker, Source.BROKER), (cluster, Source.CLUSTER)):
            text = configs.get(synonym.name)
            if text is not None and not (source is Source.BROKER and synonym.name in ONE_FOR_ALL):
                return Effective(key, text if synonym.factor == 1 else _converted(text, synonym.factor), source)
    return Effective(key, key.default, Source.DEFAULT)


def _converted(text: str, factor: int) -> str:
    """Return a coarser unit's number in the topic's own unit. A negative number means "no limit" in every unit."""
    number = int(text)
    return str(number * factor if number >= 0 else -1)


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest name. It compares only names that begin alike and are about as long, because a
    request may have thousands of unknown names."""
    alike = [candidate for candidate in known if candidate[:1] == name[:1] and abs(len(candidate) - len(name)) <= _NEAR]
    near = get_close_matches(name, alike, n=1)
    return f"did you mean {near[0]}?" if near else "describe the configs to see which exist"


def _unalterable(message: str, name: str, hint: str) -> OttlaError:
    """Return the error in Kafka's words, which name the configs as a set."""
    return OttlaError(ErrorCode.INVALID_REQUEST, f"{message}: Set({name})", hint=hint)


def _unknown(kind: str, name: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_CONFIG, f"there is no {kind} config {name[:80]!r}", hint=hint)
