"""What a run has found: a table for people, failing cases for another try, one JSON object for machines."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Final

from tests.fuzz_client.case import Case, Level
from tests.fuzz_client.ending import How
from tests.fuzz_client.run import Outcome

_ENDS: Final = (How.RESPONSE.value, How.ERROR.value)


def print_table(outcome: Outcome) -> None:
    """What became of the cases with each misdeed: of calls, streams and whole clients."""
    of_misdeed: dict[str, Counter[str]] = {}
    for (level, misdeed, how), count in outcome.ends.items():
        of_misdeed.setdefault(misdeed, Counter())[f"{level}: {how}"] += count
    columns = sorted({column for counts in of_misdeed.values() for column in counts})
    print("  ".join(("misdeed".ljust(22), *columns)))
    for misdeed, counts in sorted(of_misdeed.items()):
        cells = (
            f"{counts[column]:,}".rjust(len(column)) if counts[column] else " " * len(column) for column in columns
        )
        print("  ".join((misdeed.ljust(22), *cells)).rstrip())


def summary(outcome: Outcome, *, seed: int, planted: int, planted_found: int) -> dict[str, object]:
    return {
        "cases": outcome.cases,
        "whole_clients": sum(n for (level, _, _), n in outcome.ends.items() if Level(level).is_whole_client),
        "exchanges": len(outcome.asked - {""}),
        "versions": len(outcome.versions),
        "hangs": outcome.count("hang"),
        "crashes": outcome.count("crash"),
        "faults": outcome.count("fault", "skipped"),
        "leaks": outcome.count("leak"),
        "growth_mb": round(outcome.growth_mb, 1),
        "peak_mb": round(outcome.peak_growth_mb, 1),
        "retried": outcome.retried,
        "slowest_ms": round(outcome.slowest_s * 1000),
        "planted": planted,
        "planted_found": planted_found,
        "seconds": round(outcome.seconds, 1),
        "seed": seed,
    }


def print_summary(fields: dict[str, object]) -> None:
    print(json.dumps(fields, separators=(",", ":")), flush=True)


def save_cases(outcome: Outcome, file: Path) -> int:
    """Write the failing cases, one JSON object a line. Return how many there are."""
    failing = dict.fromkeys(finding.case for finding in outcome.findings if finding.case is not None)
    if failing:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(case.as_json() + "\n" for case in failing if case is not None))
    return len(failing)


def load_cases(file: Path) -> list[Case]:
    return [Case.from_json(line) for line in file.read_text().splitlines()]
