"""From `produce()` to the consumer's hands at low load, both of librdkafka in one process. Prints one JSON object."""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import time
from threading import Thread
from typing import Final

import confluent_kafka

LIMIT_S: Final = 60.0
_WARM_UP: Final = 100
_PAYLOAD: Final = struct.Struct(">q92x")
"""100 bytes that begin with when they were sent, in ns."""


def send(producer: confluent_kafka.Producer, topic: str, count: int, every_s: float) -> None:
    """On a schedule: a slow server does not make the load lower."""
    began = time.monotonic()
    for n in range(count):
        time.sleep(max(0.0, began + n * every_s - time.monotonic()))
        producer.produce(topic, _PAYLOAD.pack(time.monotonic_ns()))
        producer.poll(0)
    producer.flush(LIMIT_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", required=True, help="of one partition, empty")
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--size", type=int, default=_PAYLOAD.size, choices=[_PAYLOAD.size])
    parser.add_argument("--rate", type=float, default=200, help="records/s")
    parser.add_argument("--acks", choices=["1", "all"], default="1")
    given = parser.parse_args()
    common = {"bootstrap.servers": given.bootstrap}
    consumer = confluent_kafka.Consumer({**common, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(given.topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    producer = confluent_kafka.Producer({**common, "acks": given.acks, "linger.ms": 0})
    count = _WARM_UP + given.records
    sending = Thread(target=send, args=(producer, given.topic, count, 1 / given.rate), daemon=True)
    sending.start()
    taken_ms: list[float] = []
    give_up_at = time.monotonic() + LIMIT_S + count / given.rate
    while len(taken_ms) < count:
        message = consumer.poll(1.0)
        if message is not None:
            value = message.value()
            assert message.error() is None, message.error()
            assert isinstance(value, bytes), "as it was sent"
            taken_ms.append((time.monotonic_ns() - _PAYLOAD.unpack(value)[0]) / 1e6)
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{len(taken_ms)} of {count} records arrived")
    sending.join()
    consumer.close()
    percentiles = statistics.quantiles(taken_ms[_WARM_UP:], n=100)
    print(json.dumps({"p50_ms": percentiles[49], "p99_ms": percentiles[98], "records": count}))


if __name__ == "__main__":
    main()
