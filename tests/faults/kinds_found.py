"""What a checker finds, by kind: how often, and the first few in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_EXAMPLES: Final = 10
"""The maximum number of examples of each kind."""


@dataclass(slots=True)
class KindsFound:
    """`counts` has every kind that a checker looks for."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not any(self.counts.values())

    def add(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= _EXAMPLES:
            self.examples.append(f"{kind}: {what}")
