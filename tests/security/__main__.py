"""Runs `make security`: it tries who may do what, at a real cluster and at Apache Kafka.

The parts are the requests of Kafka clients by users with different ACLs, the calls between services by each role,
Kafka's clients while passwords, certificates and brokers change, bytes that nobody should send, secrets that must be
seen nowhere, bursts of hellos and guessed passwords, and mistakes in the product that have to be noticed.
`--only matrix,calls` runs a part of them, which proves no more than that part.

The last line is one JSON object. The exit code is 0 if no cell is wrong, no secret was seen, bursts are within their
bounds, every mutant was caught, and nothing was below its floor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from private_cells import try_private
from tests.regressions.judge import Judge, Verdict
from tests.security import burst, calls, clients, exchange_fuzz, port_fuzz
from tests.security.doors import found_in, fuzzed_broker, kafka_door, ottla_door
from tests.security.matrix import Matrix, try_all
from tests.security.mutants import MUTANTS

_LEAST_FUZZ: Final = 100_000
_EXCHANGES: Final = 60_000
_LEAST_MUTANTS: Final = 9
_LEAKS: Final = (
    "tests/system/test_guarded_cluster.py",
    "tests/system/test_kafka_logins.py",
    "tests/system/test_kafka_tls.py",
)
"""The clusters of these tests have planted secrets, and their logs and pages are searched."""


class Proof:
    """What was found. `said` becomes the last line."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder: Final = folder
        self.seed: Final = seed
        self.said: Final[dict[str, Any]] = {
            "methods": 0,
            "cells": 0,
            "wrong": 0,
            "differs_from_kafka": [],
            "mechanisms": 0,
            "clients": [],
            "fuzz": 0,
            "leaks": 0,
            "burst": {},
            "mutants": 0,
            "mutants_caught": 0,
            "seed": seed,
        }
        self.faults: Final[list[str]] = []

    def add(self, matrix: Matrix) -> None:
        self.said["methods"] += len(matrix.methods)
        self.said["cells"] += matrix.cells
        self.said["wrong"] += len(matrix.wrong)
        self.said["differs_from_kafka"] += matrix.differs
        self.faults.extend(matrix.wrong)

    # ---- its parts -------------------------------------------------------------------------------------------------

    def matrix(self) -> None:
        """Try the requests of Kafka clients, and the private ones."""
        with ottla_door(self.folder / "ottla") as ours, kafka_door(self.folder / "kafka") as kafka:
            self.add(try_all(ours, kafka))
        self.add(asyncio.run(try_private()))

    def calls(self) -> None:
        """Try the calls between services."""
        self.add(calls.run(self.folder / "services"))

    def clients(self) -> None:
        """Have each of Kafka's clients log in in each way, and go on."""
        outcome = clients.try_all(self.folder / "clients")
        self.said["clients"], self.said["mechanisms"] = outcome.clients, outcome.mechanisms
        self.said["cells"] += outcome.cells
        self.said["wrong"] += len(outcome.wrong)
        self.faults.extend(outcome.wrong)

    def fuzz(self) -> None:
        """Send what nobody should send."""
        for each in (exchange_fuzz.scram, exchange_fuzz.plain):
            each(self.seed, _EXCHANGES // 2)
            self.said["fuzz"] += _EXCHANGES // 2
        with fuzzed_broker(self.folder / "fuzzed") as (stack, ports):
            for port, cases, draws in zip(ports, (15_000, 20_000, 15_000), port_fuzz.DRAWS, strict=True):
                told = asyncio.run(port_fuzz.fuzz(port, self.seed, cases, draws))
                print(f"{told.cases} connections, of which these were answered: {dict(told.answered)}", flush=True)
                self.said["fuzz"] += told.cases
                self.faults.extend(told.wrong)
            self.faults.extend(found_in(stack))

    def leaks(self) -> None:
        """Search for planted secrets."""
        verdict, end = Judge(self.folder).with_mends(_LEAKS)
        if verdict is not Verdict.PASSED:
            self.said["leaks"] += 1
            self.faults.append(f"planted secrets: {verdict.value}\n{end}")

    def burst(self) -> None:
        """Measure what attackers at one address cost a client at another."""
        outcome = burst.run(self.folder / "burst")
        self.said["burst"] = outcome.as_json()
        self.faults.extend(outcome.wrong)

    def mutants(self) -> None:
        """Make each mistake, after its tests have passed without it."""
        judge = Judge(self.folder)
        for name, mutant in MUTANTS.items():
            before, end_before = judge.with_mends(mutant.tests)
            with_it, end = judge.without_mend(mutant.story, mutant.tests)
            is_caught = before is Verdict.PASSED and with_it is Verdict.FAILED
            self.said["mutants"] += 1
            self.said["mutants_caught"] += is_caught
            print(f"{name}: {'caught' if is_caught else 'not caught'}", flush=True)
            if not is_caught:
                self.faults.append(f"{name}: {before.value}, with the mistake {with_it.value}\n{end_before}\n{end}")

    @property
    def parts(self) -> Mapping[str, Callable[[], None]]:
        parts = (self.matrix, self.calls, self.clients, self.fuzz, self.leaks, self.burst, self.mutants)
        return {each.__name__: each for each in parts}

    def check_floors(self) -> None:
        for what, least in (("fuzz", _LEAST_FUZZ), ("mutants", _LEAST_MUTANTS)):
            if self.said[what] < least:
                self.faults.append(f"{what}: {self.said[what]} is below the floor of {least}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.security", description=__doc__)
    parser.add_argument("--only", default="", help="parts, with commas between")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-security-") as folder:
        proof = Proof(Path(folder), options.seed)
        only = [name for name in options.only.split(",") if name]
        if unknown := [name for name in only if name not in proof.parts]:
            parser.error(f"no such part: {', '.join(unknown)}")
        for name, run in proof.parts.items():
            if not only or name in only:
                run()
                print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
        if not only:
            proof.check_floors()
    for fault in proof.faults:
        print(fault)
    print(json.dumps({**proof.said, "seconds": round(time.monotonic() - begun)}), flush=True)
    return int(bool(proof.faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
