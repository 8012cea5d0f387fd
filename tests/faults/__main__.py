"""`python -m tests.faults --rows F1,F5 --minutes 3`: runs rows of the fault table and says what they found.

All rows of the log and their mutants take at most 15 minutes. The rows of groups (F10, F16, F18) are run by name, each
with its mutants, and have a summary of their own, the last line. So have F19, cleanings that are killed, F20, mirrors
between two clusters, F21, hostile connections, F25 to F28, of disks and the metadata store, which go on until each had
its hits, F30, a starved cluster, whose minutes are those of the busy processes, F31, kill -9 and power cuts at the
seams of the log, F32, groups that change their protocol, F35, restarts beside clients that write exactly once, and
F29, programs that are interrupted, which is run alone.

Exit code 0: every row ran, reached its floors and its goals, and nothing was found;
and every mutant was caught.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from peers.place import PeerError
from tests.faults import network
from tests.faults.compacted.report import run_compacted
from tests.faults.compacted.rows import MUTANT_ROWS as COMPACTED_MUTANTS
from tests.faults.compacted.rows import ROW as COMPACTED_ROW
from tests.faults.disks.mutants import DISK_MUTANTS, DiskMutant, catch
from tests.faults.disks.report import disks_summary
from tests.faults.disks.rows import DISK_ROWS, DiskRow
from tests.faults.disks.run import run_disk_row
from tests.faults.groups.report import group_summary, print_groups
from tests.faults.groups.rows import GROUP_ROWS, MUTANT_GROUP_ROWS, GroupRow
from tests.faults.groups.run import GroupResult, run_group_row
from tests.faults.hostile.report import run_hostile
from tests.faults.hostile.row import HOSTILE_ROW
from tests.faults.interrupted import row as interrupted
from tests.faults.interrupted.report import run_interrupted
from tests.faults.migrations.report import run_migrations
from tests.faults.migrations.rows import MUTANT_ROWS as MIGRATION_MUTANTS
from tests.faults.migrations.rows import ROW as MIGRATION_ROW
from tests.faults.migrations.run import clients
from tests.faults.mirrored.report import run_mirrored
from tests.faults.mirrored.rows import MUTANT_ROWS as MIRRORED_MUTANTS
from tests.faults.mirrored.rows import ROW as MIRRORED_ROW
from tests.faults.mutant_rows import MUTANT_ROWS
from tests.faults.power.report import run_power
from tests.faults.power.rows import MUTANT_ROWS as POWER_MUTANTS
from tests.faults.power.rows import ROW as POWER_ROW
from tests.faults.report import print_summary, print_table, summary
from tests.faults.restarts.report import run_restarted
from tests.faults.restarts.rows import MUTANT_ROWS as RESTART_MUTANTS
from tests.faults.restarts.rows import ROW as RESTART_ROW
from tests.faults.row_run import PARTITIONS, RowResult, run_row
from tests.faults.rows import ROWS, Row
from tests.faults.starved.report import print_starved, starved_summary
from tests.faults.starved.run import MUTANT, MUTANT_S, STARVED_ROW, run_starved
from tests.faults.transactions import java
from tests.faults.transactions.report import needs_java, run_transactions
from tests.faults.transactions.rows import MUTANT_ROWS as TRANSACTION_MUTANTS
from tests.faults.transactions.rows import ROWS as TRANSACTION_ROWS

MUTANTS: Final = "mutants"
LEAST_KILLS: Final = 30
LEAST_ACKNOWLEDGED: Final = 1_000_000
LEAST_OF_GROUPS: Final = MappingProxyType({"kills": 20, "rebalances": 100})
"""Minimums for the sum of all their rows."""
WITH_MUTANTS: Final[Sequence[tuple[Sequence[Any], Callable[..., int]]]] = (
    ((COMPACTED_ROW, *COMPACTED_MUTANTS), run_compacted),
    ((MIGRATION_ROW, *MIGRATION_MUTANTS), run_migrations),
    ((MIRRORED_ROW, *MIRRORED_MUTANTS), run_mirrored),
    ((POWER_ROW, *POWER_MUTANTS), run_power),
    ((RESTART_ROW, *RESTART_MUTANTS), run_restarted),
    ((*TRANSACTION_ROWS, *TRANSACTION_MUTANTS), run_transactions),
)
"""Rows with the mutants that each brings, and what runs those that are chosen."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rows", default="", help="such as F1,F5,mutants, or a mutant's name; all by default")
    parser.add_argument("--minutes", type=float, default=0.0, help="of faults, over all the rows; their own by default")
    parser.add_argument("--partitions", type=int, default=0, help="of a cluster of the log's rows; all but 6 are idle")
    parser.add_argument("--seed", type=int, default=0, help="which faults come when; by chance by default")
    parser.add_argument("--directory", type=Path, default=Path("build/faults"), help="for histories and logs")
    parser.add_argument("--unbroken", action="store_true", help="the mutants' faults without the mutants: all is well")
    given = parser.parse_args(arguments)
    known = {row.name: row for row in ROWS}
    others: list[Any] = [*MUTANT_ROWS, *GROUP_ROWS, *MUTANT_GROUP_ROWS, *DISK_ROWS, *DISK_MUTANTS]
    others += [STARVED_ROW, HOSTILE_ROW, *(row for rows, _ in WITH_MUTANTS for row in rows)]
    there_are = [*known, MUTANTS, *(row.name for row in others), MUTANT, interrupted.NAME]
    chosen = [name for name in given.rows.split(",") if name] or [*known, MUTANTS]
    if unknown := [name for name in chosen if name not in there_are]:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(there_are)}")
    seed = given.seed or random.randrange(1, 1 << 31)
    directory = given.directory.absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}"
    of_the_log = [name for name in chosen if name in (*known, MUTANTS, *(row.name for row in MUTANT_ROWS))]
    if given.partitions and (given.partitions < PARTITIONS or of_the_log != chosen):
        parser.error(f"--partitions is {PARTITIONS} or more, and for rows of the log alone")
    if interrupted.NAME in chosen:  # it needs no network of its own, and has none of the others' machines
        if len(chosen) > 1:
            parser.error(f"{interrupted.NAME} is run alone")
        return run_interrupted(given.minutes, directory / interrupted.NAME, seed)
    transactions = [row.name for row in (*TRANSACTION_ROWS, *TRANSACTION_MUTANTS) if row.name in chosen]
    try:
        if needs_java(transactions, given.minutes):
            java.command()  # where it is to be installed, that takes a network which leads somewhere
        for row in (MIGRATION_ROW, *MIGRATION_MUTANTS):
            if row.name in chosen:
                clients(row.roles)
        network.enter(arguments)
    except (RuntimeError, PeerError) as error:
        print(f"no row can run: {error}", file=sys.stderr)
        return 1

    code = 0
    if of_the_log:
        code |= _run_rows_of_the_log(of_the_log, given, directory, seed)
    if HOSTILE_ROW.name in chosen:
        code |= run_hostile(given.minutes, directory / HOSTILE_ROW.name, seed)
    if of_disks := [row.name for row in (*DISK_ROWS, *DISK_MUTANTS) if row.name in chosen]:
        code |= _run_rows_of_disks(of_disks, given, directory, seed)
    families = [([row.name for row in rows if row.name in chosen], run) for rows, run in WITH_MUTANTS]
    by_themselves = {STARVED_ROW.name, MUTANT, HOSTILE_ROW.name, *of_disks}.union(*(names for names, _ in families))
    if len(of_the_log) < len([name for name in chosen if name not in by_themselves]):
        code |= _run_rows_of_groups(chosen, given, directory, seed)
    for names, run in families:
        if names:
            code |= run(names, given.minutes, directory, seed, unbroken=given.unbroken)
    if STARVED_ROW.name in chosen or MUTANT in chosen:
        code |= _run_starved(chosen, given, directory, seed)
    return code


