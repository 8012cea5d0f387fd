"""`python -m tests.faults.transactions.client`: transactions of one kind of client, until SIGTERM.

Each thread has a transactional id, with one producer after the other. A transaction writes its tag to some partitions,
and half of them take the next of a made-up source: the offset that is committed with it. Some are aborted, some are
left open by a producer whose id the next one takes. With `--once` a thread has one producer, and ends with it. Who is
ahead of another of the `--kinds` waits (pace).

    {"f": "txn", "type": "invoke", "tag": "sdk-0.2.k3f.17", "id": "sdk.2", "partitions": [["a", 0], …], "at": 12 or -1}
    {"f": "end", "type": "invoke", "tag": …}         the commit is called
    {"f": "txn", "type": "ok" | "fail" | "info", "tag": …, "error": …}
    {"f": "init" | "fenced", "type": "ok", "id": …}
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition
from tests.faults.history import HistoryWriter, client_parser
from tests.faults.transactions.java import JavaProducers
from tests.faults.transactions.pace import Pace
from tests.faults.transactions.producers import (
    LIMIT_S,
    SOURCE,
    LibrdkafkaProducer,
    ProducerError,
    SdkProducer,
    TransactionalProducer,
)

KINDS: Final = ("sdk", "librdkafka", "java")
PARTITIONS: Final = tuple((topic, number) for topic in ("a", "b") for number in range(3))
MOST_PARTITIONS: Final = 4

_PAUSE_S: Final = {"sdk": 0.05, "librdkafka": 0.05, "java": 0.0}
"""Between two transactions of a thread, on average."""
_AHEAD_S: Final = 0.1
_STOP_LIMIT_S: Final = 25.0
_ABORTED, _LEFT, _TOOK_OFFSET = 0.12, 0.02, 0.5


class Notes:
    """The history of all threads; each line is out of the process before the call returns."""

    def __init__(self, history: HistoryWriter, pace: Pace) -> None:
        self._history: Final = history
        self.pace: Final = pace
        self._lock: Final = threading.Lock()

    def add(self, type_: str, f: str, **fields: object) -> None:
        with self._lock:
            self._history.add(type_, f, **fields)
            self._history.flush()
            if f == "txn" and type_ in ("ok", "fail"):
                self.pace.on_end()


class Load:
    """One thread: one transactional id, which is its group's name too."""

    def __init__(self, given: argparse.Namespace, number: int, make: Any, notes: Notes) -> None:
        self._id: Final = f"{given.kind}.{number}"
        self._life: Final = f"{given.process}.{number}.{time.time_ns() // 1_000_000:x}"
        self._given: Final = given
        self._make: Final = make
        self._notes: Final = notes
        self._random: Final = random.Random(f"{given.seed}-{self._life}")
        self._written = 0
        self._position = 0
        self.stopping = False
        self.thread: Final = threading.Thread(target=self._run, name=self._id, daemon=True)

    def _run(self) -> None:
        producer: TransactionalProducer | None = None
        while not self.stopping:
            try:
                producer = producer or self._init()
                if not self._write(producer):
                    producer = None
            except (ProducerError, KafkaException) as error:
                if getattr(error, "fenced", False):
                    self._notes.add("ok", "fenced", id=self._id, error=str(error)[:200])
                if self._given.once and producer is not None:
                    return
                producer = None
                time.sleep(0.1)
            time.sleep(self._random.uniform(0, 2 * _PAUSE_S[self._given.kind]))
            while self._notes.pace.is_ahead and not self.stopping:
                time.sleep(_AHEAD_S)

    def _init(self) -> TransactionalProducer:
        producer: TransactionalProducer = self._make(self._given.bootstrap, self._id)
        producer.init()
        self._notes.add("ok", "init", id=self._id)
        self._position = self._committed()
        return producer

    def _committed(self) -> int:
        """Where the group has come to. What is pending is waited for."""
        settings = {"bootstrap.servers": self._given.bootstrap, "group.id": self._id, "log_level": 0}
        consumer = confluent_kafka.Consumer(settings)
        try:
            [found] = consumer.committed([TopicPartition(SOURCE, 0)], LIMIT_S)
        finally:
            consumer.close()
        if found.error is not None:
            raise KafkaException(found.error)
        return max(0, found.offset)

    def _write(self, producer: TransactionalProducer) -> bool:
        """One transaction; False where the producer is not to write the next."""
        self._written += 1
        tag = f"{self._life}.{self._written}"
        partitions = self._random.sample(PARTITIONS, self._random.randint(1, MOST_PARTITIONS))
        at = self._position if self._random.random() < _TOOK_OFFSET else -1
        self._notes.add("invoke", "txn", tag=tag, id=self._id, partitions=partitions, at=at)
        try:
            producer.begin()
            for topic, partition in partitions:
                producer.send(topic, partition, tag.encode())
            if at >= 0:
                producer.send_offset(self._id, at + 1)
            chance = self._random.random()
            if chance < _LEFT and not self._given.once:
                producer.flush()
                self._notes.add("fail", "txn", tag=tag, error="left open")
                producer.leave()
                return False
            if chance < _LEFT + _ABORTED:
                producer.flush()
                producer.abort()
                self._notes.add("fail", "txn", tag=tag)
                return True
        except ProducerError as error:
            self._notes.add("fail", "txn", tag=tag, error=str(error)[:200])  # the commit was never called
            return self._go_on(producer, error)
        return self._commit(producer, tag, at)

    def _commit(self, producer: TransactionalProducer, tag: str, at: int) -> bool:
        self._notes.add("invoke", "end", tag=tag)
        try:
            producer.commit()
        except ProducerError as error:
            goes_on = False
            try:
                goes_on = self._go_on(producer, error)
            finally:
                self._notes.add("fail" if goes_on else "info", "txn", tag=tag, error=str(error)[:200])
            return goes_on
        self._notes.add("ok", "txn", tag=tag)
        self._position = max(self._position, at + 1)
        return True

    def _go_on(self, producer: TransactionalProducer, error: ProducerError) -> bool:
        """Whether the transaction could be aborted. Raises what fences the producer."""
        try:
            if not error.fenced:
                producer.abort()
                return True
        except ProducerError as raised:
            error = raised
        with suppress(ProducerError):  # the id is taken over in any case
            producer.leave()
        raise error


def main(arguments: list[str]) -> None:
    parser = client_parser("transactions.client", __doc__)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--bootstrap", required=True, help="of the producers")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--kinds", nargs="*", default=())
    given = parser.parse_args(arguments)
    notes = Notes(HistoryWriter(given.history, given.process), Pace(given.history, given.kind, given.kinds))
    make: Any = {"sdk": SdkProducer, "librdkafka": LibrdkafkaProducer}.get(given.kind)
    make = make or JavaProducers(given.bootstrap).producer
    loads = [Load(given, number, make, notes) for number in range(given.threads)]

    def stop(*_: object) -> None:
        for load in loads:
            load.stopping = True

    signal.signal(signal.SIGTERM, stop)
    for load in loads:
        load.thread.start()
    give_up_at = float("inf")
    while any(load.thread.is_alive() for load in loads) and time.monotonic() < give_up_at:
        time.sleep(0.1)  # a signal is noticed after it
        if loads[0].stopping:
            give_up_at = min(give_up_at, time.monotonic() + _STOP_LIMIT_S)
    os._exit(0)  # at once, as clients may be busy still: what they have not ended times out


if __name__ == "__main__":
    main(sys.argv[1:])
