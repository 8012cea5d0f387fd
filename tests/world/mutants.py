"""Mends of defects that adversaries found. Taken out, each defect has to be found by the world again.

They are stories of tests/regressions. A name stands for one finding, which may have had two mends that each suffice.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MUTANTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "L1": (
            "segments-above-the-recovery-point-are-compacted",
            "recovery-takes-epochs-from-what-a-clean-left",
        ),
        "L3": ("emptied-log-has-no-epoch", "emptied-follower-joins-the-isr"),
        "follower-before-the-start": ("follower-before-its-leaders-start-never-came-back",),
    }
)
SEEDS: Final = 150
"""Within so many seeds, which is about five minutes of one processor, each is found."""
