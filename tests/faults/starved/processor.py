"""How much of the processor a process got, and how long it waited for it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


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
