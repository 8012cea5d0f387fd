"""Processes that do nothing but use a core, and how much of the processor others got beside them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.node import Node

_SPIN: Final = "while True: pass"


@contextmanager
def busy(count: int, directory: Path) -> Iterator[list[Node]]:
    """`count` of them, for as long as the block runs."""
    hogs = [Node(f"hog-{n}", [sys.executable, "-c", _SPIN], directory / f"hog-{n}.log") for n in range(count)]
    try:
        for hog in hogs:
            hog.start()
        yield hogs
    finally:
        for hog in hogs:
            hog.kill()


class Processor(NamedTuple):
    """Seconds for which a process's first thread, its loop, ran, and was ready to run and had to wait."""

    ran_s: float
    waited_s: float

    def since(self, before: Processor) -> Processor:
        return Processor(self.ran_s - before.ran_s, self.waited_s - before.waited_s)

    @property
    def starved(self) -> float:
        """The share of what it wanted that it had to wait for."""
        return self.waited_s / max(self.ran_s + self.waited_s, 1e-9)


def processor_of(pid: int | None) -> Processor:
    ran_ns, waited_ns, _ = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()
    return Processor(int(ran_ns) / 1e9, int(waited_ns) / 1e9)
