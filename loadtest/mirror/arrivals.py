"""A reader of a copy: how long after it was produced each record comes. Prints one JSON object.

The time of a record is that of its producer, in milliseconds, on this machine's clock.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Final

import ottla

_LIMIT_S: Final = 120.0
_MOST: Final = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    given = parser.parse_args()
    lags_ms: list[float] = []
    give_up_at = time.monotonic() + _LIMIT_S
    with ottla.Consumer(
        given.topic, bootstrap=given.bootstrap, start="earliest", key="bytes", value="bytes"
    ) as consumer:
        while len(lags_ms) < given.records and time.monotonic() < give_up_at:
            columns: dict[str, list[int]] = {"timestamp": []}
            consumer.poll(1.0, max_records=_MOST).extend(columns)
            now_ms = time.time() * 1000
            lags_ms += [now_ms - at_ms for at_ms in columns["timestamp"]]
    lags_ms.sort()
    p50, p99 = (lags_ms[int(share * (len(lags_ms) - 1))] for share in (0.5, 0.99))
    print(json.dumps({"records": len(lags_ms), "p50_ms": p50, "p99_ms": p99, "most_ms": lags_ms[-1]}))


if __name__ == "__main__":
    main()
