"""`python -m tests.faults.reader`: reads every partition from its first offset on and notes what it was handed.

It goes on until SIGTERM, or with --to-end until the end of the log as it is then, which is how final reads are made.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any

from tests.faults import librdkafka
from tests.faults.history import HistoryWriter, RecordRead, client_parser, polled

import ottla

_PAUSE_AFTER_ERROR_S = 0.2


class Reader:
    def __init__(self, consumer: Any, history: HistoryWriter) -> None:
        self._consumer = consumer
        self._history = history
        self.stopping = False

    def run(self) -> None:
        """Until `stopping`, or until the consumer's own end. An error is noted, and reading goes on."""
        while not self.stopping and not self._consumer.finished:
            try:
                records = self._consumer.poll(0.5, max_records=2000)
            except ottla.OttlaError as error:
                self._history.add("info", "poll", error=str(error))
                time.sleep(_PAUSE_AFTER_ERROR_S)
                continue
            for fields in polled(_by_partition(records)):
                self._history.add("ok", "poll", **fields)
            self._history.flush()


def _by_partition(records: Iterable[Any]) -> list[RecordRead]:
    """One partition after the other, each in the order in which it came."""
    lanes: dict[int, list[RecordRead]] = {}
    for record in records:
        lanes.setdefault(record.partition, []).append(
            RecordRead(record.partition, record.offset, record.key, record.value)
        )
    return [record for lane in lanes.values() for record in lane]


def main(arguments: list[str]) -> int:
    parser = client_parser("reader", __doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--to-end", action="store_true", help="end where the log ends now")
    parser.add_argument(
        "--librdkafka", type=int, metavar="PARTITIONS", help="in place of the SDK, with Kafka bootstrap"
    )
    given = parser.parse_args(arguments)
    history = HistoryWriter(given.history, given.process)
    with _consumer(given) as consumer:
        reader = Reader(consumer, history)
        signal.signal(signal.SIGTERM, lambda *_: setattr(reader, "stopping", True))
        reader.run()
    history.close()
    return 0


def _consumer(given: argparse.Namespace) -> Any:
    if given.librdkafka:
        return librdkafka.Consumer(given.bootstrap, given.topic, given.librdkafka, given.process)
    return ottla.Consumer(
        given.topic,
        bootstrap=given.bootstrap,
        start="earliest",
        stop="end" if given.to_end else None,
        auto_offset_reset="none",  # an offset out of range is to be seen, not smoothed over
        key="bytes",
        value="bytes",
        client_id=given.process,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
