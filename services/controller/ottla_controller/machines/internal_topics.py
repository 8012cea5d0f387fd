"""The controller makes the topics in which coordinators keep their state, once a coordinator of their kind registers.

As the cluster grows they follow, step by step. Each step is decided by the present state (level-triggered, rule C3):

1. The topic is made with as many replicas as there are brokers, three at most (offsets.topic.replication.factor), and
as many partitions as configured: their number never changes, since it decides where each group belongs. 2. A partition
that has fewer replicas than it could have gets more; they catch up and join the ISR by themselves. 3. Once each has
three, and two of them in sync, two in sync are required: not before, or the step to three would keep every coordinator
waiting for the copies. This is never taken back. With it leadership goes to the preferred leaders, or the broker that
was there first would lead all of them until the next look at the balance.

A leader outside the ISR is never elected for them: an offset that was committed must not disappear.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final, NamedTuple

from ottla_controller.machines.brokers import registration_seen
from ottla_controller.machines.configs import cluster_configs_seen, cluster_values
from ottla_controller.machines.decision import MAX_WRITES, Decision, ReliedOn, Write
from ottla_controller.machines.partition import UNCLEAN, with_replicas, write_of
from ottla_controller.machines.preferred import ElectionType, decide_elect_leaders
from ottla_controller.machines.topics import NewTopic, decide_create_internal_topic
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage, Topic
from ottla_core.configs.config_values import MIN_ISR
from ottla_core.model import SHARD_TOPICS, TopicId
from ottla_core.plural import counted

SAFE_REPLICAS: Final = 3
SAFE_MIN_ISR: Final = "2"


class _Names(NamedTuple):
    """The names of the cluster's configs that describe a topic."""

    partitions: str
    factor: str
    segment_bytes: str


_CONFIGS: Final = {
    "group": _Names("offsets.topic.num.partitions", "offsets.topic.replication.factor", "offsets.topic.segment.bytes"),
    "txn": _Names(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
    ),
}


def unfinished(image: ClusterImage) -> list[str]:
    """Return the kinds whose topic can take another step."""
    return [kind for kind in SHARD_TOPICS if _registered(image, kind) and _next_step(image, kind)]


def decide_internal_topic(image: ClusterImage, kind: str, *, topic_id: TopicId) -> Decision[str]:
    """Take the next step for the topic of that kind. Return what was done, in words, or an empty text."""
    match _next_step(image, kind):
        case "make":
            return _make(image, kind, topic_id)
        case "copy":
            return _copy(image, kind)
        case "guard":
            return _guard(image, kind)
        case _:
            return Decision("")


def _registered(image: ClusterImage, kind: str) -> bool:
    return any(of_kind == kind for of_kind, _ in image.coordinators)


def _next_step(image: ClusterImage, kind: str) -> str:
    factor = _factor(image, kind)
    topic = image.topics.get(SHARD_TOPICS[kind])
    if topic is None:
        return "make" if factor else ""
    partitions = [partition for _, partition in image.partitions_of(topic)]
    if any(len(p.replicas) < factor for p in partitions):
        return "copy"
    safe = all(len(p.replicas) >= SAFE_REPLICAS and len(p.isr) >= int(SAFE_MIN_ISR) for p in partitions)
    return "guard" if safe and topic.configs.get(MIN_ISR) != SAFE_MIN_ISR else ""


def _factor(image: ClusterImage, kind: str) -> int:
    return min(cluster_values(image).integer(_CONFIGS[kind].factor), len(image.live_brokers()))


def _make(image: ClusterImage, kind: str, topic_id: TopicId) -> Decision[str]:
    values, names = cluster_values(image), _CONFIGS[kind]
    factor = _factor(image, kind)
    configs = {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",  # a stamp would change the bytes by which a repeat is recognized
        "segment.bytes": str(values.integer(names.segment_bytes)),
        MIN_ISR: SAFE_MIN_ISR if factor >= SAFE_REPLICAS else "1",
        UNCLEAN: "false",
    }
    new = NewTopic(SHARD_TOPICS[kind], values.integer(names.partitions), factor, configs)
    made = decide_create_internal_topic(image, new, topic_id=topic_id)
    return Decision(
        f"made {new.name}: {counted(new.partitions, 'partition')}, {counted(factor, 'replica')}", made.writes
    )


def _copy(image: ClusterImage, kind: str) -> Decision[str]:
    """Add one more replica for each partition that could have it, on the broker with fewest of the topic's replicas.

    The new replica comes first, as the preferred leader, if that spreads the leaders. Otherwise the first brokers would
    lead all partitions.
    """
    topic, factor = image.topics[SHARD_TOPICS[kind]], _factor(image, kind)
    live = image.live_brokers()
    partitions = image.partitions_of(topic)
    load = Counter(b for _, p in partitions for b in p.replicas)
    preferred = Counter(p.replicas[0] for _, p in partitions)
    writes: list[Write] = []
    for id_, partition in partitions:
        rest = [b for b in live if b not in partition.replicas]
        if len(partition.replicas) >= factor or not rest or len(writes) == MAX_WRITES:
            continue
        added = min(rest, key=lambda b: (load[b], b))
        load[added] += 1
        replicas = (*partition.replicas, added)
        if preferred[added] + 1 < preferred[replicas[0]]:
            preferred.update({added: 1, replicas[0]: -1})
            replicas = (added, *partition.replicas)
        write = write_of(image, id_, with_replicas(partition, replicas))
        writes.append(replace(write, relied_on=(*write.relied_on, registration_seen(image.brokers[added]))))
    return Decision(f"{topic.name}: one more replica of {counted(len(writes), 'partition')}", tuple(writes))


def _guard(image: ClusterImage, kind: str) -> Decision[str]:
    topic: Topic = image.topics[SHARD_TOPICS[kind]]
    guarded = replace(topic, configs={**topic.configs, MIN_ISR: SAFE_MIN_ISR})
    seen = (ReliedOn(keys.topic(topic.name), mod_revision=topic.mod_revision), cluster_configs_seen(image))
    ids = [id_ for id_, _ in image.partitions_of(topic)][: MAX_WRITES - 1]
    spread = decide_elect_leaders(image, ElectionType.PREFERRED, ids)
    writes = (Write(Change(keys.topic(topic.name), guarded), seen), *spread.writes)
    return Decision(f"{topic.name}: {MIN_ISR}={SAFE_MIN_ISR}, {len(spread.writes)} leaders moved", writes)
