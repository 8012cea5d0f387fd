"""Records a second of one user, by scenario: as `--rate` spells them, and as a run reached them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def parse_rates(text: str) -> dict[str, float]:
    """ "ProduceSmall=5000,Replay=0" as a mapping. Raises ValueError."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name: float(rate) for name, _, rate in pairs}


def rates_text(rates: Mapping[str, float]) -> str:
    """The way back."""
    return ",".join(f"{name}={rate:.1f}" for name, rate in rates.items())


def reached(report: Mapping[str, Any], share: float = 1.0) -> dict[str, float]:
    """That share of what each scenario did in a second, in a timeline's report of one user each."""
    return {name: row["records"] / max(1, report["seconds"]) * share for name, row in report["scenarios"].items()}
