"""`python -m tests.regressions`: every story's tests pass, and with its mend taken out one of them fails.

The last line is one JSON object; the exit code is 1 unless every story has a mend to take out and is caught without.
`--only a,b` runs those alone; `--page` writes docs/regressions.md instead, and `--check` fails where that is stale.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.regressions.judge import Judge, Verdict
from tests.regressions.marked import tests_by_story
from tests.regressions.page import PAGE, page
from tests.regressions.stories import ALL
from tests.regressions.story import Story


def misfits(stories: Mapping[str, Story], tests: Mapping[str, Sequence[str]]) -> list[str]:
    """Stories that nothing tells or takes out, and markers of stories that are not there."""
    return [
        *(f"{name}: no test is marked with it" for name in stories.keys() - tests.keys()),
        *(f"{name}: has nothing that takes its mend out" for name, story in stories.items() if not story.injections),
        *(
            f"{name}: {tests[name][0]} is marked with it, and there is no such story"
            for name in tests.keys() - stories.keys()
        ),
    ]


def run(
    stories: Mapping[str, Story], tests: Mapping[str, Sequence[str]], judge: Judge, workers: int
) -> dict[str, list[str]]:
    """Say of each story that is still open why it is; `workers` are judged at a time.

    The tests of all stories run together first, because a pytest takes seconds to start.
    """
    begun = time.monotonic()
    every = list(dict.fromkeys(test for name in stories for test in tests[name]))
    not_passed, end_with = judge.not_passed(every, workers)
    print(
        f"{len(every)} tests with all mends, {len(not_passed)} not passed, {time.monotonic() - begun:.0f} s", flush=True
    )

    def why_open(story: Story) -> list[str]:
        told, begun = tests[story.name], time.monotonic()
        without, end = judge.without_mend(story, told)
        failed = [test for test in told if test in not_passed]
        print(f"{story.name}: {without.value} without its mend, {time.monotonic() - begun:.0f} s", flush=True)
        return [
            *([f"{story.name}: not passed with all mends: {', '.join(failed)}\n{end_with}"] if failed else []),
            *([f"{story.name}: {without.value} without its mend\n{end}"] if without is not Verdict.FAILED else []),
        ]

    with ThreadPoolExecutor(workers) as threads:
        reasons = dict(zip(stories, threads.map(why_open, stories.values()), strict=True))
    return {name: why for name, why in reasons.items() if why}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.regressions", description=__doc__)
    parser.add_argument("--only", default="", help="names of stories, with commas between")
    parser.add_argument("--floor", type=int, default=0, help="fails where there are fewer stories")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--page", action="store_true", help="write docs/regressions.md and run nothing")
    parser.add_argument("--check", action="store_true", help="compare it with what would be written and run nothing")
    options = parser.parse_args(arguments)
    names = [name for name in options.only.split(",") if name]
    if unknown := [name for name in names if name not in ALL]:
        parser.error(f"no such story: {', '.join(unknown)}")
    told = {name: ALL[name] for name in names} or ALL
    tests = tests_by_story(names)
    wrong = misfits(told, tests)
    if options.page:
        PAGE.write_text(page(ALL, tests))
    if options.check and PAGE.read_text() != page(ALL, tests):
        wrong.append(f"{PAGE.name}: is stale; run `make coverage-table`")
    runs = not (options.page or options.check)
    stories = {name: story for name, story in told.items() if name in tests}
    found: dict[str, list[str]] = {}
    if runs:
        with tempfile.TemporaryDirectory(prefix="ottla-regressions-") as directory:
            found = run(stories, tests, Judge(Path(directory)), options.workers)
    for line in [*wrong, *(line for why in found.values() for line in why)]:
        print(line)
    if len(ALL) < options.floor:
        print(f"there are {len(ALL)} stories, and {options.floor} are wanted")
    print(
        json.dumps(
            {
                "stories": len(stories),
                "tests": len({test for name in stories for test in tests[name]}),
                "planted": len(stories) if runs else 0,
                "planted_caught": len(stories) - len(found) if runs else 0,
                "open": sorted({*found, *(line.partition(":")[0] for line in wrong)}),
            }
        )
    )
    return int(bool(wrong or found) or len(ALL) < options.floor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
