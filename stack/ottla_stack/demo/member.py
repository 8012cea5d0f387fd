"""One of the processes that share the work of reading: takes its part of the flights into a file, until SIGTERM.

What is in the file counts as processed, and it is there before the next poll commits it: so a member that dies has
repeated work to leave, and none that is lost.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Final

import ottla
from ottla_stack.demo.flights import TOPIC, Flight

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
    """Where a member tells how many rows it has taken so far."""
    return Path(f"{path}.count")


def flights_read_by(path: Path) -> list[Flight]:
    """What a member has taken, in its order; a last line that its death has cut off is left out."""
    lines = path.read_text().split("\n")[:-1]
    return [Flight(row, key or "", timestamp, value.encode()) for row, key, timestamp, value in map(json.loads, lines)]


if __name__ == "__main__":
    main(*sys.argv[1:3])
