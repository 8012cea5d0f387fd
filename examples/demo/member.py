"""One of the processes that share the work of reading: writes its part of the flights to a file, until SIGTERM.

What is in the file counts as processed, and it is there before the next poll commits it. So when a member dies, some
work is repeated and none is lost.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Final

from examples.demo.flights import TOPIC, Flight

import ottla

GROUP: Final = "flights-demo"
SESSION_S: Final = 6.0


def main(bootstrap: str, path: str) -> None:
    consumer = ottla.Consumer(
        TOPIC,
        bootstrap=bootstrap,
        group=GROUP,
        auto_offset_reset="earliest",
        session_timeout=SESSION_S,
        heartbeat_interval=1.0,
        auto_commit_interval=0.5,
        max_poll_records=2_000,
        key="str",
        value="bytes",
    )
    signal.signal(signal.SIGTERM, lambda *_: consumer.wakeup())
    count = 0
    with consumer, Path(path).open("w") as report, count_file(path).open("w") as counted:
        try:
            while True:
                for record in consumer.poll(1.0):
                    row = int(dict(record.headers)["row"] or b"-1")
                    report.write(json.dumps([row, record.key, record.timestamp, (record.value or b"").decode()]) + "\n")
                    count += 1
                report.flush()
                counted.seek(0)
                counted.write(f"{count:12}")
                counted.flush()
        except ottla.WakeupError:
            pass


def count_file(path: str | Path) -> Path:
    """The file in which a member counts the rows that it has taken."""
    return Path(f"{path}.count")


def flights_read_by(path: Path) -> list[Flight]:
    """Return what a member has taken, in order; a last line that was cut off by its death is left out."""
    lines = path.read_text().split("\n")[:-1]
    return [Flight(row, key or "", timestamp, value.encode()) for row, key, timestamp, value in map(json.loads, lines)]


if __name__ == "__main__":
    main(*sys.argv[1:3])
