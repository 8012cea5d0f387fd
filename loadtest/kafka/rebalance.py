"""A group of the consumer protocol (KIP-848) with 100 members, one of them slow: how long it and the others wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from peers.go.driver import franz_go
from peers.kafka.server import KafkaServer

import ottla
from loadtest.kafka.comparison import Figure, Goal, Pair, in_turn
from loadtest.kafka.sides import Side, side_of
from ottla_stack.running import RunningStack

FIGURES: Final = (
    Figure("rebalance", "time until 100 new members share 1,000 partitions", Goal(most=1.05), "stable_s", "s"),
    Figure("rebalance_again", "… until 10 more share them, while one gives up slowly", Goal(most=1.05), "again_s", "s"),
    Figure(
        "rebalance_pause",
        "… longest time without a record for another member",
        Goal(own=Goal(most=1.0)),
        "pause_s",
        "s",
    ),
)
_MEMBERS: Final = 100
_PARTITIONS: Final = 1_000
_SLOW_MS: Final = 5_000
_CONFIGS: Final = {
    "group.consumer.min.heartbeat.interval.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 1_000,
}


def measure(directory: Path, pairs: int) -> list[Pair]:
    """Each run has a topic and a group of its own."""
    driver = franz_go()

    def once(side: Side, number: int) -> dict[str, float]:
        topic = f"rebalanced-{number}"
        side.create_topic(topic, _PARTITIONS)
        try:
            return driver.rebalance(
                side.bootstrap,
                topic,
                f"group-of-{topic}",
                partitions=_PARTITIONS,
                count=_MEMBERS,
                slow_ms=_SLOW_MS,
            )
        finally:
            side.delete_topics()

    with _both_sides(directory / "rebalance") as sides:
        return in_turn(sides, pairs, once)


@contextmanager
def _both_sides(directory: Path) -> Iterator[tuple[Side, Side]]:
    """Both have a heartbeat interval of one second."""
    with (
        RunningStack(directory / "ottla", brokers=1, group_coordinators=1) as stack,
        KafkaServer(directory / "kafka", settings=_CONFIGS) as kafka,
    ):
        with ottla.Admin(stack.bootstrap) as admin:
            admin.configs.set(dict(_CONFIGS))
        yield side_of(stack), Side("kafka", kafka.bootstrap, tuple(kafka.pids))
