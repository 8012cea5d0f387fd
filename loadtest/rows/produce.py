"""One producer at full speed: records/s from the first `send` to the last acknowledgement. Prints one JSON object."""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from typing import Final, Literal

import ottla

_ACKS: Final[dict[str, Literal["all", 1, 0]]] = {"all": "all", "1": 1, "0": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--keys", type=int, default=0, help="that many distinct keys; 0: none")
    parser.add_argument("--acks", choices=_ACKS, default="1")
    parser.add_argument(
        "--idempotent", action="store_true", help="with acks=all only; without it, each batch may repeat"
    )
    given = parser.parse_args()
    value = random.Random(7).randbytes(given.size)
    keys = [b"key-%08d" % n for n in range(given.keys)]
    with ottla.Producer(
        given.bootstrap,
        topic=given.topic,
        acks=_ACKS[given.acks],
        enable_idempotence=given.idempotent,
        key="bytes",
        value="bytes",
    ) as producer:
        producer.send(value).result(timeout=30)
        began, cpu = time.monotonic(), time.process_time()
        send = producer.send
        if keys:
            count = len(keys)
            for n in range(given.records):
                send(value, key=keys[n % count])
        else:
            for _ in range(given.records):
                send(value)
        producer.flush()
        seconds = time.monotonic() - began
    print(
        json.dumps(
            {
                "records_s": round(given.records / seconds),
                "mb_s": round(given.records * given.size / seconds / 1e6, 1),
                "seconds": round(seconds, 3),
                "client_cpu_s": round(time.process_time() - cpu, 2),
                "client_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
            }
        )
    )


if __name__ == "__main__":
    main()
