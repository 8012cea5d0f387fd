"""`python -m tests.faults.compacted.transactional`: keys and tombstones like those of every writer, in transactions.

Each has some records for every partition, and every third one is aborted. A record is noted once its transaction has
ended: `ok` with its offset, or `fail`, and then no one is to read it. Of what has neither the end is not known.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from tests.faults.compacted.records import send
from tests.faults.history import HistoryWriter, Name, client_parser

import ottla

TIMEOUT_S: Final = 10.0
"""The timeout of a transaction."""
_RECORDS: Final = 5
_ABORTED_EVERY: Final = 3
_PAUSE_S: Final = 0.05
_PAUSE_AFTER_ERROR_S: Final = 0.5


class TransactionalWriter:
    def __init__(self, bootstrap: str, topic: str, partitions: int, pause_s: float, history: HistoryWriter) -> None:
        self._where: Final[dict[str, Any]] = {"bootstrap": bootstrap, "topic": topic}
        self._partitions: Final = range(partitions)
        self._pause_s: Final = pause_s
        self._history: Final = history
        self._written = 0
        self.stopping = False

    def run(self) -> None:
        """Until `stopping`: with one producer after the other, each as long as all goes well."""
        while not self.stopping:
            try:
                with ottla.Producer[Any, Any](
                    transactional_id=self._history.process, transaction_timeout=TIMEOUT_S, delivery_timeout=TIMEOUT_S,
                    request_timeout=TIMEOUT_S / 2, key="bytes", value="bytes", **self._where,
                ) as producer:  # fmt: skip
                    producer.init_transactions()
                    while not self.stopping:
                        self._write(producer)
                        time.sleep(self._pause_s)
            except ottla.OttlaError:
                time.sleep(_PAUSE_AFTER_ERROR_S)

    def _write(self, producer: Any) -> None:
        numbers = range(self._written, self._written + _RECORDS)
        names = [Name(self._history.process, partition, number) for partition in self._partitions for number in numbers]
        self._note("invoke", names)
        self._written += _RECORDS
        outcome, offsets = "fail", list[int]()
        try:
            producer.begin_transaction()
            sent = [send(producer, name) for name in names]
            offsets = [delivery.result(TIMEOUT_S).offset for delivery in sent]
            if numbers.start % (_RECORDS * _ABORTED_EVERY) == 0:
                producer.abort_transaction()
            else:
                outcome = "info"  # should the commit fail, which may have been carried out
                producer.commit_transaction()
                outcome = "ok"
        finally:
            self._note(outcome, names, offsets)

    def _note(self, type_: str, names: Sequence[Name], offsets: Sequence[int] = ()) -> None:
        for n, name in enumerate(names):
            at = {"offset": offsets[n]} if type_ == "ok" else {}
            self._history.add(type_, "send", partition=name.partition, first=name.number, count=1, **at)
        self._history.flush()


def main(arguments: list[str]) -> int:
    parser = client_parser("compacted.transactional", __doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--pause", type=float, default=_PAUSE_S, help="seconds between two transactions")
    given = parser.parse_args(arguments)
    history = HistoryWriter(given.history, given.process)
    writer = TransactionalWriter(given.bootstrap, given.topic, given.partitions, given.pause, history)
    signal.signal(signal.SIGTERM, lambda *_: setattr(writer, "stopping", True))
    writer.run()
    history.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
