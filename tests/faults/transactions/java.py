"""Producers of kafka-clients: one JVM for all of a process (Producers.java), which ends with it."""

from __future__ import annotations

import itertools
import queue
import subprocess
import threading
from pathlib import Path
from typing import Any, Final

from peers.jvm import SHORT_LIVED
from peers.kafka import jars
from peers.place import installed, program, run
from tests.faults.transactions.producers import LIMIT_S, SOURCE, TIMEOUT_S, ProducerError

_SOURCE: Final = Path(__file__).parent / "Producers.java"
_GRACE_S: Final = 15.0


def command() -> list[str]:
    """Compiles what is not. Raises PeerError where there is no JDK, or no jars."""
    compiler, classpath = program("javac", "default-jdk-headless"), jars.classpath()
    folder = installed(
        "java-producers",
        [_SOURCE, Path(jars.__file__).parent / "pom.xml"],
        lambda into: run([compiler, "-Xlint:all", "-Werror", "-cp", classpath, "-d", into, _SOURCE]),
    )
    return [jars.java(), *SHORT_LIVED, "-Xmx256m", "-cp", f"{folder}:{classpath}", "Producers"]


class JavaProducers:
    """A line `<number> <verb> <arguments …>` for each call, and a line `<number> ok` or `<number> error …` back."""

    def __init__(self, bootstrap: str) -> None:
        settings = [bootstrap, str(int(TIMEOUT_S * 1000)), str(int(LIMIT_S * 1000))]
        self._process: Final = subprocess.Popen(
            [*command(), *settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._answers: Final[dict[int, queue.Queue[str]]] = {}
        self._numbers: Final = itertools.count()
        threading.Thread(target=self._listen, name="java", daemon=True).start()

    def producer(self, bootstrap: str, transactional_id: str) -> JavaProducer:
        number = next(self._numbers)
        self._answers[number] = queue.Queue()
        made = JavaProducer(self, number)
        made.call("make", transactional_id)
        return made

    def call(self, number: int, *words: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, (number, *words))) + "\n")
        try:
            answer = self._answers[number].get(timeout=LIMIT_S + _GRACE_S)
        except queue.Empty:
            raise ProducerError("the JVM does not answer", fenced=False) from None
        if answer != "ok":
            raise ProducerError(answer, fenced="Fenced" in answer or "InvalidProducerEpoch" in answer)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, _, answer = line.strip().partition(" ")
            self._answers[int(number)].put(answer)


class JavaProducer:
    def __init__(self, jvm: JavaProducers, number: int) -> None:
        self._jvm: Final = jvm
        self._number: Final = number

    def call(self, *words: Any) -> None:
        self._jvm.call(self._number, *words)

    def init(self) -> None:
        self.call("init")

    def begin(self) -> None:
        self.call("begin")

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self.call("send", topic, partition, value.decode())

    def send_offset(self, group: str, offset: int) -> None:
        self.call("offset", group, SOURCE, offset)

    def flush(self) -> None:
        self.call("flush")

    def commit(self) -> None:
        self.call("commit")

    def abort(self) -> None:
        self.call("abort")

    def leave(self) -> None:
        self.call("leave")
