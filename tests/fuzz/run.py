"""One run against one broker: rounds of cases, and after each a look at the broker's log, its memory and its topics."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.fuzz import batches, keeper
from tests.fuzz.canary import Canary
from tests.fuzz.cases import Case, Cases
from tests.fuzz.client import DEADLINE_S, Client, End
from tests.fuzz.endless import Endless
from tests.fuzz.held_back import HeldBack
from tests.fuzz.journal import Bug, Journal
from tests.fuzz.stack import Stack
from tests.fuzz.world import World

from ottla_broker.kafka.apis import served

SERVED: Final = served(unstable=True)
"""The stack's broker advertises the versions, too, that Kafka hides by default."""
MOST_GROWTH_MB: Final = 64.0
_CLIENTS: Final = 8
_ROUND: Final = 2_000
_SHOW_EACH: Final = 20_000
_BUNDLE: Final = 8
_WARM_UP_SHARE: Final = 0.5
"""A broker keeps what it has freed (ottla_core.process.allocator), so it grows to the most that it ever needed at once;
what it leaks, it goes on to grow by."""
_MOST_FINDINGS: Final = 50
_MOST_SUSPECTS: Final = 3_000


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found: a crash, a hang, a fault or growth; the case where one is known to be the reason.

    A suspect is a case that may be the reason of a crash.
    """

    kind: str
    words: str
    case: Case | None = None


@dataclass(slots=True)
class Outcome:
    cases: int = 0
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    versions: set[tuple[int, int]] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    connections: int = 0
    slowest_s: float = 0.0
    canary_round_trips: int = 0
    canary_slowest_s: float = 0.0
    rss_mb: list[float] = field(default_factory=list)
    warm_at: int = 0
    log_mb: float = 0.0
    seconds: float = 0.0

    @property
    def rss_growth_mb(self) -> float:
        """From the end of the warm-up to now, by the least of several samples: a large request is gone after a while,
        and a leak is not."""
        warm = self.rss_mb[self.warm_at :]
        some = 1 + len(warm) // 10
        return min(warm[-some:]) - min(warm[:some]) if warm else 0.0

    def count(self, kind: str) -> int:
        return sum(finding.kind == kind for finding in self.findings)


def run(stack: Stack, cases: int, seed: int, *, stop_at_first: bool = False, show: Callable[[str], None]) -> Outcome:
    """So many cases. `stop_at_first`: the first finding is enough."""
    return asyncio.run(_Run(stack, cases, seed, show, 1 if stop_at_first else _MOST_FINDINGS).all_rounds())


def replay(stack: Stack, cases: list[Case]) -> list[tuple[Case, End, str, list[Bug]]]:
    """Each case alone: what becomes of it, and the errors that the broker logs."""

    async def play() -> list[tuple[Case, End, str, list[Bug]]]:
        keeper.tidy(stack.kafka_port, World(batches.records))
        journal, told = Journal(stack.logs), []
        journal.new_bugs()  # those of the start are of no case
        for case in cases:
            ends: list[tuple[End, str]] = []
            client = Client(stack.kafka_port, lambda _, end, words, ends=ends: ends.append((end, words)))
            await client.play([case])
            await client.close()
            told.append((case, *ends[-1], journal.new_bugs()))
        return told

    return asyncio.run(play())


class _Run:
    def __init__(self, stack: Stack, cases: int, seed: int, show: Callable[[str], None], most_findings: int) -> None:
        self._stack: Final = stack
        self._total: Final = cases
        self._show: Final = show
        self._most_findings: Final = most_findings
        self._world: Final = World(batches.records)
        self._cases: Final = Cases(SERVED.values(), self._world, seed)
        self._journal: Final = Journal(stack.logs)
        self._clients: Final = [Client(stack.kafka_port, self._on_end) for _ in range(_CLIENTS)]
        self._outcome: Final = Outcome(warm_at=max(1, int(cases / _ROUND * _WARM_UP_SHARE)))
        self._ended: list[Case] = []  # of this round, with their connections: who has made the broker log an error?
        self._known: Final[set[str]] = set()

    async def all_rounds(self) -> Outcome:
        outcome, begun, shown = self._outcome, time.monotonic(), 0
        keeper.tidy(self._stack.kafka_port, self._world)
        endless = await Endless.begin(self._stack.kafka_port)
        while outcome.cases < self._total and not self._is_over:
            await self._round(min(_ROUND, self._total - outcome.cases))
            if outcome.cases // _SHOW_EACH > shown:
                shown = outcome.cases // _SHOW_EACH
                self._show(f"{outcome.cases:,} cases, {time.monotonic() - begun:.0f} s, {self._stack.rss_mb:.0f} MB")
        for client in self._clients:
            await client.close()
        if fault := await endless.end():
            self._find(Finding("hang", fault))
        outcome.connections = sum(client.connections for client in self._clients)
        outcome.slowest_s = max(client.slowest_s for client in self._clients)
        outcome.log_mb, outcome.seconds = self._journal.size_mb, time.monotonic() - begun
        return outcome

    @property
    def _is_over(self) -> bool:
        return bool(self._stack.ended) or len(self._outcome.findings) >= self._most_findings

    async def _round(self, count: int) -> None:
        held_back = await self._held_back()
        canary = Canary(self._stack.kafka_port)
        singing = asyncio.create_task(canary.sing())
        bundles = self._bundles(count)
        self._ended.clear()
        await asyncio.gather(*(self._play(client, bundles) for client in self._clients))
        singing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await singing
        if held_back is not None:
            held_back.end()
        self._note_canary(canary)
        await self._look_at_the_broker()

    async def _held_back(self) -> HeldBack | None:
        """None where they can't even begin."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await HeldBack.begin(self._stack.kafka_port)
        except (OSError, asyncio.IncompleteReadError) as error:
            self._find(Finding("hang", f"a connection can't begin: {error!r}"))
            return None

    def _bundles(self, count: int) -> Iterator[list[Case]]:
        while count > 0:
            size = min(_BUNDLE, count)
            self._world.speak_of_another()
            yield [self._cases.next() for _ in range(size)]
            count -= size

    async def _play(self, client: Client, bundles: Iterator[list[Case]]) -> None:
        for bundle in bundles:
            await client.play(bundle)
            if self._is_over:
                return

    def _on_end(self, case: Case, end: End, words: str) -> None:
        outcome = self._outcome
        outcome.cases += 1
        outcome.ends[case.kind, end.value] += 1
        if (case.key, case.version) in self._cases.pairs:
            outcome.versions.add((case.key, case.version))
        if end in (End.FAULT, End.HANG):
            self._find(Finding(end.value, words, case))
        if end is not End.ANSWERED:
            self._ended.append(case)

    def _note_canary(self, canary: Canary) -> None:
        self._outcome.canary_round_trips += canary.round_trips
        self._outcome.canary_slowest_s = max(self._outcome.canary_slowest_s, canary.slowest_s)
        if canary.fault:
            self._find(Finding("fault", f"the canary: {canary.fault}"))

    async def _look_at_the_broker(self) -> None:
        if ended := self._stack.ended:
            self._find(Finding("crash", ended))
            for case in self._ended[-_CLIENTS * _BUNDLE :]:
                self._find(Finding("suspect", "was on its way then", case))
            return
        for bug in self._journal.new_bugs():
            if bug.signature not in self._known:
                self._known.add(bug.signature)
                self._find(Finding("crash", f"{bug.signature}\n{bug.text}", await self._reason_of(bug)))
        try:
            keeper.tidy(self._stack.kafka_port, self._world)
        except (OSError, AssertionError, ValueError, struct.error) as error:
            self._find(Finding("fault", f"the cluster can't be tidied up: {error!r}"))
        self._outcome.rss_mb.append(self._stack.rss_mb)
        if self._outcome.rss_growth_mb > MOST_GROWTH_MB and not self._outcome.count("growth"):
            self._find(Finding("growth", f"the broker has grown by {self._outcome.rss_growth_mb:.0f} MB"))

    async def _reason_of(self, bug: Bug) -> Case | None:
        """The case of this round that makes the broker log the same again."""
        client = Client(self._stack.kafka_port, lambda *_: None)
        try:
            for case in self._ended[-_MOST_SUSPECTS:]:
                await client.play([case])
                if any(again.signature == bug.signature for again in self._journal.new_bugs()):
                    return case
        finally:
            await client.close()
        return None

    def _find(self, finding: Finding) -> None:
        self._outcome.findings.append(finding)
        self._show(f"{finding.kind}: {_where(finding)}{finding.words[:1_500]}")


def _where(finding: Finding) -> str:
    case = finding.case
    return "" if case is None else f"key {case.key} version {case.version}, {case.kind}: "
