"""One transaction that writes a record to every partition of a topic. Prints one JSON object.

The clock runs from the first `produce` to the end of `flush`. librdkafka adds the partitions to the transaction itself,
by AddPartitionsToTxn; the SDK leaves that to the brokers (transactions v2).
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

import ottla

_LIMIT_S: Final = 120.0


def flush_s_of_librdkafka(bootstrap: str, topic: str, partitions: int, transactional_id: str) -> float:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.list_topics(topic, _LIMIT_S)
    producer.init_transactions(_LIMIT_S)
    producer.begin_transaction()
    began = time.monotonic()
    for partition in range(partitions):
        producer.produce(topic, b"value", partition=partition, on_delivery=_on_delivery)
    if producer.flush(_LIMIT_S):
        raise TimeoutError(f"records were not acknowledged within {_LIMIT_S:g} s")
    took_s = time.monotonic() - began
    producer.commit_transaction(_LIMIT_S)
    return took_s


def flush_s_of_sdk(bootstrap: str, topic: str, partitions: int, transactional_id: str) -> float:
    with ottla.Producer(bootstrap, topic=topic, transactional_id=transactional_id, transaction_timeout=600) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        began = time.monotonic()
        for partition in range(partitions):
            producer.send(partition, partition=partition)
        producer.flush()
        took_s = time.monotonic() - began
        producer.commit_transaction()
    return took_s


def _on_delivery(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        raise KafkaException(error)


CLIENTS: Final = {"librdkafka": flush_s_of_librdkafka, "sdk": flush_s_of_sdk}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=800)
    parser.add_argument("--transactional-id", required=True)
    parser.add_argument("--client", choices=sorted(CLIENTS), default="librdkafka")
    given = parser.parse_args()
    took_s = CLIENTS[given.client](given.bootstrap, given.topic, given.partitions, given.transactional_id)
    print(json.dumps({"flush_ms": took_s * 1000, "records": given.partitions}))


if __name__ == "__main__":
    main()
