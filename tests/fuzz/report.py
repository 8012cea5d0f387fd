"""What a run has found: a table for people, failing cases for another try, one JSON object for machines."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.fuzz.cases import Case, Expect
from tests.fuzz.client import End
from tests.fuzz.run import Outcome

_ENDS: Final = tuple(end.value for end in End)


def print_table(outcome: Outcome) -> None:
    """What became of each kind of case."""
    kinds: dict[str, dict[str, int]] = defaultdict(dict)
    for (kind, end), count in outcome.ends.items():
        kinds[kind][end] = count
    rows = [("kind of case", *_ENDS)]
    rows += [(kind, *(f"{of[end]:,}" if end in of else "" for end in _ENDS)) for kind, of in sorted(kinds.items())]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for first, *rest in rows:
        print("  ".join((first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(rest, widths[1:], strict=True)))))


def summary(outcome: Outcome, *, planted: int, planted_found: int, seed: int) -> dict[str, object]:
    return {
        "cases": outcome.cases,
        "keys": len({key for key, _ in outcome.versions}),
        "versions": len(outcome.versions),
        "crashes": outcome.count("crash"),
        "hangs": outcome.count("hang"),
        "faults": outcome.count("fault"),
        "rss_growth_mb": round(outcome.rss_growth_mb, 1),
        "rss_mb": round(max(outcome.rss_mb, default=0.0), 1),
        "planted": planted,
        "planted_found": planted_found,
        "connections": outcome.connections,
        "slowest_ms": round(outcome.slowest_s * 1000),
        "canary_round_trips": outcome.canary_round_trips,
        "canary_slowest_ms": round(outcome.canary_slowest_s * 1000),
        "seconds": round(outcome.seconds, 1),
        "seed": seed,
    }


def print_summary(fields: dict[str, object]) -> None:
    print(json.dumps(fields, separators=(",", ":")), flush=True)


def save_cases(outcome: Outcome, file: Path) -> int:
    """Write the failing cases, one JSON object a line; how many there are."""
    failing = [finding for finding in outcome.findings if finding.case is not None]
    if failing:
        lines = [json.dumps({"found": f.kind, "words": f.words[:500], **_as_json(f.case)}) for f in failing if f.case]
        file.write_text("\n".join(lines) + "\n")
    return len(failing)


def load_cases(file: Path) -> list[Case]:
    return [_from_json(json.loads(line)) for line in file.read_text().splitlines()]


def _as_json(case: Case) -> dict[str, Any]:
    fields = {name: getattr(case, name) for name in Case.__slots__}
    return {**fields, "data": case.data.hex(), "expect": case.expect.name}


def _from_json(told: dict[str, Any]) -> Case:
    fields: dict[str, Any] = {name: told[name] for name in Case.__slots__}
    return Case(**{**fields, "data": bytes.fromhex(told["data"]), "expect": Expect[told["expect"]]})


def lines_of(told: Sequence[tuple[Case, End, str, Sequence[Any]]]) -> list[str]:
    """A replay, in words."""
    lines = []
    for case, end, words, bugs in told:
        lines.append(f"key {case.key} version {case.version}, {case.kind}: {end.value} {words}".rstrip())
        lines += [bug.text for bug in bugs]
    return lines
