"""Numbers that are handed out once: producer ids in blocks, and broker ids by data directory.

Both are durable before they are used. A producer id that two producers use makes a broker take one's records for
repeats of the other's: silent data loss (rule 34). A broker id that a second directory gets would make an empty broker
stand for replicas that hold records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla_controller.machines.brokers import check_registered, registration_seen
from ottla_controller.machines.decision import Decision, ReliedOn, Write
from ottla_controller.machines.shards import check_coordinator, coordinator_seen
from ottla_core.cluster import keys
from ottla_core.cluster.image import BrokerIds, Change, ClusterImage, ProducerIds
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import SHARD_TOPICS

PRODUCER_ID_BLOCK: Final = 1_000
"""The size of a block (KIP-730)."""

FIRST_HANDED_OUT: Final = 1_001
"""Kafka's reserved.broker.max.id + 1: an id that an operator gives to a broker (0 to 1,000) is never handed out."""


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    first: int
    count: int


def decide_allocate_producer_ids(
    image: ClusterImage, kind: str, instance_id: int, instance_epoch: int
) -> Decision[ProducerIdBlock]:
    """Give the next block, to a live instance only. A process that was replaced must not hand out ids any more.

    Raises BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, INVALID_REQUEST.
    """
    holder = _check_registered(image, kind, instance_id, instance_epoch)
    seen = ReliedOn(keys.PRODUCER_IDS, mod_revision=image.producer_ids.mod_revision)
    first = image.producer_ids.next
    change = Change(keys.PRODUCER_IDS, ProducerIds(first + PRODUCER_ID_BLOCK))
    return Decision(ProducerIdBlock(first, PRODUCER_ID_BLOCK), (Write(change, (seen, holder)),))


def decide_allocate_broker_id(image: ClusterImage, directory_id: str) -> Decision[int]:
    """Return the id of a data directory. It is the same each time, and different for every other directory."""
    if not directory_id:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            "a broker id is allocated to a data directory, but the request contains no directory id",
            hint="send the directory's id",
        )
    ids = image.broker_ids
    if directory_id in ids.by_directory:
        return Decision(ids.by_directory[directory_id])
    used = _used_ids(image)
    broker_id = max(ids.next, FIRST_HANDED_OUT)
    while broker_id in used:
        broker_id += 1
    change = Change(keys.BROKER_IDS, BrokerIds(broker_id + 1, {**ids.by_directory, directory_id: broker_id}))
    seen = ReliedOn(keys.BROKER_IDS, mod_revision=ids.mod_revision)
    unregistered = ReliedOn(keys.broker(broker_id), mod_revision=0)
    return Decision(broker_id, (Write(change, (seen, unregistered)),))


def _check_registered(image: ClusterImage, kind: str, instance_id: int, instance_epoch: int) -> ReliedOn:
    if kind == "broker":
        return registration_seen(check_registered(image, instance_id, instance_epoch))
    if kind in SHARD_TOPICS:
        return coordinator_seen(check_coordinator(image, kind, instance_id, instance_epoch))
    raise OttlaError(
        ErrorCode.INVALID_REQUEST,
        f"{kind[:40]!r} is not a kind of service that gets producer ids",
        hint=f"use broker or a kind of coordinator: {', '.join(SHARD_TOPICS)}",
    )


def _used_ids(image: ClusterImage) -> set[int]:
    """Return the ids in use, now or before: registered, configured, or holding replicas while the broker is away."""
    configured = {int(name) for scope, name in image.configs if scope == "broker" and name}
    return {*image.brokers, *configured, *(b for p in image.partitions.values() for b in p.replicas)}
