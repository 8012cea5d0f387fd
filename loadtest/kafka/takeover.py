"""The worst time without an EndTxn when the coordinator that leads is killed, beside what it may be. Of ottla alone."""

from __future__ import annotations

from typing import Final

from loadtest.kafka.comparison import Figure, Goal, Pair
from loadtest.programs import run

FIGURE: Final = Figure("txn_takeover", "worst EndTxn gap of 50 kills of its coordinator", Goal(most=1), "seconds", "s")
_LIMIT_S: Final = 6.0


def measure() -> list[Pair]:
    return [({"seconds": run("rows.txn_takeover", "--kills", "50")["worst_s"]}, {"seconds": _LIMIT_S})]
