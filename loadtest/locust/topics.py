"""The topics of the load tests, and what has to be in them before anybody reads."""

from __future__ import annotations

from itertools import islice
from typing import Final

import ottla
from ottla.bench.payload import keys, values

PRODUCE: Final = "load-produce"
END_TO_END: Final = "load-end-to-end"
REPLAY: Final = "load-replay"
CHURN: Final = "load-churn"

PARTITIONS: Final = 6
REPLAY_RECORDS: Final = 50_000
_TIMEOUT_S: Final = 10.0
_BOUNDED: Final = {"segment.bytes": "16MiB", "retention.bytes": "64MiB"}
"""However long a test is, its topics stay small, and retention works while it runs."""


def prepare(bootstrap: str | None) -> None:
    """Make what is missing. The topic to be replayed is filled once."""
    with ottla.Admin(bootstrap, request_timeout=_TIMEOUT_S) as admin:
        for name in (PRODUCE, END_TO_END, CHURN):
            admin.topics.create(name, partitions=PARTITIONS, config=_BOUNDED, if_exists="ok")
        admin.topics.create(REPLAY, partitions=PARTITIONS, if_exists="ok")
        there = sum(offset or 0 for offset in admin.topics.offsets(REPLAY).values())
    with ottla.Producer(bootstrap, topic=REPLAY, key="bytes", value="bytes") as producer:
        for value, key in islice(zip(values(100), keys(1_000), strict=False), max(0, REPLAY_RECORDS - there)):
            producer.send(value, key=key)
