"""Configs of topics, of the cluster and of single brokers: describe and alter (KIP-339).

A topic's configs lie in its own value, the others under `configs/broker/<id>`, where the empty id is the cluster-wide
default. What is stored is canonical text (`config_key`), so a reader need not judge it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from ottla_controller.machines.decision import Decision, ReliedOn, Write
from ottla_core.cluster import keys
from ottla_core.cluster.image import Broker, Change, ClusterImage, ResourceConfigs, Topic
from ottla_core.configs.config_key import ConfigKey, ConfigType, Scope
from ottla_core.configs.config_table import GROUP_CONFIGS
from ottla_core.configs.config_values import (
    MIN_ISR,
    EffectiveConfigs,
    Source,
    broker_key,
    check_broker_conflicts,
    check_conflicts,
    check_topic_configs,
    resolve,
    resolve_broker,
    resolve_every,
    resolve_resource,
    resource_key,
    topic_key,
    without_effect,
)
from ottla_core.configs.consumer_groups import check_group
from ottla_core.configs.kafka_configs import CLIENT_METRICS_CONFIGS, OTHER_GROUP_CONFIGS
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import INTERNAL_TOPICS

MAX_BROKER_ID: Final = 2**31 - 1

PINNED: Final = frozenset({"cleanup.policy", "message.timestamp.type", MIN_ISR, "unclean.leader.election.enable"})
"""Configs of internal topics that only the controller sets."""

CLUSTER = ""
"""The name of the broker resource that is the cluster-wide default."""

MAX_STORED_BYTES: Final = 1 << 20
"""The limit for one resource, names and values: that of one value in etcd, less room for a topic's other fields."""

MAX_RESOURCES: Final = 10_000
"""The most groups, or subscriptions, that have configs. Each is a key that every process of the cluster holds."""

_MAX_NAME: Final = 249


class ResourceKind(Enum):
    """The values of the last two name the scope of their keys."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


@dataclass(frozen=True, slots=True)
class Resource:
    """What configs belong to: a topic by name, a broker by id, the cluster (`CLUSTER`), a group, a subscription to
    client metrics. The last two need not exist."""

    kind: ResourceKind
    name: str


class OpKind(Enum):
    """The operations of KIP-339. The last two change a list's items."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


@dataclass(frozen=True, slots=True)
class Op:
    name: str
    kind: OpKind
    value: str = ""


_TABLES: Final = {
    ResourceKind.GROUP: {**GROUP_CONFIGS, **OTHER_GROUP_CONFIGS},
    ResourceKind.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
}
_SOURCES: Final = {ResourceKind.GROUP: Source.GROUP, ResourceKind.CLIENT_METRICS: Source.CLIENT_METRICS}


def cluster_configs(image: ClusterImage) -> Mapping[str, str]:
    """Return the cluster-wide defaults that are set."""
    return _stored(image, CLUSTER).values


def cluster_values(image: ClusterImage) -> EffectiveConfigs:
    """Return the effective configs of the cluster as a whole."""
    return resolve_broker(cluster_configs(image), {}, {})


def cluster_configs_seen(image: ClusterImage) -> ReliedOn:
    return ReliedOn(keys.configs("broker", CLUSTER), mod_revision=_stored(image, CLUSTER).mod_revision)


def describe_configs(image: ClusterImage, resource: Resource) -> EffectiveConfigs:
    """Return the effective configs of `resource`.

    Raises UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED, INVALID_REQUEST.
    """
    if resource.kind is ResourceKind.TOPIC:
        return resolve(_topic(image, resource.name).configs, cluster_configs(image), {})
    if resource.kind is not ResourceKind.BROKER:
        own = _named(image, resource)
        return resolve_resource(_TABLES[resource.kind], own.values, _SOURCES[resource.kind], cluster_configs(image))
    if resource.name == CLUSTER:
        values = resolve_every(cluster_configs(image), {}, {})
        return EffectiveConfigs(e for e in values.entries.values() if e.key.scope is Scope.CLUSTER and e.key.dynamic)
    broker_id = _broker_id(image, resource.name)
    return resolve_every(cluster_configs(image), _stored(image, resource.name).values, _process(image, broker_id))


def decide_first_configs(image: ClusterImage, configs: Mapping[str, str]) -> Decision[None]:
    """Set the cluster-wide configs that a cluster begins with. Do nothing for a cluster that is not new."""
    if not image.is_new or not configs:
        return Decision(None)
    return _alter_broker(image, CLUSTER, [Op(name, OpKind.SET, value) for name, value in configs.items()])


