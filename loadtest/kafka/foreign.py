"""ottla's SDK, Spark source and mirror with Apache Kafka, each against what Kafka's users have without ottla."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from peers.kafka.server import KafkaServer
from peers.spark.session import spark

from loadtest.kafka import sdk
from loadtest.kafka.comparison import Figure, Goal, Pair, in_turn
from loadtest.kafka.sdk import Contest
from loadtest.kafka.sides import Side
from loadtest.mirror.copying import TOPIC, once
from loadtest.mirror.sites import sites_of_kafka
from loadtest.spark import rates
from loadtest.spark.sides import Side as SparkSide

KEY: Final = "foreign"
_SPARK_READ: Final = Figure("foreign_spark_read", "Spark reads, its own Kafka source", Goal(least=2))
_MIRROR: Final = Figure("foreign_mirror", "Kafka to Kafka, MirrorMaker 2", Goal(least=3))
_AT_LEAST_FOUR: Final = Goal(least=4)


def _with_kafka(contest: Contest) -> Contest:
    key = contest.figure.key.replace("sdk", KEY, 1)
    return replace(contest, figure=replace(contest.figure, key=key, goal=_AT_LEAST_FOUR))


_CONTESTS: Final = tuple(_with_kafka(contest) for contest in sdk.CONTESTS if contest.other == "kafka.aio")


def _contest(contest: Contest, directory: Path, pairs: int, records: int) -> list[Pair]:
    with KafkaServer(directory / contest.figure.key) as kafka:
        return sdk.measure(contest, Side("kafka", kafka.bootstrap, tuple(kafka.pids)), pairs, records)


def _spark_read(directory: Path, pairs: int, records: int) -> list[Pair]:
    """One task at a time, as `make bench-spark` has it."""
    with KafkaServer(directory / "spark") as kafka, spark(1) as session:
        sides = SparkSide("ottla", kafka.bootstrap), SparkSide("kafka", kafka.bootstrap)
        rates.fill(sides[0], TOPIC, records)
        return rates.measure_reads(session, sides, pairs + rates.WARM_UP_PAIRS, TOPIC)[rates.WARM_UP_PAIRS :]


def _mirror(directory: Path, pairs: int, records: int) -> list[Pair]:
    folder = directory / "mirror"
    folder.mkdir()
    with sites_of_kafka(folder) as sites:
        count = sites.fill(TOPIC, records)
        runs = in_turn(("mirror", "mm2"), pairs, lambda name, number: once(sites, folder, name, number))
    return [({"records": count, **ours}, {"records": count, **theirs}) for ours, theirs in runs]


MEASURES: Final[Mapping[Figure, Callable[[Path, int, int], list[Pair]]]] = MappingProxyType(
    {
        **{contest.figure: partial(_contest, contest) for contest in _CONTESTS},
        _SPARK_READ: _spark_read,
        _MIRROR: _mirror,
    }
)
"""How each figure is measured: in this folder, so many pairs, with so many records at 100 B."""