def _run_starved(chosen: list[str], given: argparse.Namespace, directory: Path, seed: int) -> int:
    """The row and its mutant, or that alone. It comes last: whatever runs after it has two cores only."""
    row, minutes, found = STARVED_ROW, given.minutes or STARVED_ROW.minutes, 0
    if not given.unbroken:
        print(f"{MUTANT}: at most {MUTANT_S:.0f} s of it …", flush=True)
        mutant = run_starved(directory / MUTANT, seconds=MUTANT_S, seed=seed, mutant=MUTANT)
        found = mutant.figures.counted.get("shards_given_up", 0)
        print(
            f"{MUTANT}: {f'caught: {found} shards' if found else f'NOT CAUGHT: {mutant.result.failures}'}", flush=True
        )
    if row.name not in chosen:
        return 0 if found else 1
    print(f"{row.name}: {row.title}, {minutes:.1f} minutes of it …", flush=True)
    run = run_starved(directory / row.name, seconds=minutes * 60, seed=seed)
    print(f"{row.name}: {'as it must be' if not run.result.failures else 'FAILED'}\n", flush=True)
    print_starved(run)
    mutants, caught = int(not given.unbroken), int(found > 0)
    print_summary(starved_summary(run, mutants=mutants, caught=caught, seed=seed, history=directory / row.name))
    return 1 if run.result.failures or caught < mutants else 0


