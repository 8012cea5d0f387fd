"""The row and its mutants, run and told: for people, and in the last line for machines."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tests.faults.mirrored.rows import LEAST_CUTS, LEAST_KILLS, LEAST_REDIS_KILLS, MINUTES, MUTANT_ROWS, ROW
from tests.faults.mirrored.run import MirroredResult, MirroredRun
from tests.faults.mirrored.sites import REDIS
from tests.faults.mutants_caught import catch_all
from tests.faults.report import print_aligned, print_summary

LEAST_TRANSLATIONS: Final = 1_000
LEAST_REDIS_TRANSLATIONS: Final = 1_000
LEAST_COMPARED: Final = 50_000
LEAST_IDLE_DAYS: Final = 40
LEAST_EXPIRED: Final = 200
LEAST_MOVED: Final = 180
LEAST_EXACT: Final = 150
"""With at_least_once records may come twice."""


def run_mirrored(chosen: Collection[str], minutes: float, directory: Path, seed: int, *, unbroken: bool) -> int:
    """The exit code: 0 where nothing was found, every floor was reached and each mutant was caught.

    The row has its mutants with it, but where `minutes` say how long it takes. With `unbroken` the mutants' faults come
    without the mutants, and nothing is found there either."""
    began = time.monotonic()
    broken = [row for row in MUTANT_ROWS if row.name in chosen or (ROW.name in chosen and not minutes)]
    caught = catch_all(broken, MirroredRun, directory, seed, unbroken=unbroken)
    result = MirroredResult(ROW)
    if ROW.name in chosen:
        seconds = (minutes or ROW.minutes) * 60
        print(f"{ROW.name}: {ROW.title}, {seconds / 60:g} minutes of it; seed {seed} …", flush=True)
        result = MirroredRun(ROW, directory / ROW.name, seed).run(seconds)
        result.failures += _missed(result, seconds / 60 / MINUTES)
        print_aligned([("killed", "times"), *((kind, str(n)) for kind, n in sorted(result.kills_by_kind.items()))])
        print(f"{ROW.name}: {'FAILED' if result.failures else 'as it must be'}, {result.seconds:.0f} s", flush=True)
        for failure in result.failures:
            print(f"{ROW.name}: {failure}")
    findings = result.findings
    print_summary(
        {
            "kills": result.kills,
            "redis_kills": result.kills_by_kind.get(REDIS, 0),
            "link_cuts": result.link_cuts,
            "compared": findings.compared,
            "acked": findings.acknowledged,
            "lost": findings.counts["lost"],
            "doubled_eos": findings.counts["doubled"],
            "doubled_at_least_once": findings.doubled_least,
            "translations": findings.translations,
            "redis_translations": findings.redis_translations,
            "past_true": findings.counts["past_true"],
            "max_behind_batches": findings.most_behind,
            "untranslated": result.untranslated,
            "idle_days": result.idle_days,
            "expired": result.expired,
            "moved": result.moved,
            "exact": result.exact,
            **{kind: n for kind, n in findings.counts.items() if kind not in ("lost", "doubled", "past_true")},
            "mutants": 0 if unbroken else len(broken),
            "mutants_caught": caught.number,
            "seconds": round(time.monotonic() - began, 1),
            "seed": seed,
            "history": str(directory),
        }
    )
    return 1 if result.failures or caught.failed else 0


def _missed(result: MirroredResult, share: float) -> list[str]:
    """In words, what was done too little of to mean anything; `share` of the whole row can be asked for, but of its
    months all."""
    findings, share = result.findings, min(1.0, share)
    did = (
        ("kills", result.kills, LEAST_KILLS),
        ("kills of Redis", result.kills_by_kind.get(REDIS, 0), LEAST_REDIS_KILLS),
        ("link cuts", result.link_cuts, LEAST_CUTS),
        ("translations", findings.translations, LEAST_TRANSLATIONS),
        ("translations by Redis", findings.redis_translations, LEAST_REDIS_TRANSLATIONS),
        ("compared", findings.compared, LEAST_COMPARED),
    )
    of_months = (
        ("idle days", result.idle_days, LEAST_IDLE_DAYS),
        ("expired positions", result.expired, LEAST_EXPIRED),
        ("positions of groups that were moved", result.moved, LEAST_MOVED),
        ("… at the very record", result.exact, LEAST_EXACT),
    )
    floors = [*((what, count, int(least * share)) for what, count, least in did), *of_months]
    return [f"{what}: {count}, the floor is {least}" for what, count, least in floors if count < least]