def check_min_isr(configs: Mapping[str, str], replication_factor: int) -> None:
    """Raise INVALID_CONFIG if a topic requires more replicas in sync than it has, because acks=all would never be
    served.

    Kafka accepts it. If a topic takes the value from the cluster's default, the broker that leads it bounds the value
    by the number of its replicas.
    """
    if int(configs.get(MIN_ISR, 1)) > replication_factor:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"{MIN_ISR}={configs[MIN_ISR]} is above the replication factor of {replication_factor}",
            hint=f"set at most {replication_factor}, or give the topic more replicas",
        )


def decide_alter_configs(image: ClusterImage, resource: Resource, ops: Sequence[Op]) -> Decision[None]:
    """Apply all of `ops` or none of them. Raises as `describe_configs` does, and INVALID_CONFIG."""
    names = [op.name for op in ops]
    if len(set(names)) < len(names):
        raise OttlaError(ErrorCode.INVALID_REQUEST, "the request alters a config twice", hint="name each config once")
    if resource.kind is ResourceKind.TOPIC:
        return _alter_topic(image, _topic(image, resource.name), ops)
    if resource.kind is not ResourceKind.BROKER:
        return _alter_named(image, resource, ops)
    if resource.name != CLUSTER:
        _broker_id(image, resource.name)
    return _alter_broker(image, resource.name, ops)


def unserved(resource: Resource, ops: Sequence[Op]) -> tuple[str, ...]:
    """Return a sentence for each config that `ops` set and that has no effect. The `ops` have been decided on."""
    return without_effect(_key_of(resource), (op.name for op in ops if op.kind in (OpKind.SET, OpKind.APPEND)))


def _key_of(resource: Resource) -> Callable[[str], ConfigKey]:
    """Return the function that looks up a resource's config by its name."""
    kind = resource.kind
    if kind is ResourceKind.TOPIC:
        return topic_key
    if kind is ResourceKind.BROKER:
        return lambda name: broker_key(name, one_broker=resource.name != CLUSTER)
    return lambda name: resource_key(_TABLES[kind], kind.value, name)


def _alter_topic(image: ClusterImage, topic: Topic, ops: Sequence[Op]) -> Decision[None]:
    _check_not_pinned(topic.name, ops)
    altered = check_topic_configs(_altered(topic.configs, ops, topic_key), cluster_configs(image))
    if altered == topic.configs:
        return Decision(None)
    if altered.get(MIN_ISR) != topic.configs.get(MIN_ISR):
        check_min_isr(altered, min(len(p.replicas) for _, p in image.partitions_of(topic)))
    seen = (ReliedOn(keys.topic(topic.name), mod_revision=topic.mod_revision), cluster_configs_seen(image))
    return Decision(None, (Write(Change(keys.topic(topic.name), replace(topic, configs=altered)), seen),))


def _check_not_pinned(topic: str, ops: Sequence[Op]) -> None:
    """Raise POLICY_VIOLATION for pinned configs of internal topics. Their values keep coordinators from losing
    commits."""
    pinned = [op.name for op in ops if op.name in PINNED]
    if topic in INTERNAL_TOPICS and pinned:
        raise OttlaError(
            ErrorCode.POLICY_VIOLATION,
            f"only the controller may set {pinned[0]} of the internal topic {topic}",
            hint="the topic's other configs may be altered",
        )


def _alter_broker(image: ClusterImage, name: str, ops: Sequence[Op]) -> Decision[None]:
    stored = _stored(image, name)
    altered = _altered(stored.values, ops, _key_of(Resource(ResourceKind.BROKER, name)))
    cluster, broker = (altered, {}) if name == CLUSTER else (cluster_configs(image), altered)
    check_conflicts(resolve({}, cluster, broker))
    check_broker_conflicts(resolve_broker(cluster, broker, {}))
    if altered == stored.values:
        return Decision(None)
    key = keys.configs("broker", name)
    seen = (ReliedOn(key, mod_revision=stored.mod_revision), cluster_configs_seen(image))
    return Decision(None, (Write(Change(key, ResourceConfigs(altered) if altered else None), seen),))


def _named(image: ClusterImage, resource: Resource) -> ResourceConfigs:
    """Return the stored configs of a group or a subscription. An unknown one has none, as in Kafka."""
    if not 0 < len(resource.name) <= _MAX_NAME:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"the name of a {resource.kind.value} resource must have 1 to {_MAX_NAME} characters",
            hint="name one resource; there is no cluster-wide default for this kind of resource",
        )
    return image.configs.get((resource.kind.value, resource.name), ResourceConfigs({}))