def _run_rows_of_the_log(chosen: list[str], given: argparse.Namespace, directory: Path, seed: int) -> int:
    rows = [row for row in ROWS if row.name in chosen]
    mutant_rows = [row for row in MUTANT_ROWS if {MUTANTS, row.name}.intersection(chosen)]
    if given.unbroken:
        rows, mutant_rows = [*rows, *mutant_rows], []
    scale = _scale(given.minutes, rows)
    partitions = given.partitions or PARTITIONS
    results = [_run(row, directory, scale, seed, partitions) for row in rows]
    mutants = [_run_mutant(row, directory, seed, partitions) for row in mutant_rows]
    print()
    print_table(results)
    missed = _missed_totals(results) if len(rows) == len(ROWS) and scale >= 1.0 else []
    for words in missed:
        print(words)
    caught = sum(result.caught for result in mutants)
    print_summary(summary(results, mutants=len(mutants), caught=caught, seed=seed, history=directory))
    return 1 if missed or caught < len(mutants) or any(result.failures for result in results) else 0


def _run_rows_of_disks(chosen: list[str], given: argparse.Namespace, directory: Path, seed: int) -> int:
    """Each row brings its mutants."""
    rows = [row for row in DISK_ROWS if row.name in chosen]
    mutants = [m for m in DISK_MUTANTS if {m.name, m.row}.intersection(chosen) and not given.unbroken]
    scale = _scale(given.minutes, rows)
    results = [_run(row, directory, scale, seed) for row in rows]
    caught = sum([_caught_by_disks(mutant, directory, seed) for mutant in mutants])
    print()
    print_table(results)
    print_summary(disks_summary(results, mutants=len(mutants), caught=caught, seed=seed, history=directory))
    return 1 if caught < len(mutants) or any(result.failures for result in results) else 0


def _caught_by_disks(mutant: DiskMutant, directory: Path, seed: int) -> bool:
    began = time.monotonic()
    verdict = catch(mutant, directory / mutant.name, seed)
    words = f"caught by {verdict.words}" if verdict.caught else f"NOT CAUGHT: {verdict.words}"
    print(f"{mutant.name}: {words} ({time.monotonic() - began:.0f} s)", flush=True)
    return verdict.caught


