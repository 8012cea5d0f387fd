"""`make bench-before BASE=<commit>`: is anything slower than it was there, or does it take more CPU?

Both commits' stacks run all the time, and each program runs against one, then the other; who is first changes. One run
of each goes before, and is thrown away. The last line is one JSON object; the exit code is 1 where something is worse.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from loadtest.before.packages import python_path
from loadtest.before.rows import PROGRAMS, ROUNDS, ROWS, Pair, Program, records_of, verdict
from loadtest.kafka.comparison import in_turn

ROOT: Final = Path(__file__).resolve().parents[2]
_LIMIT_S: Final = 300.0
_STOP_LIMIT_S: Final = 60.0
_LEAST_PAIRS: Final = 5


class Commit:
    """A product at work in a process of its own."""

    def __init__(self, tree: Path, directory: Path) -> None:
        self.log: Final = directory.with_suffix(".log")
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "loadtest.before.side", str(directory)],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": os.pathsep.join([python_path(tree), str(ROOT)])},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        product = self._answer()["product"]
        if Path(product) != tree:
            raise RuntimeError(f"the product of {tree} was to be measured, and that of {product} runs")

    def run(self, program: str, records: int) -> dict[str, Any]:
        """RuntimeError where it fails or takes too long."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{program} {records}\n")
        self._process.stdin.flush()
        return self._answer()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=_LIMIT_S)
        except queue.Empty:
            line = ""
        if not line:
            raise RuntimeError(f"{self.log.stem} has not answered:\n{self.log.read_text()[-3000:]}")
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def both(base: str, directory: Path) -> Iterator[tuple[Commit, Commit]]:
    """This tree as it stands, and the commit."""
    before = directory / "tree"
    before.mkdir()
    archive = subprocess.run(["git", "archive", base], cwd=ROOT, capture_output=True, check=True, timeout=60).stdout
    subprocess.run(["tar", "-x", "-C", str(before)], input=archive, check=True, timeout=60)
    commits: list[Commit] = []
    try:
        for name, tree in (("this", ROOT), ("before", before)):
            commits.append(Commit(tree, directory / name))  # those that run are stopped
        yield commits[0], commits[1]
    finally:
        for commit in commits:
            commit.stop()


def measured(program: Program, commits: tuple[Commit, Commit], pairs: int) -> list[Pair]:
    """Run after run, and who is first changes; so many neighbours are a pair."""
    runs = in_turn(commits, pairs * ROUNDS, lambda commit, _: commit.run(program, records_of(program)))
    found: list[Pair] = []
    for number in range(0, len(runs), ROUNDS):
        this, before = zip(*runs[number : number + ROUNDS], strict=True)
        found.append((this, before))
    for row in (row for row in ROWS if row.program == program):
        ratios = " ".join(f"{row.ratio(pair):.2f}" for pair in found)
        sides = [", ".join(f"{row.best(runs):.4g}" for runs in side) for side in zip(*found, strict=True)]
        print(f"{row.name}: {ratios} (this {sides[0]}; before {sides[1]})", flush=True)
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="a commit")
    parser.add_argument("--pairs", type=int, default=_LEAST_PAIRS)
    parser.add_argument("--only", default="", help="programs, with commas between: " + ", ".join(PROGRAMS))
    given = parser.parse_args(arguments)
    only = [name for name in given.only.split(",") if name]
    if given.pairs < _LEAST_PAIRS:
        parser.error(f"{given.pairs} pairs tell nothing: PAIRS={_LEAST_PAIRS} at least")
    if unknown := set(only) - set(PROGRAMS):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    known = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{given.base}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if known.returncode != 0:
        parser.error(f"{given.base!r} is no commit here: BASE=main~1")
    began = time.monotonic()
    pairs: dict[Program, list[Pair]] = {}
    with tempfile.TemporaryDirectory(prefix="ottla-before-") as directory, both(given.base, Path(directory)) as commits:
        for program in only or PROGRAMS:
            pairs[program] = measured(program, commits, given.pairs)
    print(f"{given.pairs} pairs of {ROUNDS} runs each in {time.monotonic() - began:.0f} s")
    found = verdict(pairs)
    print(json.dumps(found))
    return int(bool(found["worse"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
