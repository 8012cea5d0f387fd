"""A producer at a given rate, for a given time. Prints one JSON object."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, Final

import ottla

_SIZE: Final = 100
_TURN_S: Final = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=float, required=True, help="records a second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--alone", action="store_true", help="each record is a batch")
    given = parser.parse_args()
    value, sent, total = b"v" * _SIZE, 0, round(given.rate * given.seconds)
    more: dict[str, Any] = {"batch_size": 1} if given.alone else {}
    with ottla.Producer(given.bootstrap, topic=given.topic, key="bytes", value="bytes", **more) as producer:
        began_at = time.monotonic()
        while sent < total:
            due = min(total, round((time.monotonic() - began_at) * given.rate))
            for _ in range(due - sent):
                producer.send(value)
            sent = max(sent, due)
            time.sleep(_TURN_S)
        producer.flush()
        seconds = time.monotonic() - began_at
    print(json.dumps({"records": sent, "records_s": sent / seconds, "seconds": round(seconds, 3)}))


if __name__ == "__main__":
    main()
