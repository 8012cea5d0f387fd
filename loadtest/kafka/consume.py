"""librdkafka's consumer from the earliest offset until it has all records. Prints one JSON object.

The clock runs from the first records that arrive, which are not counted.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Final

import confluent_kafka

from loadtest.kafka.settings import setting

LIMIT_S: Final = 120.0
_AT_ONCE: Final = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--config", type=setting, action="append", default=[], help="librdkafka's NAME=VALUE")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--size", type=int, default=100)
    given = parser.parse_args()
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": given.bootstrap,
            **dict(given.config),
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": False,
            # Without these two its own queue limits the rate, whoever the server is.
            "fetch.queue.backoff.ms": 5,
            "queued.min.messages": 1_000_000,
        }
    )
    partitions = consumer.list_topics(given.topic, LIMIT_S).topics[given.topic].partitions
    earliest = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(given.topic, number, earliest) for number in partitions])
    records = size_bytes = first = 0
    began, give_up_at = 0.0, time.monotonic() + LIMIT_S
    while records < given.records:
        messages = consumer.consume(_AT_ONCE, 1.0)
        records += len(messages)
        size_bytes += sum(map(len, messages))
        if not began and messages:
            began, first = time.monotonic(), records
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{records} of {given.records} records in {LIMIT_S:g} s")
    seconds = time.monotonic() - began
    consumer.close()
    assert size_bytes == records * given.size, "values, not errors"
    print(json.dumps({"records_s": (records - first) / seconds, "records": records, "seconds": round(seconds, 3)}))


if __name__ == "__main__":
    main()
