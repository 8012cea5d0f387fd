"""librdkafka from topic to topic, exactly once: a loop for each partition, a transaction for each batch of records that
is read, with its offset. Prints one JSON object.

The clock runs from the moment when every loop has committed its first batch to the last commit of all.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

LIMIT_S: Final = 120.0


class Loop:
    """A loop that reads one partition and writes its values in upper case."""

    def __init__(self, given: argparse.Namespace, partition: int, output: str) -> None:
        common = {"bootstrap.servers": given.bootstrap}
        name = f"{output}-{partition}"
        self._output: Final = output
        self._partition: Final = partition
        self._batch: Final = given.batch
        self._consumer: Final = Consumer({**common, "group.id": name, "enable.auto.commit": False, "check.crcs": False})
        _, self._left = self._consumer.get_watermark_offsets(TopicPartition(given.topic, partition), LIMIT_S)
        self._consumer.assign([TopicPartition(given.topic, partition, OFFSET_BEGINNING)])
        self._producer: Final = Producer({**common, "transactional.id": name})
        self._producer.init_transactions(LIMIT_S)

    def run(self, together: Barrier) -> tuple[float, float, int]:
        """When it began and when all was committed, on the machine's monotonic clock; the records of that time."""
        if self._left:  # librdkafka need not have filled every partition
            self._one()
        together.wait(LIMIT_S)
        began, records = time.monotonic(), self._left
        while self._left:
            self._one()
        ended = time.monotonic()
        self._consumer.close()
        return began, ended, records

    def _one(self) -> None:
        messages = self._consumer.consume(min(self._batch, self._left), LIMIT_S)
        values = [value.upper() for message in messages if isinstance(value := message.value(), bytes)]
        if not values or len(values) < len(messages):
            raise TimeoutError(f"{self._left} records of partition {self._partition} did not come within {LIMIT_S:g} s")
        producer = self._producer
        producer.begin_transaction()
        producer.produce_batch(self._output, [{"value": value} for value in values], partition=self._partition)
        group = self._consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(self._consumer.position(self._consumer.assignment()), group, LIMIT_S)
        producer.commit_transaction(LIMIT_S)  # which raises where a record has failed
        self._left -= len(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", required=True, help="of several partitions, with that many records")
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1_000)
    given = parser.parse_args()
    admin, output = AdminClient({"bootstrap.servers": given.bootstrap}), f"{given.topic}-{uuid.uuid4().hex[:8]}"
    topic = admin.list_topics(given.topic, LIMIT_S).topics[given.topic]
    count, replicas = len(topic.partitions), len(topic.partitions[0].replicas)
    admin.create_topics([NewTopic(output, count, replicas)])[output].result(LIMIT_S)
    try:
        together = Barrier(count)
        with ThreadPoolExecutor(count) as pool:
            loops = list(pool.map(lambda partition: Loop(given, partition, output), range(count)))
            runs = list(pool.map(lambda loop: loop.run(together), loops))
    finally:
        admin.delete_topics([output])[output].result(LIMIT_S)
    seconds = max(ended for _, ended, _ in runs) - min(began for began, _, _ in runs)
    records = sum(records for _, _, records in runs)
    print(json.dumps({"records_s": records / seconds, "records": records, "seconds": round(seconds, 3)}))


if __name__ == "__main__":
    main()
