"""How a change of min.insync.replicas affects the eligible leader replicas (KIP-966).

The ELR rests on rule 8: below min.insync.replicas nothing is committed. Once a leader knows a lower value it commits
with fewer replicas, and a replica that left before lacks those records. So the ELRs concerned are emptied before the
new value is written, all in one decision. Its writes are not mixed with others of this controller, and the configs are
written last. A decision that is cut off half-way has emptied some ELRs for nothing, and changed no value.

A partition without a leader keeps its ELR: nothing is committed in it, and the next election goes by the new value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ottla_controller.machines.decision import Decision, Write
from ottla_controller.machines.partition import TopicConfigs, without_elr, write_of
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage, ResourceConfigs, Topic
from ottla_core.configs.config_values import ONE_FOR_ALL
from ottla_core.model import NO_LEADER


def with_elrs_emptied(image: ClusterImage, decision: Decision[None]) -> Decision[None]:
    """Return a decision that empties the ELRs that rest on the former min.insync.replicas, and then alters configs as
    `decision` does."""
    after = image.with_changes((w.change for w in decision.writes), image.revision)
    if after.topics is image.topics and after.configs is image.configs:
        return decision
    writes = [
        write_of(image, id_, without_elr(partition))
        for topic in _concerned(image, after)
        for id_, partition in image.partitions_of(topic)
        if partition.elr and partition.leader != NO_LEADER
    ]
    return replace(decision, writes=(*writes, *decision.writes))


def _concerned(image: ClusterImage, after: ClusterImage) -> Iterator[Topic]:
    was, will_be = TopicConfigs(image), TopicConfigs(after)
    for name, topic in after.topics.items():
        unchanged = after.configs is image.configs and image.topics.get(name) is topic
        if not unchanged and was.min_isr(topic.id) != will_be.min_isr(topic.id):
            yield topic


def decide_remove_own_values(image: ClusterImage) -> Decision[None]:
    """Remove single brokers' values of configs that have one value for the whole cluster. An older release
    accepted them."""
    writes = []
    for kind, name in image.configs:
        values = image.configs[kind, name].values
        kept = {config: value for config, value in values.items() if config not in ONE_FOR_ALL}
        if kind == "broker" and name and len(kept) < len(values):
            writes.append(Write(Change(keys.configs(kind, name), ResourceConfigs(kept) if kept else None)))
    return Decision(None, tuple(writes))
