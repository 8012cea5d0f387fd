"""Clients outside the containers, two of the SDK and two of the command line, while the stack is mistreated.

Every record is a number. Each producer writes half of them, slowly enough that a broker dies in the middle; each
consumer follows until it has seen all. What any of them reports as an error is counted.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Self

from shell import ProofError, run, say, wait_for

import ottla

BOOTSTRAP: Final = "localhost:9650"
OTTLA: Final = [sys.executable, "-m", "ottla", "-b", BOOTSTRAP, "--timeout", "60s"]
RECORDS: Final = 10_000
RATE: Final = 500  # records/s of each producer
_LIMIT_S: Final = 120.0
_END_S: Final = 30.0
_ENDED_BY_CTRL_C: Final = (0, 130)

Numbers = set[str]
EVERYTHING: Final[Numbers] = {str(n) for n in range(RECORDS)}


class Traffic:
    """Inside the block the clients run; `errors` holds what they said went wrong, in words."""

    def __init__(self, topic: str) -> None:
        self.topic: Final = topic
        self.errors: Final[list[str]] = []
        self.seen_by_sdk: Final[Numbers] = set()
        self.seen_by_cli: Final[Numbers] = set()
        self.read = 0  # by the SDK's consumer, with what at-least-once delivery wrote twice
        self._threads: list[threading.Thread] = []
        self._consumer: ottla.Consumer[Any, str] = ottla.Consumer(
            topic, bootstrap=BOOTSTRAP, start="earliest", value="str"
        )
        follow = [*OTTLA, "consume", topic, "-F", "-f", "%v\\n"]
        self._cli_consumer = subprocess.Popen(follow, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        half = RECORDS // 2
        for work in (
            lambda: self._consume(),
            lambda: self._read_cli(),
            lambda: self._produce(range(half)),
            lambda: self._produce_by_cli(range(half, RECORDS)),
        ):
            thread = threading.Thread(target=self._guarded, args=[work], daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._cli_consumer.send_signal(signal.SIGINT)
        code = self._cli_consumer.wait(_END_S)
        for thread in self._threads:
            thread.join(_END_S)
        if code not in _ENDED_BY_CTRL_C:
            self.errors.append(f"`ottla consume` ended with {code}")

    def wait_for_share(self, share: float) -> None:
        """Return when both consumers have seen that share of the records, or a client has said that it can't go on."""
        enough = share * RECORDS
        wait_for(
            lambda: self.errors or min(len(self.seen_by_sdk), len(self.seen_by_cli)) >= enough,
            f"{share:.0%} of the records ({len(self.seen_by_sdk)} and {len(self.seen_by_cli)} seen)",
            limit_s=_LIMIT_S,
        )

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.errors.append(f"{type(error).__name__}: {error}")

    def _produce(self, numbers: range) -> None:
        sent: list[ottla.Delivery] = []
        began_at = time.monotonic()
        with ottla.Producer(BOOTSTRAP, topic=self.topic) as producer:
            for n in numbers:
                time.sleep(max(0.0, began_at + len(sent) / RATE - time.monotonic()))
                sent.append(producer.send(str(n), key=str(n % 97)))
            for one in sent:
                one.result(timeout=_LIMIT_S)

    def _produce_by_cli(self, numbers: range) -> None:
        lines = "".join(f"{n}\n" for n in numbers)
        command = [*OTTLA, "produce", self.topic, "--rate", f"{RATE}/s"]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=_LIMIT_S)
        if done.returncode:
            self.errors.append(f"`ottla produce` ended with {done.returncode}: {done.stderr.strip()[-300:]}")

    def _consume(self) -> None:
        for record in self._consumer:
            self.read += 1
            self.seen_by_sdk.add(record.value)

    def _read_cli(self) -> None:
        assert self._cli_consumer.stdout is not None
        for line in self._cli_consumer.stdout:
            self.seen_by_cli.add(line.rstrip("\n"))


def check_all_there(topic: str) -> None:
    """Read the whole topic anew, by the SDK and by the command line. Raises ProofError where a record is missing."""
    with ottla.Consumer(topic, bootstrap=BOOTSTRAP, start="earliest", stop="end", value="str") as consumer:
        by_sdk = [r.value for r in consumer]
    by_cli = run([*OTTLA, "consume", topic, "-f", "%v\\n"]).split()
    for reader, found in (("SDK", by_sdk), ("command line", by_cli)):
        if set(found) != EVERYTHING:
            raise ProofError(f"the {reader} found {len(set(found))} of {RECORDS} records")
    say(f"all {RECORDS} records are there, read by SDK and command line ({len(by_sdk) - RECORDS} written twice)")