def _run_rows_of_groups(chosen: list[str], given: argparse.Namespace, directory: Path, seed: int) -> int:
    """Each row brings its mutants."""
    rows = [row for row in GROUP_ROWS if row.name in chosen]
    mutant_rows = [row for row in MUTANT_GROUP_ROWS if {row.name, row.title}.intersection(chosen)]
    if given.unbroken:
        rows, mutant_rows = [*rows, *mutant_rows], []
    scale = _scale(given.minutes, rows)
    results = [_run_groups(row, directory, scale, seed) for row in rows]
    mutants = [_run_group_mutant(row, directory, seed) for row in mutant_rows]
    caught = sum(result.caught for result in mutants)
    print()
    print_groups(results)
    did = group_summary(results, mutants=len(mutants), caught=caught, seed=seed, history=directory)
    whole = len(rows) == len(GROUP_ROWS) and scale >= 1.0
    missed = [what for what, least in LEAST_OF_GROUPS.items() if whole and int(str(did[what])) < least]
    for what in missed:
        print(f"{what}: {did[what]} in all, the floor is {LEAST_OF_GROUPS[what]}")
    print_summary(did)
    return 1 if missed or caught < len(mutants) or any(result.failures for result in results) else 0


def _scale(minutes: float, rows: Sequence[Row | GroupRow]) -> float:
    return minutes / sum(row.minutes for row in rows) if minutes and rows else 1.0


def _run(row: Row, directory: Path, scale: float, seed: int, partitions: int = PARTITIONS) -> RowResult:
    print(f"{row.name}: {row.title}, {row.minutes * scale:.1f} minutes of it …", flush=True)
    seconds, where = row.minutes * scale * 60, directory / row.name
    if isinstance(row, DiskRow):
        result = run_disk_row(row, where, seconds=seconds, seed=seed)
    else:
        result = run_row(row, where, seconds=seconds, seed=seed, partitions=partitions)
    _print_verdict(row, result.failures)
    return result


def _print_verdict(row: Row | GroupRow, failures: Sequence[str]) -> None:
    print(f"{row.name}: {f'FAILED: {failures[0]}' if failures else 'as it must be'}", flush=True)


def _run_mutant(row: Row, directory: Path, seed: int, partitions: int) -> RowResult:
    seconds, where = row.minutes * 60, directory / row.name
    result = run_row(row, where, seconds=seconds, seed=seed, mutant=row.name, partitions=partitions)
    found = {kind: count for kind, count in result.findings.counts.items() if count}
    verdict = f"caught: {found or result.audit.differences[0]}" if result.caught else f"NOT CAUGHT: {result.failures}"
    print(f"{row.name}: {verdict} ({result.seconds:.0f} s)", flush=True)
    return result


def _run_groups(row: GroupRow, directory: Path, scale: float, seed: int) -> GroupResult:
    print(f"{row.name}: {row.title}, {row.minutes * scale:.1f} minutes of it …", flush=True)
    result = run_group_row(row, directory / row.name, seconds=row.minutes * scale * 60, seed=seed)
    _print_verdict(row, result.failures)
    return result


def _run_group_mutant(row: GroupRow, directory: Path, seed: int) -> GroupResult:
    result = run_group_row(row, directory / row.name, seconds=row.minutes * 60, seed=seed, mutant=row.name)
    found = {kind: count for kind, count in result.findings.counts.items() if count}
    print(f"{row.name}: {f'caught: {found}' if found else f'NOT CAUGHT: {result.failures}'} ({result.seconds:.0f} s)")
    return result


def _missed_totals(results: list[RowResult]) -> list[str]:
    kills = sum(result.kills for result in results)
    acknowledged = sum(result.findings.acknowledged for result in results)
    totals = (("leader kills", kills, LEAST_KILLS), ("acknowledged", acknowledged, LEAST_ACKNOWLEDGED))
    return [f"{what}: {count} in all, the floor is {least}" for what, count, least in totals if count < least]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
