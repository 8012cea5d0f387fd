"""A seed counts what happens and collects violations, whatever its workload is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.world.telling import JUDGE

_MOST: Final = 20
_VALUES: Final = re.compile(r"b'[^']*'|\([^()]*\)|-?\d+(\.\d+)?|(Partition|Transaction)\(.*")
_LONGEST: Final = 500
"""A text is cut to this length, because a value may have thousands of bytes."""


@dataclass(slots=True)
class Findings:
    """This counts how often each thing happened, and keeps the first 20 violations.

    `note` adds each violation to the trace of the world.
    """

    note: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def violate(self, text: str) -> None:
        if len(self.violations) < _MOST:
            self.violations.append(text[:_LONGEST])
            self.note(f"{JUDGE}{text[:_LONGEST]}")


def kind_of(violation: str) -> str:
    """Return the violation without offsets, values and names, which differ between two runs that show one defect."""
    return _VALUES.sub("…", violation)
