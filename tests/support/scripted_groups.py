"""Consumers of a group against scripted brokers: what the tests of them share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from waiting import wait_until

from ottla.consumer.consumer import Consumer
from ottla.fakes.scripted import ScriptedCluster
from ottla.fakes.scripted_group import ScriptedMember
from ottla.producer.producer import Producer
from ottla_core.model import TopicPartition

WAIT = 10.0
T = [TopicPartition("t", n) for n in range(4)]


class BrokenError(Exception):
    """An error in the user's own code."""


def number(data: bytes) -> int:
    return int(data)


def filled(counts: dict[int, int], *, batch_size: int = 1000) -> ScriptedCluster:
    cluster = ScriptedCluster({"t": len(counts)})
    fill(cluster, counts, batch_size=batch_size)
    cluster.seen.clear()
    return cluster


def fill(cluster: ScriptedCluster, counts: dict[int, int], *, topic: str = "t", batch_size: int = 1000) -> None:
    with Producer[Any, Any](
        "b0:1",
        topic=topic,
        value="bytes",
        batch_size=batch_size,
        max_request_size=max(100, batch_size),  # otherwise batches that wait grow
        _transport=cluster.connect,
    ) as producer:
        for partition, count in counts.items():
            for n in range(count):
                producer.send(b"%d" % n, partition=partition)


def consumer_of(cluster: ScriptedCluster, *topics: str, **arguments: Any) -> Consumer[Any, Any]:
    defaults = {
        "bootstrap": "b0:1",
        "group": "g",
        "auto_offset_reset": "earliest",
        "fetch_max_wait": 0.05,
        "heartbeat_interval": 0.05,
        "value": number,
    }
    named = topics or (() if "pattern" in arguments else ("t",))
    return Consumer(*named, **{**defaults, "_transport": cluster.connect, **arguments})


def committed(cluster: ScriptedCluster) -> dict[int, int]:
    with cluster.changed:
        return {p.partition: place.offset for p, place in cluster.groups.group("g").offsets.items()}


def make_anew(cluster: ScriptedCluster, *consumers: Consumer[Any, Any], records: int = 0) -> None:
    """Another topic gets the name "t", with so many records in its only partition, and the consumers notice it."""
    cluster.drop_topic("t")
    cluster.add_topic("t", 1)
    fill(cluster, {0: records})
    for consumer in consumers:
        wait_until(lambda consumer=consumer: consumer.metrics["position-reset-total"] == 1)


def reset_in_hand() -> tuple[ScriptedCluster, Consumer[Any, Any]]:
    """Ten records of each of two partitions are processed, and the first one is reset with three more in hand."""
    cluster = filled({0: 10, 1: 10})
    consumer = consumer_of(cluster, auto_commit_interval=1000.0)
    read = 0
    while read < 20:
        read += len(consumer.poll(WAIT))
    fill(cluster, {0: 3})
    while read < 23:
        read += len(consumer.poll(WAIT))
    cluster.truncate("t", 0, before=100)
    wait_until(lambda: consumer.metrics["position-reset-total"] == 1)
    return cluster, consumer


def until_joined(consumer: Consumer[Any, Any], partitions: int) -> None:
    while len(consumer.assignment()) < partitions:
        consumer.poll(0.05)


@contextmanager
def ghost(cluster: ScriptedCluster) -> Iterator[None]:
    """A member that never joins again: whoever joins waits for it."""
    with cluster.changed:
        cluster.groups.group("g").members["ghost"] = ScriptedMember("ghost", None, {"range": b""})
    yield
    with cluster.changed:
        cluster.groups.group("g").members.pop("ghost", None)
