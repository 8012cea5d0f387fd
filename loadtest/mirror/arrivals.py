"""A reader of a copy: how long after they were produced records come. Prints one JSON object.

By whole batches, which costs the machine little: each of a batch's records counts as late as its first one. Times are
those of the producer, in milliseconds, on this machine's clock.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import accumulate
from typing import Final

import ottla
from loadtest.mirror.sites import PARTITIONS
from ottla.connect import BatchReader
from ottla_core.records.batch import iter_headers

_LIMIT_S: Final = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    given = parser.parse_args()
    lags: list[tuple[float, int]] = []
    left, give_up_at = given.records, time.monotonic() + _LIMIT_S
    reader = BatchReader(given.bootstrap)
    for partition in range(PARTITIONS):
        reader.assign(ottla.TopicPartition(given.topic, partition))
    while left > 0 and time.monotonic() < give_up_at:
        fetched, now_ms = reader.poll(1.0), time.time() * 1000
        for _, header in iter_headers(memoryview(fetched.records)) if fetched else ():
            if not header.is_control:
                lags.append((now_ms - header.base_timestamp, header.record_count))
                left -= header.record_count
    reader.close()
    lags.sort()
    p50, p99 = (at_share(lags, share) for share in (0.5, 0.99))
    print(json.dumps({"records": given.records - left, "p50_ms": p50, "p99_ms": p99, "most_ms": lags[-1][0]}))


def at_share(lags: list[tuple[float, int]], share: float) -> float:
    """The lag that this share of the records has at most; `lags` are sorted, each with its count of records."""
    counts = list(accumulate(count for _, count in lags))
    return next(lag for (lag, _), upto in zip(lags, counts, strict=True) if upto >= share * counts[-1])


if __name__ == "__main__":
    main()
