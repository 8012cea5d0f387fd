"""One run: many players at a time, in rounds. Between two rounds nothing is open, so anything that is left over is a
leak."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.fuzz_client.case import Case
from tests.fuzz_client.ending import Ending, How
from tests.fuzz_client.exchanges import EXCHANGES
from tests.fuzz_client.honest import APIS
from tests.fuzz_client.judge import Fault, Listener, faults_of
from tests.fuzz_client.player import HostileServer, Player
from tests.fuzz_client.watchdog import Watchdog

MOST_GROWTH_MB: Final = 24.0
"""The limit of growth between the ends of rounds, when nothing is open."""
MOST_PEAK_MB: Final = 128.0
"""The limit at any time, above the lowest value. All players together may decode a long response at once."""
_PLAYERS: Final = 20
_ROUND: Final = 2_000
_SMALL_ROUND: Final = 200
_MOST_FINDINGS: Final = 50
_PAGES_AT: Final = 1
_PATIENCE: Final = 10.0
_LOOKS_EACH_S: Final = 0.2
_EVERY_VERSION_CASES: Final = 20_000
"""The number of cases with each exchange, and with each version of each API."""
_MISSING_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding, and its case if one is known to be the reason."""

    kind: str
    words: str
    case: Case | None = None


@dataclass(slots=True)
class Outcome:
    """`retried` are the cases with doubtful faults that had none when they were played alone. `asked` has the exchanges
    that were sent."""

    cases: int = 0
    done: int = 0
    retried: int = 0
    ends: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    versions: set[tuple[int, int]] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    slowest_s: float = 0.0
    seconds: float = 0.0
    asked: set[str] = field(default_factory=set)

    @property
    def growth_mb(self) -> float:
        """The growth from the first third of the rounds to the end, since caches fill once."""
        warm = self.rss_mb[len(self.rss_mb) // 3 :]
        return warm[-1] - warm[0] if warm else 0.0

    @property
    def peak_growth_mb(self) -> float:
        return self.peak_mb - min(self.rss_mb, default=self.peak_mb)

    def count(self, *kinds: str) -> int:
        return sum(finding.kind in kinds for finding in self.findings)


def run(cases: Sequence[Case], *, stop_at: str = "", show: Callable[[str], None]) -> Outcome:
    """Play cases. The first finding of the kind `stop_at` ends the run."""
    with HostileServer() as server, Listener() as listener:
        return _Run(server, listener, show, stop_at).all(cases)


class _Run:
    def __init__(self, server: HostileServer, listener: Listener, show: Callable[[str], None], stop_at: str) -> None:
        self._players: Final = [Player(server) for _ in range(_PLAYERS)]
        self._listener: Final = listener
        self._show: Final = show
        self._stop_at: Final = stop_at
        self._size: Final = _SMALL_ROUND if stop_at else _ROUND
        self._watchdog: Final = Watchdog(show)
        self._outcome: Final = Outcome()
        self._lock: Final = threading.Lock()
        self._suspects: Final[list[Case]] = []

    def all(self, cases: Sequence[Case]) -> Outcome:
        begun, outcome = time.monotonic(), self._outcome
        _forget_peak()
        self._watchdog.start()
        for played in _rounds(cases, self._size):
            self._round(played)
            self._show(
                f"{outcome.cases:,} cases, {time.monotonic() - begun:.0f} s,"
                f" {_rss_mb():.0f} MB now and {outcome.peak_mb:.0f} MB at most"
            )
            if self._is_over:
                break
        if not self._stop_at:  # else some may still be playing
            for player in self._players:
                player.close()
        self._find(None, [Fault("skipped", words) for words in _left_out(outcome)])
        outcome.seconds = time.monotonic() - begun
        return outcome

    @property
    def _is_over(self) -> bool:
        outcome = self._outcome
        return len(outcome.findings) >= _MOST_FINDINGS or outcome.count(self._stop_at) > 0

    @property
    def _has_found_it(self) -> bool:
        return bool(self._stop_at) and self._is_over

    def _round(self, cases: Sequence[Case]) -> None:
        descriptors = _open_descriptors()
        left = iter(cases)
        threads = [threading.Thread(target=self._play, args=(each, left), daemon=True) for each in self._players[1:]]
        for thread in threads:
            thread.start()
        self._play(self._players[0], left)  # the main thread hands its calls to the network's thread
        for thread in threads:
            while thread.is_alive() and not self._has_found_it:
                thread.join(_LOOKS_EACH_S)
        if self._has_found_it:
            return
        for case in self._take_suspects():
            if not self._is_over:
                self._try_again(case)
        self._hear(cases)
        self._measure(descriptors)

    def _play(self, player: Player, left: Iterator[Case]) -> None:
        while not self._is_over:
            with self._lock:
                case = next(left, None)
            if case is None:
                return
            with self._watchdog.watching(case):
                ending = player.play(case)
            faults = faults_of(case, ending, player.address)
            with self._lock:
                self._note(case, ending)
                if any(fault.is_doubtful for fault in faults):
                    self._suspects.append(case)
                else:
                    self._find(case, faults)

    def _note(self, case: Case, ending: Ending) -> None:
        outcome = self._outcome
        outcome.cases += 1
        outcome.done += ending.was_done
        outcome.ends[case.level.value, case.misdeed, ending.how.value] += 1
        outcome.versions.update(ending.seen)
        if ending.how is not How.MISSING:
            outcome.asked.add(case.asks)
        outcome.slowest_s = max(outcome.slowest_s, ending.seconds)

    def _find(self, case: Case | None, faults: Sequence[Fault]) -> None:
        for fault in faults:
            self._outcome.findings.append(Finding(fault.kind, fault.words, case))
            self._show(f"{fault.kind}: {'' if case is None else case.as_json()}: {fault.words[:2_000]}")

    def _take_suspects(self) -> list[Case]:
        taken = self._suspects[:]
        self._suspects.clear()
        return taken

    def _try_again(self, case: Case) -> None:
        """Play a case again alone if its faults are doubtful, since a busy machine may be the reason."""
        player = self._players[0]
        faults = faults_of(case, player.play(case, patience=_PATIENCE), player.address)
        self._outcome.retried += not faults
        self._find(case, faults)

    def _hear(self, cases: Sequence[Case]) -> None:
        by_client = {case.client_id: case for case in cases}
        for thread, fault in self._listener.take():
            self._find(next((case for name, case in by_client.items() if thread.endswith(f"-{name}")), None), [fault])

    def _measure(self, descriptors: int) -> None:
        outcome = self._outcome
        outcome.rss_mb.append(_rss_mb())
        outcome.peak_mb = max(outcome.peak_mb, _peak_mb())
        if (now := _open_descriptors()) > descriptors:
            self._find(None, [Fault("leak", f"{now - descriptors} descriptors were left open in a round")])
        if outcome.growth_mb > MOST_GROWTH_MB and not outcome.count("growth"):
            self._find(None, [Fault("growth", f"the client has grown by {outcome.growth_mb:.0f} MB")])
        if outcome.peak_growth_mb > MOST_PEAK_MB and not outcome.count("growth"):
            self._find(
                None, [Fault("growth", f"the client once had {outcome.peak_growth_mb:.0f} MB more than at rest")]
            )


def _left_out(outcome: Outcome) -> list[str]:
    found = []
    missing = sum(count for (_, _, how), count in outcome.ends.items() if how == How.MISSING.value)
    if missing > _MISSING_SHARE * outcome.cases:
        found.append(f"{missing} requests could not be expressed")
    if outcome.cases >= _EVERY_VERSION_CASES:
        known = {(key, version) for key, api in APIS.items() for version in api.versions}
        found += [f"nobody has called version {version} of API {key}" for key, version in known - outcome.versions]
        found += [f"nobody has sent {name}" for name in EXCHANGES.keys() - outcome.asked]
    return found


def _rounds(cases: Sequence[Case], size: int) -> Iterator[Sequence[Case]]:
    for at in range(0, len(cases), size):
        yield cases[at : at + size]


def _open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _rss_mb() -> float:
    pages = Path("/proc/self/statm").read_text().split()[_PAGES_AT]
    return int(pages) * resource.getpagesize() / 1e6


def _peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1024 / 1e6


def _forget_peak() -> None:
    """Have the kernel reset the peak of resident memory."""
    Path("/proc/self/clear_refs").write_text("5")
