"""A seed counts what happens and collects violations, whatever its workload is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

_MOST: Final = 20
_LONGEST: Final = 500
"""A value may have thousands of bytes."""


@dataclass(slots=True)
class Findings:
    """This has the number of times that each thing happened, and the first 20 violations."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def violate(self, text: str) -> None:
        if len(self.violations) < _MOST:
            self.violations.append(text[:_LONGEST])
