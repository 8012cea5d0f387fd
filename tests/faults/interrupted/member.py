"""What the programs that are interrupted have in common: how they are told, and the member of a group that they are."""

from __future__ import annotations

import argparse
from typing import Any, Final

AT_ONCE: Final = 20
FIRST_S: Final = 20.0
"""Until the first records have come."""
MOST_S: Final = 0.004
"""Until an interrupt that comes at any time."""
AIMED: Final = 0.6
"""The share of those that wait until something is in hand."""


def parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    for name in ("bootstrap", "topic", "group"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--interrupts", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutant", action="store_true", help="positions move before records are handed out")
    return parser


def settings(given: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the member's consumer."""
    return {
        "bootstrap": given.bootstrap,
        "group": given.group,
        "auto_offset_reset": "earliest",
        "auto_commit_interval": 0.05,
        "max_poll_records": AT_ONCE,
        "key": "bytes",
        "value": "bytes",
    }
