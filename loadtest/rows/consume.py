"""One consumer from the earliest offset to the end: records/s, record by record or by whole batches."""

from __future__ import annotations

import argparse
import json
import time

import ottla


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--batches", action="store_true", help="whole batches, not record by record")
    given = parser.parse_args()
    options = {"bootstrap": given.bootstrap, "start": "earliest", "stop": "end", "key": "bytes", "value": "bytes"}
    with ottla.Consumer(given.topic, **options) as consumer:
        began, cpu, count, size = time.monotonic(), time.process_time(), 0, 0
        if given.batches:
            for batch in consumer.batches(max_records=100_000):
                count += len(batch)
        else:
            for record in consumer:
                if record.key is not None:
                    size += len(record.key)
                size += len(record.value)
                count += 1
        seconds = time.monotonic() - began
    print(
        json.dumps(
            {
                "records_s": round(count / seconds),
                "records": count,
                "seconds": round(seconds, 3),
                "client_cpu_s": round(time.process_time() - cpu, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
