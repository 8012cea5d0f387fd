"""How fast each copier gets through a topic that is there, by the records that its copy has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from loadtest.goals import Figures, say
from loadtest.mirror import copiers
from loadtest.mirror.copiers import Copier
from loadtest.mirror.sites import Look, Sites, records_in

TOPIC: Final = "t"
_COPIERS: Final[Mapping[str, Copier]] = {
    "mirror": copiers.mirror,
    "loop": copiers.loop,
    "mm2": copiers.mirror_maker,
    "exactly_once": copiers.exactly_once,
}
_WARM_UP: Final = 1 / 3

Runs = dict[str, list[dict[str, float]]]
"""The figures of each copier's runs, in their order."""


def copying(sites: Sites, folder: Path, pairs: int, records: int) -> Figures:
    """All of them in turn, beginning with another one each time; a first round is thrown away."""
    sites.fill(TOPIC, records)
    names, runs = list(_COPIERS), Runs({name: [] for name in _COPIERS})
    for number in range(pairs + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            runs[name].append(once(sites, folder, name, number))
            say(name, **runs[name][-1])
    runs = {name: found[1:] for name, found in runs.items()}
    return {
        "bytes_vs_loop": ratios(runs, "mirror", "loop", "records_s"),
        "vs_mm2": ratios(runs, "mirror", "mm2", "records_s"),
        "rss_vs_mm2": ratios(runs, "mirror", "mm2", "resident_mb"),
        "exactly_once_vs_bytes": ratios(runs, "exactly_once", "mirror", "records_s"),
        "cpu_vs_loop": ratios(runs, "mirror", "loop", "cpu_s_a_million"),
        "cpu_vs_mm2": ratios(runs, "mirror", "mm2", "cpu_s_a_million"),
        **{f"{name}_records_s": [each["records_s"] for each in found] for name, found in runs.items()},
        **{f"{name}_mb": [each["resident_mb"] for each in found] for name, found in runs.items()},
    }


def once(sites: Sites, folder: Path, name: str, number: int) -> dict[str, float]:
    """One run of a copier, over all of the topic."""
    total = records_in(sites.source, TOPIC)
    own = folder / f"{name}-{number}"
    own.mkdir()
    with _COPIERS[name](sites, TOPIC, f"{name}{number}", own) as copier:
        looks = sites.follow(copier.copy, total, copier.pid)
    sites.target.topics.delete(copier.copy)
    return rates(looks, total)


def rates(looks: Sequence[Look], total: int) -> dict[str, float]:
    """Return the rates of the last two thirds, by wall-clock and by CPU time, and the process's peak memory."""
    begin = next(look for look in looks if look.records >= _WARM_UP * total)
    records, seconds = looks[-1].records - begin.records, looks[-1].at_s - begin.at_s
    return {
        "records_s": records / seconds,
        "cpu_s_a_million": (looks[-1].cpu_s - begin.cpu_s) / records * 1e6,
        "resident_mb": max(look.resident_mb for look in looks),
        "seconds": seconds,
    }


def ratios(runs: Runs, first: str, second: str, field: str) -> list[float]:
    """Return the ratio of the two sides' runs in each round."""
    return [a[field] / b[field] for a, b in zip(runs[first], runs[second], strict=True)]