def _alter_named(image: ClusterImage, resource: Resource, ops: Sequence[Op]) -> Decision[None]:
    kind, stored = resource.kind, _named(image, resource)
    altered = _altered(stored.values, ops, _key_of(resource))
    if kind is ResourceKind.GROUP:
        check_group(altered, cluster_values(image).integer)
    if altered == stored.values:
        return Decision(None)
    if not stored.values and sum(scope == kind.value for scope, _ in image.configs) >= MAX_RESOURCES:
        raise OttlaError(
            ErrorCode.POLICY_VIOLATION,
            f"{MAX_RESOURCES:,} {kind.value} resources already have configs, which is the maximum",
            hint="remove the configs of resources that no longer exist",
        )
    key = keys.configs(kind.value, resource.name)
    seen = (ReliedOn(key, mod_revision=stored.mod_revision), cluster_configs_seen(image))
    return Decision(None, (Write(Change(key, ResourceConfigs(altered) if altered else None), seen),))


def _altered(current: Mapping[str, str], ops: Sequence[Op], key_of: Callable[[str], ConfigKey]) -> dict[str, str]:
    """Return `current` after `ops`, in canonical text."""
    configs = dict(current)
    for op in ops:
        key = key_of(op.name)
        match op.kind:
            case OpKind.SET:
                configs[op.name] = key.parse(op.value)
            case OpKind.DELETE:
                configs.pop(op.name, None)
            case OpKind.APPEND | OpKind.SUBTRACT:
                configs[op.name] = _with_items(key, configs.get(op.name), op)
    if sum(len(name) + len(value.encode()) for name, value in configs.items()) > MAX_STORED_BYTES:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"the configs of one resource may take at most {MAX_STORED_BYTES:,} bytes in all",
            hint="remove some configs, or set shorter values",
        )
    return configs


def _with_items(key: ConfigKey, current: str | None, op: Op) -> str:
    """Return a list with items added or removed. If the list is not set, the items are added to its default."""
    if key.type is not ConfigType.LIST:
        key.reject(op.value, f"{op.kind.value} is for lists, and this is of type {key.type.value}: set it instead")
    options = key.parse(op.value).split(",")
    items = list(filter(None, (current if current is not None else key.default or "").split(",")))
    if op.kind is OpKind.APPEND:
        return key.parse(",".join([*items, *options]).strip(","))
    return ",".join(item for item in items if item not in options)


def _stored(image: ClusterImage, name: str) -> ResourceConfigs:
    return image.configs.get(("broker", name), ResourceConfigs({}))


def _topic(image: ClusterImage, name: str) -> Topic:
    topic = image.topics.get(name)
    if topic is None:
        raise OttlaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"there is no topic {name!r}",
            hint="list the topics to see which exist",
        )
    return topic


def _broker_id(image: ClusterImage, name: str) -> int:
    """Return the id of a broker that is registered, got its id from the controller, or has configs already."""
    is_number = name.isascii() and name.isdigit() and len(name) <= len(str(MAX_BROKER_ID))
    if not is_number or str(int(name)) != name:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"{name[:40]!r} is not a broker id",
            hint="use a broker id, or '' for all brokers",
        )
    broker_id = int(name)
    known = broker_id in image.brokers or ("broker", name) in image.configs
    if not known and broker_id not in image.broker_ids.by_directory.values():
        raise OttlaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {name} is unknown", hint="start it, or use another broker id"
        )
    return broker_id


def _process(image: ClusterImage, broker_id: int) -> dict[str, str | None]:
    """Return the settings of a broker's process, as far as its registration shows them."""
    broker = image.brokers.get(broker_id)
    return {
        "broker.id": str(broker_id),
        "node.id": str(broker_id),
        "process.roles": "broker",
        "broker.rack": broker.rack or None if broker else None,
        "advertised.listeners": _listeners(broker) if broker and broker.kafka_address else None,
    }


def _listeners(broker: Broker) -> str:
    """Return the listeners as Kafka spells them. A broker of an older release has registered one address without its
    listener's name."""
    listeners = broker.kafka_listeners or {"PLAINTEXT": broker.kafka_address}
    return ",".join(f"{name}://{address}" for name, address in sorted(listeners.items()))
