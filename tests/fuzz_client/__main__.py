"""`python -m tests.fuzz_client --cases 50000 --seed 7`: a hostile server against the SDK's Kafka transport.

Everything that the clients ask, in every version, and whole producers and consumers, each against a server that is
honest but for one response. Each has to get a response or one clear error, in time, and leaves nothing behind.
Afterwards the same with a planted bug each, which must be found. Exit code 0: nothing was found, and every planted bug.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final

from tests.fuzz_client.case import Case, cases
from tests.fuzz_client.exchanges import LEVELS
from tests.fuzz_client.judge import Listener, faults_of
from tests.fuzz_client.planted import PLANTED
from tests.fuzz_client.player import HostileServer, Player
from tests.fuzz_client.report import load_cases, print_summary, print_table, save_cases, summary
from tests.fuzz_client.run import run

_ALL: Final = "all"
_PLANTED_LIMIT_S: Final = 300.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_client", description=__doc__)
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0, help="which cases there are; by chance by default")
    parser.add_argument("--planted", default=_ALL, help=f"all, none, or some of {', '.join(PLANTED)}")
    parser.add_argument("--directory", type=Path, default=Path("build/fuzz-client"), help="for failing cases")
    parser.add_argument("--replay", type=Path, help="a file of failing cases: play each of them alone")
    given = parser.parse_args(arguments)
    planted = list(PLANTED) if given.planted == _ALL else [n for n in given.planted.split(",") if n not in ("", "none")]
    if unknown := [name for name in planted if name not in PLANTED]:
        parser.error(f"nobody has planted {', '.join(unknown)}; there are {', '.join(PLANTED)}")
    if given.replay is not None:
        return _replay(load_cases(given.replay))

    seed = given.seed or random.randrange(1, 1 << 31)
    print(f"seed {seed}, {given.cases:,} cases", flush=True)
    outcome = run(cases(LEVELS, given.cases, seed), show=partial(print, flush=True))
    print_table(outcome)
    failing = given.directory / f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}.jsonl"
    if save_cases(outcome, failing):
        print(f"try them again: python -m tests.fuzz_client --replay {failing}")
    found = sum(_is_found(name, seed) for name in planted)
    print_summary(summary(outcome, seed=seed, planted=len(planted), planted_found=found))
    return 1 if outcome.findings or outcome.cases < given.cases or found < len(planted) else 0


def _is_found(name: str, seed: int) -> bool:
    begun = time.monotonic()
    command = [sys.executable, "-m", "tests.fuzz_client.planted", name, str(seed)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PLANTED_LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"planted {name}: NOT FOUND in {_PLANTED_LIMIT_S:g} s", flush=True)
        return False
    lines = done.stdout.splitlines()
    # Players that have not ended yet may print something behind the summary.
    last = next((line for line in reversed(lines) if line.startswith("{")), "")
    is_found = done.returncode == 1 and last != ""
    kind = PLANTED[name].kind
    words = next((line[:150] for line in lines if line.startswith(f"{kind}:")), done.stderr[-500:])
    after = f"after {json.loads(last)['cases']:,} cases: {words}" if is_found else f"NOT FOUND: {words}"
    print(f"planted {name}: {after} ({time.monotonic() - begun:.0f} s)", flush=True)
    return is_found


def _replay(replayed: list[Case]) -> int:
    failed = 0
    with HostileServer() as server, Listener() as listener:
        player = Player(server)
        for case in replayed:
            ending = player.play(case)
            faults = [*faults_of(case, ending, player.address), *(fault for _, fault in listener.take())]
            failed += bool(faults)
            print(f"{case.as_json()}: {ending.how.value} {ending.words}".rstrip())
            for fault in faults:
                print(f"  {fault.kind}: {fault.words}")
        player.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
