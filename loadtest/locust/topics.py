"""The topics of the load tests, and what has to be in them before anybody reads."""

from __future__ import annotations

import time
from itertools import islice
from typing import Final, NamedTuple

import ottla
from loadtest.rows.clients import Reach, new_producer
from ottla.bench.payload import keys, values

PRODUCE: Final = "load-produce"
END_TO_END: Final = "load-end-to-end"
REPLAY: Final = "load-replay"
CHURN: Final = "load-churn"

PARTITIONS: Final = 6
REPLAY_RECORDS: Final = 50_000
_TIMEOUT_S: Final = 10.0
_COPY_S: Final = 30.0
_LOOK_S: Final = 0.1
_BOUNDED: Final = {"segment.bytes": "16MiB", "retention.bytes": "64MiB"}
"""However long a test is, its topics stay small, and retention works while it runs."""


class Copies(NamedTuple):
    """Another cluster, where a mirror keeps copies of these topics under the alias of this one."""

    alias: str
    bootstrap: str

    @property
    def reach(self) -> Reach:
        return Reach(self.bootstrap)

    def copy(self, topic: str) -> str:
        return f"{self.alias}.{topic}"


def parse_copies(text: str) -> Copies:
    """Parse `ALIAS@HOST:PORT`. Raises ValueError."""
    alias, _, bootstrap = text.partition("@")
    if not alias or not bootstrap:
        raise ValueError(f"{text!r} is not ALIAS@HOST:PORT")
    return Copies(alias, bootstrap)


def wait_for_copy(copies: Copies) -> None:
    """Until the copy is there that is read. Raises OttlaError where no mirror makes it in time."""
    name, give_up_at = copies.copy(END_TO_END), time.monotonic() + _COPY_S
    with ottla.Admin(copies.bootstrap, request_timeout=_TIMEOUT_S) as admin:
        while not admin.topics.exists(name):
            if time.monotonic() > give_up_at:
                raise ottla.FatalError(
                    ottla.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"there is no {name} at {copies.bootstrap}",
                    hint="start a mirror with a flow to it",
                )
            time.sleep(_LOOK_S)


def prepare(reach: Reach) -> None:
    """Make what is missing. The topic to be replayed is filled once."""
    with ottla.Admin(reach.bootstrap, request_timeout=_TIMEOUT_S, config=reach.config) as admin:
        for name in (PRODUCE, END_TO_END, CHURN):
            admin.topics.create(name, partitions=PARTITIONS, config=_BOUNDED, if_exists="ok")
        admin.topics.create(REPLAY, partitions=PARTITIONS, if_exists="ok")
        there = sum(offset or 0 for offset in admin.topics.offsets(REPLAY).values())
    with new_producer(reach, REPLAY) as producer:
        for value, key in islice(zip(values(100), keys(1_000), strict=False), max(0, REPLAY_RECORDS - there)):
            producer.send(value, key=key)
