"""One ottla.aio.Producer at full speed: an awaited future a record, or `send_many`. Prints one JSON object."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import time
from collections import deque
from collections.abc import Awaitable

import ottla.aio


async def produce(given: argparse.Namespace) -> float:
    """Seconds from the first record to the last acknowledgement."""
    value = random.Random(7).randbytes(given.size)
    async with ottla.aio.Producer(given.bootstrap, topic=given.topic, acks=1, key="bytes", value="bytes") as producer:
        await producer.send(value)
        began = time.monotonic()
        if given.many:
            for _ in range(given.records // given.window):
                assert await producer.send_many([value] * given.window), "all are delivered"
        else:
            waiting: deque[Awaitable[object]] = deque()
            for _ in range(given.records):
                waiting.append(producer.send(value))
                if len(waiting) == given.window:
                    await waiting.popleft()
            for sending in waiting:
                await sending
        return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--window", type=int, default=20_000, help="records that are under way at a time")
    parser.add_argument("--many", action="store_true", help="send_many instead of a future a record")
    given = parser.parse_args()
    seconds = asyncio.run(produce(given))
    print(
        json.dumps(
            {
                "records_s": round(given.records / seconds),
                "seconds": round(seconds, 3),
                "client_cpu_s": round(time.process_time(), 2),
                "client_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
            }
        )
    )


if __name__ == "__main__":
    main()
