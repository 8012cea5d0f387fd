"""`python -m tests.faults.compacted.reader`: reads the topic from the beginning to its end, slowly, again and again.

Few records come in one answer, so that logs are cleaned between two answers. A pass has a number; its operations are
what it read, `{"f": "poll", "pass": 3, "partition": 0, "records": [[offset, writer, number], …]}`, and in the end
`{"f": "pass", "pass": 3, "began_ns": …, "mono_ns": …}`. What a name does not promise is in words under `wrong`.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable
from typing import Any, Final

from tests.faults.compacted.records import NAME, key_of, value_of
from tests.faults.history import HistoryWriter, client_parser, parse_key

import ottla

_POLL_RECORDS: Final = 100
_FETCH_BYTES: Final = 4096
_PAUSE_S: Final = 0.03
_START_LIMIT_S: Final = 40.0
"""All brokers may have been killed at once: no reader gives up before they are there again."""
_PAUSE_AFTER_ERROR_S: Final = 0.2


class PassingReader:
    def __init__(self, bootstrap: str, topic: str, rack: str, passes: int, history: HistoryWriter) -> None:
        where = {"bootstrap": bootstrap, "client_rack": rack, "connect_timeout": _START_LIMIT_S}
        self._where: Final[dict[str, Any]] = where
        self._topic: Final = topic
        self._passes: Final = passes
        self._history: Final = history
        self.stopping = False

    def run(self) -> None:
        """Until `stopping`, or so many whole passes; 0 is no limit."""
        number = 0
        while not self.stopping and not (self._passes and number >= self._passes):
            number += 1
            began_ns = time.monotonic_ns()
            if self._read_once(number):
                self._history.add("ok", "pass", **{"pass": number, "began_ns": began_ns})
            self._history.flush()

    def _read_once(self, number: int) -> bool:
        """Whether it came to the end."""
        with ottla.Consumer[Any, Any](
            self._topic, start="earliest", stop="end", auto_offset_reset="none", key="bytes", value="bytes",
            max_partition_fetch_bytes=_FETCH_BYTES, fetch_max_bytes=_FETCH_BYTES, prefetch=4 * _FETCH_BYTES,
            client_id=self._history.process, **self._where,
        ) as consumer:  # fmt: skip
            while not self.stopping and not consumer.finished:
                try:
                    records = consumer.poll(0.5, max_records=_POLL_RECORDS)
                except ottla.OttlaError as error:
                    self._history.add("info", "poll", error=str(error))
                    time.sleep(_PAUSE_AFTER_ERROR_S)
                    continue
                for partition, fields in sorted(polled(records).items()):
                    self._history.add("ok", "poll", **{"pass": number, "partition": partition, **fields})
                time.sleep(_PAUSE_S)
            return bool(consumer.finished)


def polled(records: Iterable[Any]) -> dict[int, dict[str, list[Any]]]:
    """By partition, the fields of its operation."""
    lanes: dict[int, dict[str, list[Any]]] = {}
    for record in records:
        lane = lanes.setdefault(record.partition, {"records": []})
        name = parse_key(record.header(NAME) or b"")
        if name is None or (record.key, record.value) != (key_of(name), value_of(name)):
            lane.setdefault("wrong", []).append(f"{record!r}")
        else:
            lane["records"].append([record.offset, name.writer, name.number])
    return lanes


def main(arguments: list[str]) -> int:
    parser = client_parser("compacted.reader", __doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rack", default="", help="whose replica is read; the leaders' by default")
    parser.add_argument("--passes", type=int, default=0)
    given = parser.parse_args(arguments)
    history = HistoryWriter(given.history, given.process)
    reader = PassingReader(given.bootstrap, given.topic, given.rack, given.passes, history)
    signal.signal(signal.SIGTERM, lambda *_: setattr(reader, "stopping", True))
    reader.run()
    history.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
