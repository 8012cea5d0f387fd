"""librdkafka's transactional producers at full speed, one or many at once. Prints one JSON object.

The clock runs from the moment when every producer has committed one transaction to the last commit of all. A commit is
timed when its records are acknowledged: the offsets, where they are part of it, and the decision.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

LIMIT_S: Final = 120.0


class Transactions:
    """One producer's transactions of `at_once` records each, over all partitions; with a group, also an offset."""

    def __init__(self, given: argparse.Namespace, number: int) -> None:
        name = f"{given.topic}-{number}"
        self._topic: Final = given.topic
        self._producer: Final = Producer({"bootstrap.servers": given.bootstrap, "transactional.id": name})
        count = len(self._producer.list_topics(given.topic, LIMIT_S).topics[given.topic].partitions)
        own = [number % count] if given.one_partition else range(count)
        value = random.Random(7).randbytes(given.size)
        shares = {
            partition: given.at_once // len(own) + (n < given.at_once % len(own)) for n, partition in enumerate(own)
        }
        self._records: Final = {
            partition: [{"value": value} for _ in range(share)] for partition, share in shares.items()
        }
        self._group: Final = (
            Consumer({"bootstrap.servers": given.bootstrap, "group.id": name}) if given.offsets else None
        )
        self._producer.init_transactions(LIMIT_S)

    def run(self, count: int, together: Barrier) -> tuple[float, float, list[float]]:
        """When it began and when all was committed, on the machine's monotonic clock; seconds of each commit."""
        self._one(0)
        together.wait(LIMIT_S)
        began = time.monotonic()
        commits = [self._one(n + 1) for n in range(count)]
        return began, time.monotonic(), commits

    def _one(self, number: int) -> float:
        producer = self._producer
        producer.begin_transaction()
        for partition, records in self._records.items():
            taken = producer.produce_batch(self._topic, records, partition=partition, on_delivery=_on_delivery)
            assert taken == len(records), "there was room for all"
        if producer.flush(LIMIT_S):
            raise TimeoutError(f"records were not acknowledged within {LIMIT_S:g} s")
        began = time.monotonic()
        if self._group is not None:
            metadata = self._group.consumer_group_metadata()
            producer.send_offsets_to_transaction([TopicPartition(self._topic, 0, number)], metadata, LIMIT_S)
        producer.commit_transaction(LIMIT_S)
        return time.monotonic() - began


def _on_delivery(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=1_000, help="records of a transaction")
    parser.add_argument("--producers", type=int, default=1, help="threads that share the records")
    parser.add_argument("--one-partition", action="store_true", help="each producer writes to one of its own")
    parser.add_argument("--offsets", action="store_true", help="each commits an offset of a group, too")
    given = parser.parse_args()
    each = max(1, given.records // (given.at_once * given.producers))
    together = Barrier(given.producers)
    with ThreadPoolExecutor(given.producers) as pool:
        producers = list(pool.map(lambda number: Transactions(given, number), range(given.producers)))
        runs = list(pool.map(lambda producer: producer.run(each, together), producers))
    seconds = max(ended for _, ended, _ in runs) - min(began for began, _, _ in runs)
    count = each * given.producers
    found = {
        "records_s": count * given.at_once / seconds,
        "transactions_s": count / seconds,
        "commit_p50_ms": statistics.median(took for _, _, commits in runs for took in commits) * 1000,
        "records": count * given.at_once,
        "seconds": round(seconds, 3),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
