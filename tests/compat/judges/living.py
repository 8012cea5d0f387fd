"""A story is lived on both sides at once, and what comes of it is compared fact by fact."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple

from tests.compat.judges.side import Raised, Side
from tests.compat.judges.story import ALL, WORLD, Step, Story
from tests.compat.judges.world import World

_SHARED_S: Final = 30.0


class Fact(NamedTuple):
    """The outcome of a step on each side, as text."""

    key: str
    theirs: str
    ours: str


def live(story: Story, world: World, theirs: Side, ours: Side) -> list[Fact]:
    """Do each step on both sides, and return what came of it. Steps of the world are done once and yield no facts."""
    facts: list[Fact] = []
    seen: Counter[str] = Counter()
    left, right = _Living(theirs), _Living(ours)
    for step in story.steps:
        if step.who == WORLD:
            getattr(world, step.what)(**step.arguments)
            continue
        seen[step.label] += 1
        times = f" ({seen[step.label]})" if seen[step.label] > 1 else ""
        their, our = left.do(step), right.do(step)
        facts += [
            Fact(f"{story.name}: {step.label}{times}{part}", their.get(part, "nothing"), our.get(part, "nothing"))
            for part in {**their, **our}
        ]
    return facts


class _Living:
    """A side in the course of a story."""

    def __init__(self, side: Side) -> None:
        self._side: Final = side
        self._early: Final[dict[str, list[Any]]] = defaultdict(list)
        """Rows that came while partitions were shared out: the next reading has them."""

    def do(self, step: Step) -> dict[str, str]:
        """Return the outcome of a step as text. A step of ALL has one outcome for each consumer."""
        if step.who == ALL:
            return {f", {who}": _words(outcome) for who, outcome in self._share(**step.arguments).items()}
        arguments, early = dict(step.arguments), []
        if step.what == "read":
            early = self._early.pop(step.who, [])
            arguments["count"] -= len(early)
        outcome = self._side.call(step.who, step.what, **arguments)
        if step.what == "close" and outcome:
            outcome = [event for event in outcome if event[1]]
        return {"": _words(outcome if isinstance(outcome, Raised) or not early else [*early, *outcome])}

    def _share(self, until: Mapping[str, int], calls: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Poll the consumers in turn until each has `until` partitions and its listener got `calls` assignments. Then
        look up each position. Return, for each consumer, its partitions and its listener's calls.

        Calls without partitions are left out here and at `close`, because their number is chance: cooperative members
        rebalance again at once.
        """
        found: dict[str, dict[str, Any]] = {who: {"has": [], "events": []} for who in until}
        least = {**dict.fromkeys(until, 0), **(calls or {})}
        give_up_at = time.monotonic() + _SHARED_S
        while time.monotonic() < give_up_at:
            for who, outcome in found.items():
                self._poll(who, outcome)
            if all(
                len(outcome["has"]) == until[who] and _calls(outcome) >= least[who] for who, outcome in found.items()
            ):
                break
        for who, outcome in found.items():
            for partition in outcome["has"]:
                self._side.call(who, "position", partition=partition)
            outcome["calls"] = min(_calls(outcome), least[who])
            outcome["events"] = [event for event in outcome["events"] if event[1]]
        return found

    def _poll(self, who: str, outcome: dict[str, Any]) -> None:
        rows = self._side.call(who, "poll")
        if isinstance(rows, Raised):
            outcome["raised"] = rows.kind
        else:
            self._early[who] += rows
        outcome["has"] = self._side.call(who, "assignment")
        outcome["events"] += self._side.call(who, "events")


def _calls(outcome: Mapping[str, Any]) -> int:
    return sum(what == "assigned" for what, _ in outcome["events"])


def _words(outcome: Any) -> str:
    return f"raises {outcome.kind}" if isinstance(outcome, Raised) else " ".join(_said(outcome))


def _said(outcome: Any) -> Iterator[str]:
    """Yield rows as 0:5=value, by partitions; calls of a listener as revoked[0,1]; all else as JSON has it."""
    match outcome:
        case dict():
            for name, value in outcome.items():
                yield f"{name} {' '.join(_said(value)) or '-'}"
        case [[str(), [*_]], *_]:
            for what, numbers in outcome:
                yield f"{what}{json.dumps(numbers, separators=(',', ':'))}"
        case [[int(), int(), str()], *_]:
            for partition, offset, value in sorted(outcome, key=itemgetter(0)):
                yield f"{partition}:{offset}={value}"
        case _:
            yield json.dumps(outcome, separators=(",", ":"))
