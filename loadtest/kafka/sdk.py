"""The SDK against Python's other Kafka clients, on one broker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Final

from loadtest.kafka.comparison import Figure, Goal, Pair
from loadtest.kafka.sides import Side
from loadtest.kafka.traffic import observed
from loadtest.programs import Program

SHARE: Final = 0.5  # of the records that are asked for: aiokafka is slow


@dataclass(frozen=True, slots=True)
class Contest:
    """The SDK's program, with its arguments, against another client's, with its own."""

    figure: Figure
    sdk: Program
    other: Program
    options: tuple[str, ...] = ()
    consumes: bool = False
    arguments: tuple[str, ...] = ()


CONTESTS: Final = (
    Contest(Figure("sdk_produce_aiokafka", "produce, aiokafka", Goal(least=3)), "rows.produce", "kafka.aio"),
    Contest(
        Figure("sdk_produce_confluent", "… confluent-kafka's produce()", Goal(least=0.5)),
        "rows.produce",
        "kafka.produce",
        ("--each",),
    ),
    Contest(
        Figure("sdk_consume_aiokafka", "consume, aiokafka", Goal(least=2)),
        "rows.consume",
        "kafka.aio",
        ("--consume",),
        consumes=True,
    ),
    Contest(
        Figure("sdk_batches_aiokafka", "… by batches(), aiokafka's getmany()", Goal(least=2)),
        "rows.consume",
        "kafka.aio",
        ("--consume", "--many"),
        consumes=True,
        arguments=("--batches",),
    ),
)


def measure(contest: Contest, side: Side, pairs: int, records: int) -> list[Pair]:
    """One pair more is run before, and thrown away."""
    count = round(records * SHARE)
    pair = partial(_consumed if contest.consumes else _produced, contest, side, count)
    try:
        if contest.consumes:
            side.create_topic(contest.figure.key)
            observed(side, "rows.produce", side.bootstrap, "--topic", contest.figure.key, "--records", str(count))
        return [pair(number) for number in range(pairs + 1)][1:]
    finally:
        side.delete_topics()


def _produced(contest: Contest, side: Side, count: int, number: int) -> Pair:
    def arguments(who: str) -> tuple[str, ...]:
        topic = f"{contest.figure.key}-{who}-{number}"
        side.create_topic(topic)
        os.sync()
        return ("--topic", topic, "--records", str(count))

    ours = observed(side, contest.sdk, side.bootstrap, *arguments("sdk"))
    theirs = observed(side, contest.other, side.bootstrap, *arguments("other"), *contest.options)
    return {"records": count, **ours}, theirs


def _consumed(contest: Contest, side: Side, count: int, _number: int) -> Pair:
    topic = ("--topic", contest.figure.key)
    ours = observed(side, contest.sdk, side.bootstrap, *topic, *contest.arguments)
    theirs = observed(side, contest.other, side.bootstrap, *topic, "--records", str(count), *contest.options)
    return {"records": count, **ours}, theirs
