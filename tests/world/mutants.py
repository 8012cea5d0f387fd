"""Mends of defects that adversaries found, and rules of the protocol. Taken out, each has to be missed by the world.

Mends are stories of tests/regressions, rules are mutants of tests/faults. A name stands for one finding, which may have
had two mends that each suffice.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from tests.faults.mutants import MUTANTS as RULES
from tests.regressions.injection import Report
from tests.regressions.stories import ALL as STORIES

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


def take_out(name: str) -> None:
    """Take a mend or a rule out of this process for good."""
    if name in RULES:
        RULES[name]()
        return
    for injection in STORIES[name].injections:
        injection.put_in_place(import_module(injection.module), Report())
