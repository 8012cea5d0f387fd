"""Two clusters on this machine, `east` and `west`: what is written to the one is to be copied into the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from peers.kafka.server import KafkaServer

import ottla
from loadtest.programs import run
from loadtest.rows.footprint import cpu_seconds
from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb

PARTITIONS: Final = 6
LIMIT_S: Final = 180.0
_LOOK_S: Final = 0.02


class Look(NamedTuple):
    """How many records a copy had, and what the copying process had used by then."""

    at_s: float
    records: int
    cpu_s: float
    resident_mb: float


@dataclass(frozen=True)
class Sites:
    """Each by the addresses of its brokers. `source` is an administrator of the one, `target` of the other."""

    east: str
    west: str
    source: ottla.Admin
    target: ottla.Admin

    def fill(self, topic: str, records: int) -> int:
        """A topic in east of so many records of 100 B; how many it has."""
        self.source.topics.create(topic, partitions=PARTITIONS, config={"retention.ms": "-1"})
        run(
            "rows.produce",
            self.east,
            "--topic",
            topic,
            "--records",
            str(records),
            "--idempotent",
            "--acks",
            "all",
        )
        return records_in(self.source, topic)

    def follow(self, copy: str, records: int, pid: int) -> list[Look]:
        """The growth of a copy in west from its first records to all of them, by that process.

        Raises TimeoutError where they are not there in time.
        """
        give_up_at = time.monotonic() + LIMIT_S
        looks: list[Look] = []
        while not looks or looks[-1].records < records:
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{copy} has {looks[-1].records if looks else 0} of {records} records")
            try:
                found = records_in(self.target, copy)
            except ottla.UnknownTopicError:
                found = 0
            if found:
                looks.append(Look(time.monotonic(), found, cpu_seconds(pid), resident_mb(pid)))
            time.sleep(_LOOK_S)
        return looks


def records_in(admin: ottla.Admin, topic: str) -> int:
    """By its offsets: for topics without transactions."""
    return sum(offset or 0 for offset in admin.topics.offsets(topic).values())


@contextmanager
def both_sites(directory: Path) -> Iterator[Sites]:
    """Each of one broker and one coordinator of each kind."""
    start = partial(RunningStack, brokers=1, group_coordinators=1, txn_coordinators=1)
    with (
        start(directory / "east") as east,
        start(directory / "west") as west,
        _administered(east.bootstrap, west.bootstrap) as sites,
    ):
        yield sites


@contextmanager
def sites_of_kafka(directory: Path) -> Iterator[Sites]:
    """Each is a node of Apache Kafka."""
    with (
        KafkaServer(directory / "east") as east,
        KafkaServer(directory / "west") as west,
        _administered(east.bootstrap, west.bootstrap) as sites,
    ):
        yield sites


@contextmanager
def _administered(east: str, west: str) -> Iterator[Sites]:
    with ottla.Admin(east) as source, ottla.Admin(west) as target:
        yield Sites(east, west, source, target)
