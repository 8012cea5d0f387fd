"""Clients outside the containers, two of the SDK and two of the command line, while the stack is mistreated.

Every record is a number. Each producer writes half of them, slowly enough that a broker dies in the middle; each
consumer follows until it has seen all. What any of them reports as an error is counted.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tests.hosts.shell import ProofError, run, say, wait_for

import ottla

BOOTSTRAP: Final = "localhost:9092"
OTTLA: Final = [sys.executable, "-m", "ottla", "-b", BOOTSTRAP, "--timeout", "60s"]
RECORDS: Final = 10_000
RATE: Final = 500  # records/s of each producer
_LIMIT_S: Final = 120.0
_END_S: Final = 10.0
_ENDED_BY_CTRL_C: Final = (0, 130)


@dataclass(frozen=True, slots=True)
class Access:
    """How clients on the host reach the cluster: the command line's first words, and the SDK's settings."""

    ottla: list[str] = field(default_factory=lambda: OTTLA)
    bootstrap: str = BOOTSTRAP
    config: Mapping[str, Any] = field(default_factory=dict)


OPEN: Final = Access()
"""Nobody has to log in."""

Numbers = set[str]
EVERYTHING: Final[Numbers] = {str(n) for n in range(RECORDS)}


class Traffic:
    """Inside the block the clients run; `errors` holds what they said went wrong, in words."""

    def __init__(self, topic: str, access: Access = OPEN, rate: int = RATE) -> None:
        self.errors: Final[list[str]] = []
        self.seen_by_sdk: Final[Numbers] = set()
        self.seen_by_cli: Final[Numbers] = set()
        self.read = 0  # by the SDK's consumer, with what at-least-once delivery wrote twice
        self._topic = topic
        self._access = access
        self._rate = rate
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        half, access = RECORDS // 2, self._access
        self._consumer: ottla.Consumer[Any, str] = ottla.Consumer(
            self._topic, bootstrap=access.bootstrap, config=access.config, start="earliest", value="str"
        )
        self._producer: ottla.Producer[Any, Any] = ottla.Producer(
            access.bootstrap, topic=self._topic, config=access.config
        )
        self._cli_consumer = subprocess.Popen(
            [*access.ottla, "consume", self._topic, "-F", "-f", "%v\\n"], stdout=subprocess.PIPE, text=True
        )
        with tempfile.TemporaryFile("w+") as lines:
            lines.writelines(f"{n}\n" for n in range(half, RECORDS))
            lines.seek(0)
            produce = [*access.ottla, "produce", self._topic, "--rate", f"{self._rate}/s"]
            self._cli_producer = subprocess.Popen(produce, stdin=lines, stdout=subprocess.DEVNULL)
        for work in (self._consume, self._read_cli, lambda: self._produce(range(half))):
            thread = threading.Thread(target=self._guarded, args=[work], daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *failure: object) -> None:
        """End every client. Each should have nothing left to do, unless the proof failed already."""
        self._consumer.close()
        self._guarded(lambda: self._producer.close(timeout=_END_S))
        self._end("ottla consume", self._cli_consumer, signal.SIGINT)
        self._end("ottla produce", self._cli_producer, None)
        for thread in self._threads:
            thread.join(_END_S)

    def wait_for_share(self, share: float) -> None:
        """Return when both consumers have seen that share of the records, or a client has said that it can't go on."""
        self._wait_for(share * RECORDS)

    def wait_for_more(self, records: int) -> None:
        """Return when both consumers have seen that many more records than now, or a client has said that it can't
        go on."""
        self._wait_for(self._seen_by_both() + records)

    def _wait_for(self, enough: float) -> None:
        what = f"{enough:.0f} of {RECORDS} records, seen by both consumers"
        wait_for(lambda: self.errors or self._seen_by_both() >= enough, what, limit_s=_LIMIT_S)

    def _seen_by_both(self) -> int:
        return min(len(self.seen_by_sdk), len(self.seen_by_cli))

    def _end(self, name: str, client: subprocess.Popen[Any], number: signal.Signals | None) -> None:
        """Its exit code counts; where it has to be ended by force, that is an error too."""
        if number is not None:
            client.send_signal(number)
        try:
            code = client.wait(_END_S)
        except subprocess.TimeoutExpired:
            client.kill()
            code = client.wait()
        if code not in _ENDED_BY_CTRL_C:
            self.errors.append(f"`{name}` ended with {code}")

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.errors.append(f"{type(error).__name__}: {error}")

    def _produce(self, numbers: range) -> None:
        sent: list[ottla.Delivery] = []
        began_at = time.monotonic()
        for n in numbers:
            time.sleep(max(0.0, began_at + len(sent) / self._rate - time.monotonic()))
            sent.append(self._producer.send(str(n), key=str(n % 97)))
        for one in sent:
            one.result(timeout=_LIMIT_S)

    def _consume(self) -> None:
        for record in self._consumer:
            self.read += 1
            self.seen_by_sdk.add(record.value)

    def _read_cli(self) -> None:
        assert self._cli_consumer.stdout is not None
        for line in self._cli_consumer.stdout:
            self.seen_by_cli.add(line.rstrip("\n"))


def check_all_there(topic: str, access: Access = OPEN) -> None:
    """Read the whole topic anew, by the SDK and by the command line. Raises ProofError where a record is missing."""
    with ottla.Consumer(
        topic, bootstrap=access.bootstrap, config=access.config, start="earliest", stop="end", value="str"
    ) as consumer:
        by_sdk = [r.value for r in consumer]
    by_cli = run([*access.ottla, "consume", topic, "-f", "%v\\n"]).split()
    for reader, found in (("SDK", by_sdk), ("command line", by_cli)):
        if set(found) != EVERYTHING:
            raise ProofError(f"the {reader} found {len(set(found))} of {RECORDS} records")
    say(f"all {RECORDS} records are there, read by SDK and command line ({len(by_sdk) - RECORDS} written twice)")
