"""`python -m tests.growth --units 20`: does the work, finds what grows, and plants leaks that must be found.

The last line is JSON. Exit code 0: enough structures were seen in every role, none has grown, no bound is exceeded or
stale, nothing was skipped, and each planted leak was found.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.growth import leaks
from tests.growth.bounds import BOUNDS
from tests.growth.measurement import Measurement
from tests.growth.run import LONG, SHORT, Outcome, run
from tests.growth.verdict import Verdict, described, judge
from tests.growth.work import KINDS

LEAST_STRUCTURES: Final = 30
LEAST_UNITS: Final = 4
"""The least units of a batch: with fewer, half of them are too small a number to judge."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.growth", description=__doc__)
    parser.add_argument("--units", type=int, default=12, help="of a batch; there are seven")
    parser.add_argument("--seed", type=int, default=0, help="the order of what units do; by chance by default")
    parser.add_argument("--directory", type=Path, default=Path("build/growth"), help="for the raw measurements")
    given = parser.parse_args(arguments)
    if given.units < LEAST_UNITS:
        parser.error(f"--units is {LEAST_UNITS} or more")
    seed = given.seed or random.randrange(1, 1 << 31)
    directory = given.directory.absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}"
    directory.mkdir(parents=True)

    def in_doubt(measurements: Sequence[Measurement]) -> bool:
        return bool(judge(measurements, BOUNDS).grown)

    outcome = run(LONG, given.units, seed, with_turns=True, tell=_tell, in_doubt=in_doubt)
    verdict = judge(outcome.measurements, BOUNDS)
    _write(directory / "unbroken.json", outcome)
    for line in described(verdict):
        _tell(line)

    _tell("the same with planted leaks")
    with leaks.planted():
        leaking = run(SHORT, max(LEAST_UNITS, given.units // 3), seed, with_turns=True, tell=_tell)
    _write(directory / "leaking.json", leaking)
    found = leaks.found(judge(leaking.measurements, BOUNDS))
    for leak in leaks.LEAKS:
        _tell(f"{'found' if leak in found else 'NOT FOUND'}: {leak.name}")

    skipped = sorted(KINDS.keys() - {kind for kind, times in outcome.done.items() if times})
    of_leaks = {"leaks": len(leaks.LEAKS), "leaks_found": len(found), "skipped": skipped}
    print(json.dumps(_summary(outcome, verdict, seed, directory) | of_leaks))
    good = is_good(verdict) and len(found) == len(leaks.LEAKS) and not skipped
    return 0 if good else 1


def is_good(verdict: Verdict) -> bool:
    enough = verdict.structures >= LEAST_STRUCTURES
    return enough and not (verdict.grown or verdict.over or verdict.stale)


def _summary(outcome: Outcome, verdict: Verdict, seed: int, directory: Path) -> dict[str, Any]:
    return {
        "structures": verdict.structures,
        "grown": len(verdict.grown),
        "over": len(verdict.over),
        "stale": len(verdict.stale),
        "roles": len(verdict.roles),
        "units": outcome.measurements[-1].units,
        "done": dict(outcome.done),
        "restarts": outcome.restarts,
        "seed": seed,
        "seconds": round(outcome.seconds),
        "raw": str(directory),
    }


def _write(path: Path, outcome: Outcome) -> None:
    """Write every measurement as it was taken."""
    rows = [
        {
            "kind": m.kind,
            "units": m.units,
            "life": m.life,
            "seconds": m.seconds,
            "idle_cpu_s": m.cpu_s,
            "sizes": {f"{s.role}: {s.name} ({s.kind})": size for s, size in sorted(m.sizes.items())},
        }
        for m in outcome.measurements
    ]
    path.write_text(json.dumps(rows, indent=1))


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
