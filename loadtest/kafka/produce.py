"""librdkafka's producer at full speed, one or several at once. Prints one JSON object.

The clock runs from the moment when every producer has had a record acknowledged to the last acknowledgement of all.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import time
from itertools import cycle, islice
from multiprocessing.synchronize import Barrier
from typing import Any, Final

import confluent_kafka

from loadtest.kafka.settings import setting

LIMIT_S: Final = 120.0
_AT_ONCE: Final = 10_000
_MOST_WAITING: Final = 400_000
_SMALL: Final = {"linger.ms": 0, "batch.num.messages": 10}


def settings(given: argparse.Namespace) -> dict[str, Any]:
    return {
        "bootstrap.servers": given.bootstrap,
        **dict(given.config),
        "acks": given.acks,
        "queue.buffering.max.messages": 2 * _MOST_WAITING,
        "delivery.report.only.error": True,
        **(_SMALL if given.small_batches else {}),
    }


def produce(given: argparse.Namespace, together: Barrier) -> tuple[float, float]:
    """When it began and when all was acknowledged, on the machine's monotonic clock."""
    producer = confluent_kafka.Producer(settings(given))
    values = _values(given)
    producer.produce(given.topic, values[0], on_delivery=_on_failed)
    _flush(producer)
    together.wait(LIMIT_S)
    began = time.monotonic()
    if given.each:
        _one_by_one(producer, given, values)
    else:
        _by_batches(producer, given, values)
    _flush(producer)
    return began, time.monotonic()


def _values(given: argparse.Namespace) -> list[bytes]:
    """Return the values, which are sent in turn."""
    chosen = random.Random(7)
    if not given.words:
        return [chosen.randbytes(given.size)]
    words = ["".join(chosen.choices("abcdefghijklmnopqrstuvwxyz", k=chosen.randint(3, 10))) for _ in range(2_000)]
    return [" ".join(chosen.choices(words, k=given.size))[: given.size].encode() for _ in range(_AT_ONCE)]


def _by_batches(producer: confluent_kafka.Producer, given: argparse.Namespace, values: list[bytes]) -> None:
    value = cycle(values)
    for first in range(0, given.records, _AT_ONCE):
        messages = [{"value": each} for each in islice(value, min(_AT_ONCE, given.records - first))]
        while len(producer) > _MOST_WAITING:
            producer.poll(0.001)
        taken = producer.produce_batch(given.topic, messages, on_delivery=_on_failed)
        assert taken == len(messages), "there was room for all"


def _one_by_one(producer: confluent_kafka.Producer, given: argparse.Namespace, values: list[bytes]) -> None:
    send, topic = producer.produce, given.topic
    for value in islice(cycle(values), given.records):
        try:
            send(topic, value, on_delivery=_on_failed)
        except BufferError:
            while len(producer) > _MOST_WAITING:
                producer.poll(0.001)
            send(topic, value, on_delivery=_on_failed)


def _on_failed(error: confluent_kafka.KafkaError | None, _message: confluent_kafka.Message) -> None:
    if error is not None:
        raise confluent_kafka.KafkaException(error)


def _flush(producer: confluent_kafka.Producer) -> None:
    left = producer.flush(LIMIT_S)
    if left:
        raise TimeoutError(f"{left} records were not acknowledged within {LIMIT_S:g} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--config", type=setting, action="append", default=[], help="librdkafka's NAME=VALUE")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--acks", choices=["0", "1", "all"], default="1")
    parser.add_argument("--producers", type=int, default=1, help="processes that share the records")
    parser.add_argument("--small-batches", action="store_true", help="ten records a request, sent at once")
    parser.add_argument("--each", action="store_true", help="produce() for each record instead of produce_batch()")
    parser.add_argument("--words", action="store_true", help="values that compress to a third, instead of random bytes")
    given = parser.parse_args()
    given.records //= given.producers
    with multiprocessing.Manager() as manager:
        together: Any = manager.Barrier(given.producers)
        with multiprocessing.Pool(given.producers) as pool:
            times = pool.starmap(produce, [(given, together)] * given.producers)
    seconds = max(ended for _, ended in times) - min(began for began, _ in times)
    records = given.records * given.producers
    print(json.dumps({"records_s": records / seconds, "records": records, "seconds": round(seconds, 3)}))


if __name__ == "__main__":
    main()
