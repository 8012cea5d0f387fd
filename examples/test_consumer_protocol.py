"""A test of your own program with confluent-kafka's consumers of the new protocol, against a cluster in its process.

    python -m pytest examples/test_consumer_protocol.py

The group's coordinator assigns the partitions (KIP-848), so a consumer sets `group.protocol` and nothing about
assignors or timeouts. The second test is the rolling restart by which a group changes over without standing still.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from confluent_kafka import Consumer

import ottla
from ottla.testing import Cluster

TOPIC, GROUP, PARTITIONS = "orders", "billing", 4
LIMIT_S = 60.0


@contextmanager
def consumer(cluster: Cluster, protocol: str) -> Iterator[Consumer]:
    """The program under test: a consumer of orders. Only its protocol is new."""
    opened = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": GROUP,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    opened.subscribe([TOPIC])
    try:
        yield opened
    finally:
        opened.close()


def poll_until(condition: Callable[[], bool], consumers: Sequence[Consumer], seen: list[bytes]) -> None:
    """Let the consumers read until the condition holds."""
    give_up_at = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < give_up_at, f"still waiting, with {len(seen)} orders read"
        for each in consumers:
            for message in each.consume(100, timeout=0.05):
                assert message.error() is None
                seen.append(message.value() or b"")


def share(consumers: Sequence[Consumer]) -> list[int]:
    return sorted(len(each.assignment()) for each in consumers)


def with_topic(cluster: Cluster) -> None:
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(TOPIC, partitions=PARTITIONS)


def produce(cluster: Cluster, numbers: range) -> list[bytes]:
    values = [str(number).encode() for number in numbers]
    cluster.produce(TOPIC, values)
    return values


def test_two_consumers_share_the_orders() -> None:
    with Cluster() as cluster, ExitStack() as stack:
        with_topic(cluster)
        sent = produce(cluster, range(100))
        seen: list[bytes] = []
        consumers = [stack.enter_context(consumer(cluster, "consumer")) for _ in range(2)]
        poll_until(lambda: share(consumers) == [2, 2] and len(seen) >= len(sent), consumers, seen)
        assert sorted(seen) == sorted(sent)


def test_a_rolling_restart_changes_the_protocol_and_no_order_is_missed() -> None:
    with Cluster() as cluster, ExitStack() as stack:
        with_topic(cluster)
        seen: list[bytes] = []
        sent = produce(cluster, range(100))
        with consumer(cluster, "classic") as former:
            poll_until(lambda: len(seen) >= len(sent), [former], seen)
            successor = stack.enter_context(consumer(cluster, "consumer"))
            poll_until(lambda: share([former, successor]) == [2, 2], [former, successor], seen)
            sent += produce(cluster, range(100, 200))
            poll_until(lambda: set(sent) <= set(seen), [former, successor], seen)
        poll_until(lambda: share([successor]) == [PARTITIONS], [successor], seen)
        sent += produce(cluster, range(200, 300))
        poll_until(lambda: set(sent) <= set(seen), [successor], seen)
        with ottla.Admin(cluster.bootstrap) as admin:
            assert admin.groups.list()[0].type == "consumer"
