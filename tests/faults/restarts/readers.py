"""`python -m tests.faults.restarts.readers`: how long readers of committed records wait for what others can see.

Each topic has two readers, one with read_uncommitted and one with read_committed. A wait lasts from when the first
passes an offset until the second does.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict, deque
from functools import partial
from typing import Final, Literal, get_args

from tests.faults.history import HistoryWriter, client_parser
from tests.faults.restarts.content import APP_COPIES, APP_TARGET, QUERY_TARGET
from tests.faults.restarts.tasks import run_all
from tests.faults.spark.copy import PARTITIONS

import ottla

Level = Literal["read_uncommitted", "read_committed"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
READ: Final = (QUERY_TARGET, APP_TARGET, APP_COPIES)
"""The topics whose readers are watched."""

_POLL_S: Final = 0.2
_NOTED_S: Final = 1.0
"""A wait is noted if it exceeds the last noted one by this much. At the end the longest one is noted as it is."""

_FINEST_S: Final = 0.1
"""Positions of the first reader that are closer to each other count as one."""


class Waits:
    """Positions of both readers in each partition. Times are in seconds."""

    def __init__(self) -> None:
        self._passed: Final[dict[tuple[str, int], deque[tuple[float, int]]]] = defaultdict(deque)

    def on_seen(self, partition: tuple[str, int], position: int, now: float) -> None:
        """Note the position of the reader of all records."""
        passed = self._passed[partition]
        if passed and passed[-1][1] >= position:
            return
        if len(passed) > 1 and now - passed[-2][0] < _FINEST_S:
            passed.pop()
        passed.append((now, position))

    def on_committed(self, partition: tuple[str, int], position: int, now: float) -> float:
        """Note the position of the reader of committed records. Return the longest wait, ended or not."""
        passed, longest = self._passed[partition], 0.0
        while passed and passed[0][1] <= position:
            longest = max(longest, now - passed.popleft()[0])
        return max(longest, now - passed[0][0] if passed else 0.0)


def main(arguments: list[str]) -> int:
    parser = client_parser("restarts.readers", __doc__)
    parser.add_argument("--bootstrap", required=True)
    given = parser.parse_args(arguments)
    history, waits, lock = HistoryWriter(given.history, given.process), Waits(), threading.Lock()
    longest, noted = defaultdict[str, float](float), defaultdict[str, float](float)

    def read(topic: str, level: Level, stopping: threading.Event) -> None:
        rows = 0
        partitions = [ottla.TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer = ottla.Consumer(
            topic, bootstrap=given.bootstrap, start="earliest", isolation_level=level, key="bytes", value="bytes"
        )
        with consumer:
            while not stopping.is_set():
                try:
                    rows += len(consumer.poll(_POLL_S, max_records=2_000))
                    positions = {partition: consumer.position(partition) for partition in partitions}
                except ottla.OttlaError as error:
                    with lock:
                        history.add("info", "failure", error=f"reader: {error}")
                    continue
                with lock:
                    for partition, position in positions.items():
                        note(partition, position, level)

        with lock:
            history.add("ok", "read", topic=topic, level=level, rows=rows)
            history.add("ok", "wait", topic=topic, wait_s=round(longest[topic], 3))

    def note(partition: ottla.TopicPartition, position: int, level: Level) -> None:
        now, topic = time.monotonic(), partition.topic
        if level == "read_uncommitted":
            waits.on_seen(partition, position, now)
            return
        longest[topic] = max(longest[topic], waits.on_committed(partition, position, now))
        if longest[topic] > noted[topic] + _NOTED_S:
            noted[topic] = longest[topic]
            history.add("ok", "wait", topic=topic, wait_s=round(longest[topic], 3))
            history.flush()

    return run_all([partial(read, topic, level) for topic in READ for level in LEVELS], history)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
