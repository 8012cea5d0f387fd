"""Measures how long a transaction over 800 partitions takes to be acknowledged, and what is written about it.

librdkafka's producer runs on both sides. What the transaction takes in `__transaction_state` is measured with the
SDK's, whose partitions are added by the broker as their first batches arrive (transactions v2).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from peers.kafka.server import KafkaServer

import ottla
from loadtest.kafka.comparison import Figure, Goal, Pair, in_turn
from loadtest.kafka.sides import Side, side_of
from loadtest.kafka.traffic import observed
from loadtest.programs import run
from ottla_stack.running import RunningStack

KEY: Final = "txn_800"
PARTITIONS: Final = 800
MOST_BYTES: Final = 300

FLUSH: Final = Figure(
    "flush", "a transaction over 800 partitions, first send to flush", Goal(most=1.5), "flush_ms", "ms"
)
STATE: Final = Figure(
    "state_bytes", "__transaction_state a partition of a transaction over 800", Goal(most=1), "bytes", "bytes"
)
_CREATE_LIMIT_S: Final = 300.0
"""A busy machine needs minutes for the files of 800 partitions."""


def measure(directory: Path, pairs: int) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs of `FLUSH` and those of `STATE`, which compares ottla with a bound."""
    with (
        RunningStack(directory / "ottla", brokers=1, group_coordinators=1, txn_coordinators=1) as stack,
        KafkaServer(directory / "kafka") as kafka,
    ):
        sides = side_of(stack), Side("kafka", kafka.bootstrap, tuple(kafka.pids))
        for side in sides:
            side.create_topic(KEY, PARTITIONS, limit_s=_CREATE_LIMIT_S)
        flushes = in_turn(sides, pairs, _once)
        states = [({"bytes": _state_bytes(stack, number)}, {"bytes": MOST_BYTES}) for number in range(pairs)]
    return flushes, states


def _once(side: Side, number: int) -> dict[str, Any]:
    os.sync()  # so that no side runs while the disk still writes what the other side has left
    return observed(side, "kafka.wide_transaction", side.bootstrap, *_of(f"{KEY}-{number}"))


def _state_bytes(stack: RunningStack, number: int) -> float:
    before = _size_bytes(stack)
    run("kafka.wide_transaction", stack.bootstrap, *_of(f"{KEY}-sdk-{number}"), "--client", "sdk")
    return (_size_bytes(stack) - before) / PARTITIONS


def _of(transactional_id: str) -> tuple[str, ...]:
    return ("--topic", KEY, "--partitions", str(PARTITIONS), "--transactional-id", transactional_id)


def _size_bytes(stack: RunningStack) -> int:
    """Return the size of all logs of `__transaction_state` on the disk."""
    with ottla.Admin(stack.bootstrap) as admin:
        (topic,) = admin.topics.describe("__transaction_state", internal=True)
    logs = [path for folder in stack.directory.rglob(f"{topic.id}-*") for path in folder.glob("*.log")]
    assert logs, "the topic has logs below this directory"
    return sum(path.stat().st_size for path in logs)
