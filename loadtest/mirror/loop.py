"""A loop that consumes a topic of one cluster and produces it to another, as a program without a mirror would do it:
each record with its key, headers and timestamp into its own partition, at least once. It goes on until it is ended.
"""

from __future__ import annotations

import argparse
import time
from typing import Final

import ottla

_COMMIT_S: Final = 1.0
_MOST: Final = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("topic")
    parser.add_argument("copy")
    given = parser.parse_args()
    with (
        ottla.Producer(given.target, topic=given.copy, key="bytes", value="bytes") as producer,
        ottla.Consumer(
            given.topic,
            bootstrap=given.source,
            group=given.copy,
            auto_offset_reset="earliest",
            commit="manual",
            key="bytes",
            value="bytes",
        ) as consumer,
    ):
        commit_at, send = time.monotonic() + _COMMIT_S, producer.send
        for batch in consumer.batches(max_records=_MOST):
            for record in batch:
                send(
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    headers=record.headers or None,
                    timestamp=record.timestamp,
                )
            if time.monotonic() > commit_at:
                producer.flush()
                consumer.commit()
                commit_at = time.monotonic() + _COMMIT_S


if __name__ == "__main__":
    main()
