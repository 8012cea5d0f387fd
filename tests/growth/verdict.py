"""Say which structures grow with what has ended, from a series of measurements. Pure.

A structure has grown if it is larger after each batch of units than after the one before, by a share of the units each
time, in every life of the cluster, and if it grows evenly. What a restart reads back has grown if it is larger after
each restart than after the one before. To grow once is chance: a cache fills, a file gets another digit. What fills up,
as a client's connections to the brokers that come to lead something, grows by less and less. Structures with a bound
that a run can't reach are listed in `bounds`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Final

from tests.growth.measurement import Measurement
from tests.growth.roles import TURN
from tests.growth.walk import Structure

WORK: Final = "work"
RESTART: Final = "restart"

SHARE: Final = 0.3
"""How many items a unit a structure must grow by. One that keeps an item of half the units grows by more."""
BYTES: Final = 1.0
"""How many bytes a unit a structure must grow by."""
EVENNESS: Final = 0.5
"""The least growth a unit between two measurements, as a share of the mean: each batch has the same kinds of units."""
RATIO: Final = 0.1
"""By what share of itself a turn's lines must grow, too: a turn may take other branches at another time."""


@dataclass(frozen=True)
class Bound:
    """Structures whose role and name fit the pattern grow up to `most` in the whole cluster, because of `why`."""

    pattern: str
    most: int
    why: str

    def covers(self, structure: Structure) -> bool:
        return fnmatch.fnmatchcase(f"{structure.role}: {structure.name}", self.pattern)


@dataclass(frozen=True)
class Grown:
    structure: Structure
    sizes: tuple[int, ...]
    per_unit: float
    path: str
    after: str
    """The kind of step, WORK or RESTART, after which it has grown."""


@dataclass(frozen=True)
class Verdict:
    structures: int
    roles: tuple[str, ...]
    grown: tuple[Grown, ...]
    over: tuple[Structure, ...]
    """Structures that are above their bounds."""
    stale: tuple[Bound, ...]
    """Bounds that cover nothing that was seen."""


def judge(measurements: Sequence[Measurement], bounds: Iterable[Bound]) -> Verdict:
    bounds = tuple(bounds)
    seen = set[Structure]().union(*(m.sizes for m in measurements))
    most = {s: max(m.sizes[s] for m in measurements) for s in seen}
    covering = {s: next((b for b in bounds if b.covers(s)), None) for s in seen}
    grown = [g for s in sorted(seen) if covering[s] is None and (g := _growth(s, measurements)) is not None]
    return Verdict(
        len(seen),
        tuple(sorted({s.role for s in seen})),
        tuple(sorted(grown, key=lambda g: (g.structure.kind, -g.per_unit))),
        tuple(sorted(s for s, bound in covering.items() if bound is not None and most[s] > bound.most)),
        tuple(b for b in bounds if b not in covering.values()),
    )


def _growth(structure: Structure, measurements: Sequence[Measurement]) -> Grown | None:
    for kind in (WORK, RESTART):
        of_kind = [m for m in measurements if m.kind == kind]
        pairs = [p for p in pairwise(of_kind) if kind == RESTART or p[0].life == p[1].life]
        if len(pairs) >= 2 and all(_grows(structure, *pair) for pair in pairs) and _is_even(structure, pairs):
            units = sum(after.units - before.units for before, after in pairs)
            growth = sum(after.sizes[structure] - before.sizes[structure] for before, after in pairs)
            sizes = tuple(m.sizes[structure] for m in of_kind)
            path = next((m.paths[structure] for m in reversed(of_kind) if structure in m.paths), "")
            return Grown(structure, sizes, growth / units, path, kind)
    return None


def _grows(structure: Structure, before: Measurement, after: Measurement) -> bool:
    units, was = after.units - before.units, before.sizes[structure]
    least = ceil(units * (BYTES if structure.kind == "bytes" else SHARE))
    if structure.role == TURN:
        least = max(least, ceil(was * RATIO))
    return after.sizes[structure] - was >= max(1, least)


def _is_even(structure: Structure, pairs: Sequence[tuple[Measurement, Measurement]]) -> bool:
    rates = [
        (after.sizes[structure] - before.sizes[structure]) / max(1, after.units - before.units)
        for before, after in pairs
    ]
    return min(rates) >= EVENNESS * sum(rates) / len(rates)


def described(verdict: Verdict) -> Iterator[str]:
    """One line for each thing that is wrong."""
    for grown in verdict.grown:
        role, name, kind = grown.structure
        sizes = " ".join(map(str, grown.sizes))
        yield f"grown after {grown.after}: {role}: {name}: {sizes} {kind}, {grown.per_unit:.2f} a unit ({grown.path})"
    for structure in verdict.over:
        yield f"above its bound: {structure.role}: {structure.name}"
    for bound in verdict.stale:
        yield f"stale bound: {bound.pattern} covers nothing that was seen"
