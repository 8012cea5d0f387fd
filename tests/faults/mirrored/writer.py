"""`python -m tests.faults.mirrored.writer`: writes to the source what is to be copied, and notes what became of it.

A topic for each codec; one in transactions, of which every third is aborted; and a table whose keys come again and
again. A producer serves for a while, then another one with a producer id of its own. It ends on SIGTERM.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final

from tests.faults import librdkafka
from tests.faults.history import HistoryWriter, Name, client_parser, key_of, value_of
from tests.faults.moved_clock import follow

import ottla

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SHARED: Final = CODECS[0]
"""Written by librdkafka, which takes producer ids from whichever broker; its copies have other writers as well."""
IN_TRANSACTIONS: Final = "transactions"
TABLE: Final = "table"
TOPICS: Final = (*CODECS, IN_TRANSACTIONS, TABLE)
PARTITIONS: Final = 2
KEYS: Final = 50
"""Keys in each partition of the table."""

_TICK_S: Final = 0.2
AT_ONCE: Final = 10
"""Records of a partition in a tick."""

_TICKS: Final = 5
"""Ticks of one producer: as many batches as a broker remembers, including its first."""

_DELIVERY_S: Final = 40.0
_TRANSACTION_S: Final = 6.0
_ABORTED_EVERY: Final = 3


class Lane:
    """What writes one topic: numbers that count up in each partition."""

    def __init__(
        self, topic: str, bootstrap: str, history: HistoryWriter, lock: Lock, stopping: Event, first: int
    ) -> None:
        self._topic, self._bootstrap, self._history = topic, bootstrap, history
        self._lock, self._stopping = lock, stopping
        self._next = first

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._producer() as producer:
                    self._serve(producer)
            except ottla.OttlaError as error:
                self._note("info", "producer", error=str(error))
                self._stopping.wait(_TICK_S)

    def _producer(self) -> Any:
        if self._topic == SHARED:
            return librdkafka.Producer(self._bootstrap, self._topic, "writer")
        kind: dict[str, Any] = {"compression": self._topic if self._topic in CODECS else "none"}
        if self._topic == IN_TRANSACTIONS:
            kind |= {"transactional_id": self._topic, "transaction_timeout": _TRANSACTION_S}
        limits: dict[str, Any] = {"delivery_timeout": _DELIVERY_S}
        return ottla.Producer[bytes, bytes](
            self._bootstrap, topic=self._topic, key="bytes", value="bytes", **kind, **limits
        )

    def _serve(self, producer: Any) -> None:
        """As long as one producer does, or until something is not known of what it wrote."""
        if self._topic == IN_TRANSACTIONS:
            producer.init_transactions()
        for _ in range(_TICKS):
            if self._stopping.wait(_TICK_S):
                return
            first, self._next = self._next, self._next + AT_ONCE
            outcome = "info"
            try:
                outcome = self._write_all(producer, first)
            finally:
                self._note(outcome, "send", first=first, count=AT_ONCE)
            if outcome == "info":
                return

    def _write_all(self, producer: Any, first: int) -> str:
        """Records of a tick: ok where they are there, fail where they are not, info where that is not known."""
        if self._topic != IN_TRANSACTIONS:
            return "ok" if self._write(producer, first) else "info"
        producer.begin_transaction()
        if not self._write(producer, first):
            return "info"
        if first // AT_ONCE % _ABORTED_EVERY == 0:
            producer.abort_transaction()
            return "fail"
        producer.commit_transaction()
        return "ok"

    def _write(self, producer: Any, first: int) -> bool:
        """Whether all of it was acknowledged."""
        sent: list[Any] = []
        for number in range(first, first + AT_ONCE):
            for partition in range(PARTITIONS):
                name = key_of(Name(self._topic, partition, number))
                key = b"%d" % (number % KEYS) if self._topic == TABLE else name
                sent.append(producer.send(value_of(name), key=key, partition=partition))
        errors = [delivery.exception() for delivery in sent]
        return not any(errors)

    def _note(self, type_: str, f: str, **fields: object) -> None:
        with self._lock:
            self._history.add(type_, f, topic=self._topic, **fields)
            self._history.flush()


def main(arguments: list[str]) -> int:
    parser = client_parser("mirrored.writer", __doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--first", type=int, default=0, help="the number of the first record")
    parser.add_argument("--clock", type=Path, required=True, help="the file that its wall clock follows")
    given = parser.parse_args(arguments)
    follow(given.clock)
    history, lock, stopping = HistoryWriter(given.history, given.process), Lock(), Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    at = (given.bootstrap, history, lock, stopping, given.first)
    lanes = [Lane(topic, *at) for topic in TOPICS]
    threads = [Thread(target=lane.run, name=topic) for topic, lane in zip(TOPICS, lanes, strict=True)]
    for thread in threads:
        thread.start()
    while not stopping.wait(1.0):  # a signal's handler runs between two waits
        pass
    for thread in threads:
        thread.join()
    history.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
