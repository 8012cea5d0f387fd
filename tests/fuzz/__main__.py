"""`python -m tests.fuzz --cases 200000 --seed 7`: fuzzes the Kafka listener of a real broker and says what it found.

Every API and every version of the dispatch table, and unknown ones, while a client that does nothing wrong goes on.
Afterwards brokers with a planted bug each, which must be found. Exit code 0: nothing was found, and every planted bug.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Final

from tests.fuzz.planted import PLANTED
from tests.fuzz.report import lines_of, load_cases, print_summary, print_table, save_cases, summary
from tests.fuzz.run import Outcome, replay, run
from tests.fuzz.stack import Stack

_PLANTED_CASES: Final = 80_000
_PLANTED_MEMORY_MB: Final = 4_096
_ALL: Final = "all"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0, help="which cases there are; by chance by default")
    parser.add_argument("--planted", default=_ALL, help=f"all, none, or some of {', '.join(PLANTED)}")
    parser.add_argument("--directory", type=Path, default=Path("build/fuzz"), help="for data, logs and failing cases")
    parser.add_argument("--replay", type=Path, help="a file of failing cases: send each of them alone")
    given = parser.parse_args(arguments)
    planted = list(PLANTED) if given.planted == _ALL else [n for n in given.planted.split(",") if n not in ("", "none")]
    if unknown := [name for name in planted if name not in PLANTED]:
        parser.error(f"nobody has planted {', '.join(unknown)}; there are {', '.join(PLANTED)}")
    seed = given.seed or random.randrange(1, 1 << 31)
    directory = given.directory.absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}"
    if given.replay is not None:
        return _replay(given.replay, directory)

    print(f"seed {seed}, {given.cases:,} cases; logs and failing cases in {directory}", flush=True)
    with Stack(directory / "product") as stack:
        outcome = run(stack, given.cases, seed, show=print)
    print_table(outcome)
    failing = directory / "failing.jsonl"
    if save_cases(outcome, failing):
        print(f"try them again: python -m tests.fuzz --replay {failing}")
    found = sum(_is_found(name, directory, seed) for name in planted)
    print_summary(summary(outcome, planted=len(planted), planted_found=found, seed=seed))
    return 1 if outcome.findings or outcome.cases < given.cases or found < len(planted) else 0


def _is_found(name: str, directory: Path, seed: int) -> bool:
    begun = time.monotonic()
    with Stack(directory / name, planted=name, memory_limit_mb=_PLANTED_MEMORY_MB) as stack:
        outcome = run(stack, _PLANTED_CASES, seed, stop_at_first=True, show=lambda _: None)
    print(f"planted {name}: {_verdict(outcome)} ({time.monotonic() - begun:.0f} s)", flush=True)
    return bool(outcome.findings)


def _verdict(outcome: Outcome) -> str:
    if not outcome.findings:
        return f"NOT FOUND in {outcome.cases:,} cases"
    first = outcome.findings[0]
    return f"found after {outcome.cases:,} cases: {first.kind}, {first.words.splitlines()[0][:100]}"


def _replay(file: Path, directory: Path) -> int:
    with Stack(directory / "replay") as stack:
        told = replay(stack, load_cases(file))
        ended = stack.ended
    print("\n".join(lines_of(told)))
    return 1 if ended or any(words or bugs for _, _, words, bugs in told) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
