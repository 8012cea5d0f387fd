"""aiokafka at full speed, producing or consuming. Prints one JSON object."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from typing import Any, Final

import aiokafka

LIMIT_S: Final = 120.0
_AT_ONCE: Final = 10_000


async def produce(given: argparse.Namespace) -> float:
    """Seconds from the first record to the last acknowledgement."""
    value = random.Random(7).randbytes(given.size)
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=given.bootstrap, acks=1, linger_ms=5, max_batch_size=64 * 1024
    )
    await producer.start()
    try:
        await producer.send_and_wait(given.topic, value)
        began = time.monotonic()
        for first in range(0, given.records, _AT_ONCE):
            count = min(_AT_ONCE, given.records - first)
            waiting = [await producer.send(given.topic, value) for _ in range(count)]
        await asyncio.gather(*waiting)
        await producer.flush()
        return time.monotonic() - began
    finally:
        await producer.stop()


async def consume(given: argparse.Namespace) -> float:
    """Seconds from the start of reading to the last record."""
    consumer = aiokafka.AIOKafkaConsumer(
        given.topic, bootstrap_servers=given.bootstrap, auto_offset_reset="earliest", check_crcs=False
    )
    await consumer.start()
    try:
        return await (_many(consumer, given.records) if given.many else _one_by_one(consumer, given.records))
    finally:
        await consumer.stop()


async def _one_by_one(consumer: Any, records: int) -> float:
    """As loadtest.rows.consume does it: key and value of each are touched."""
    count = size_bytes = 0
    began = time.monotonic()
    async for record in consumer:
        if record.key is not None:
            size_bytes += len(record.key)
        size_bytes += len(record.value)
        count += 1
        if count == records:
            break
    return time.monotonic() - began


async def _many(consumer: Any, records: int) -> float:
    count = 0
    began = time.monotonic()
    while count < records:
        got = await consumer.getmany(timeout_ms=1000)
        count += sum(map(len, got.values()))
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--consume", action="store_true")
    parser.add_argument("--many", action="store_true", help="consume by getmany()")
    given = parser.parse_args()
    action = consume if given.consume else produce
    seconds = asyncio.run(asyncio.wait_for(action(given), LIMIT_S))
    print(json.dumps({"records_s": given.records / seconds, "records": given.records, "seconds": round(seconds, 3)}))


if __name__ == "__main__":
    main()
