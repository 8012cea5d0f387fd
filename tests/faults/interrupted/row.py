"""F29: what was interrupted how often, and what came of it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.faults.interrupted.notes import Notes
from tests.faults.node import python_path

import ottla
from ottla.testing import Cluster

TITLE: Final = "programs that consume, produce and copy exactly once are interrupted and cancelled"
NAME: Final = "F29"
MUTANT: Final = "positions-move-first"
MINUTES: Final = 6.0
LEAST_INTERRUPTS: Final = 1000
LEAST_IN_HAND: Final = 100
LEAST_OF_EACH: Final = 50
_OF_MUTANTS: Final = 30
_SPARK: Final = "spark"
_SWEEP: Final = "sweep"
_WANTED: Final[Mapping[str, int]] = MappingProxyType(
    {
        "iteration": 160,
        "poll": 120,
        "batches": 60,
        "asyncio": 150,
        "producing": 220,
        "copying": 220,
        "copying-asyncio": 150,
        _SPARK: 52,
        _SWEEP: 0,
    }
)
_MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "asyncio": "asynchronous",
        "producing": "producing",
        "copying": "copying",
        "copying-asyncio": "async_copying",
        _SPARK: "streaming",
        _SWEEP: "sweeping",
    }
)
"""The others are kinds of `program`."""
_WITH_MUTANT: Final = ("iteration", "poll", "batches", "asyncio", "copying", "copying-asyncio")
"""Those that a mutant makes leave records out."""
_LONG: Final = ("copying-asyncio", _SPARK, _SWEEP)
_LONG_FROM: Final = 0.5
"""The share of the row from which on these are worth their time: a JVM, and places one by one."""
_PARTITIONS: Final = 3
_RECORDS: Final = 2_400_000
"""For each program: a fast machine reads a million while it is interrupted."""
_FEWEST_RECORDS: Final = 500_000
_LIMIT_S: Final = 900.0
_PRODUCED: Final = f"{NAME}-produced"
_MUTANT_FLAG: Final = "--mutant"


@dataclass(slots=True)
class Run:
    """What every program noted; `caught` are those whose mutant left records out."""

    notes: dict[str, Notes] = field(default_factory=dict)
    caught: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)

    def total(self, what: str) -> int:
        """Return the sum over all programs."""
        return sum(getattr(notes, what) for notes in self.notes.values())

    @property
    def interrupts(self) -> int:
        return sum(notes.interrupts.total() for notes in self.notes.values())


def run_interrupted_row(directory: Path, *, share: float, seed: int) -> Run:
    """All programs, one after the other, with `share` of their interrupts; then the SDK's with the mutant."""
    run = Run()
    directory.mkdir(parents=True, exist_ok=True)
    with Cluster(txn_coordinators=1) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create(NAME, partitions=_PARTITIONS)
            for topic in _written():
                admin.topics.create(topic, partitions=_PARTITIONS)
        with ottla.Producer[Any, Any](cluster.bootstrap, topic=NAME, value="bytes") as producer:
            for _ in range(max(_FEWEST_RECORDS, int(min(1.0, share) * _RECORDS))):
                producer.send(b"a record of this size")
        for kind, wanted in _WANTED.items():
            count = math.ceil(wanted * share)
            if kind not in _LONG or share >= _LONG_FROM:
                print(f"{kind}: {count} interrupts …", flush=True)
                notes = _program(kind, cluster.bootstrap, directory, count, seed, run)
                if notes is not None:
                    run.notes[kind] = notes
                    print(f"{kind}: {notes.told()}", flush=True)
        for kind in with_mutant(share):
            mutant = _program(kind, cluster.bootstrap, directory, _OF_MUTANTS, seed, run, _MUTANT_FLAG)
            if mutant is not None and mutant.skipped:
                run.caught.add(kind)
    run.failures += _failures(run, share)
    return run


def with_mutant(share: float) -> list[str]:
    """Return the kinds that run with the mutant too."""
    return [kind for kind in _WITH_MUTANT if kind not in _LONG or share >= _LONG_FROM]


def environment() -> dict[str, str]:
    """Return the environment of a program. It finds the modules that tests share, as pytest does."""
    return os.environ | {"PYTHONPATH": python_path(Path(__file__).parents[2] / "support")}


def _written() -> list[str]:
    """Return the topics that the programs write to."""
    groups = [group for kind in ("copying", "copying-asyncio") for group in (kind, f"{kind}-{_MUTANT_FLAG}")]
    return [_PRODUCED, *(f"{NAME}-{group}" for group in groups)]


def _program(kind: str, bootstrap: str, directory: Path, count: int, seed: int, run: Run, *more: str) -> Notes | None:
    module = _MODULES.get(kind, "program")
    topic = _PRODUCED if kind == "producing" else NAME
    arguments = ["--bootstrap", bootstrap, "--topic", topic, "--interrupts", str(count), "--seed", str(seed), *more]
    if kind == _SPARK:
        arguments += ["--directory", str(directory)]
    else:
        arguments += ["--group", "-".join((kind, *more))]
    if module == "program":
        arguments += ["--kind", kind]
    command = [sys.executable, "-m", f"tests.faults.interrupted.{module}", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, env=environment())
    except subprocess.TimeoutExpired:
        run.failures.append(f"{kind}: it did not end within {_LIMIT_S:g} s")
        return None
    (directory / f"{'-'.join((kind, *more))}.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        run.failures.append(f"{kind}: it ended with {done.returncode}: {done.stderr.splitlines()[-1:]}")
        return None
    return Notes.of(json.loads(done.stdout.splitlines()[-1]))


def _failures(run: Run, share: float) -> list[str]:
    floors = {
        "interrupts": (run.interrupts, LEAST_INTERRUPTS),
        "interrupts with records in hand": (run.total("in_hand"), LEAST_IN_HAND),
        **{
            f"interrupts of {kind}": (run.notes[kind].interrupts.total() if kind in run.notes else 0, LEAST_OF_EACH)
            for kind in _WANTED
            if kind != _SWEEP and (kind not in _LONG or share >= _LONG_FROM)
        },
    }
    few = [
        f"{what}: {count}, and not {math.ceil(least * min(1.0, share) * 0.9)}"
        for what, (count, least) in floors.items()
        if count < (least if share >= 1.0 else math.floor(least * share * 0.9))
    ]
    wrong = [
        f"{kind}: {notes.skipped} records left out, {notes.misplaced} positions or records where they should not be"
        for kind, notes in run.notes.items()
        if notes.skipped or notes.misplaced
    ]
    return few + wrong
