"""A consumer of the SDK in a process of its own: `python -m loadtest.scale.sdk_consumer BOOTSTRAP TOPIC` reads from the
end on, and prints a line when it is there and one for each poll that brought records."""

from __future__ import annotations

import subprocess
import sys
import time
from types import TracebackType
from typing import Final, Self

import ottla
from loadtest.rows.footprint import cpu_seconds

_LIMIT_S: Final = 120.0
"""Without a record for so long it ends: whoever waits for its next line hears of that."""


class SdkConsumer:
    """`with SdkConsumer(bootstrap, topic) as consumer:` all its positions are known."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        command = [sys.executable, "-m", "loadtest.scale.sdk_consumer", bootstrap, topic]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        began = time.monotonic()
        self.until_read()
        self.start_s = time.monotonic() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(20)

    def cpu_s(self) -> float:
        return cpu_seconds(self._process.pid)

    def until_read(self) -> None:
        """Return once it has printed its next line."""
        assert self._process.stdout is not None, "it was asked for"
        if not self._process.stdout.readline():
            raise RuntimeError(f"the consumer ended with exit code {self._process.wait()}")


def main(bootstrap: str, topic: str) -> None:
    with ottla.Consumer(topic, bootstrap=bootstrap, start="latest", value="bytes") as consumer:
        while not (assigned := consumer.assignment()):
            consumer.poll(0.1)
        for partition in assigned:
            consumer.position(partition)
        print("there", flush=True)
        while consumer.poll(_LIMIT_S):
            print("read", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
