"""Checks that a copy of a partition has all of its records, once and in order, by comparing two streams.

    missing     a record of the source that is not in the copy
    doubled     a record that is in the copy once more
    reordered   a record that comes later in the copy than one that was written after it
    foreign     a record of the copy that the source has not, as far as is looked for it

Offsets differ between source and copy, so records are identified by their contents. If several records are alike, each
matches one. A record is searched among the next `window` records of the source, and a duplicate among the last ones.
The memory is a few hundred bytes for each of these records.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterator
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

WINDOW: Final = 20_000


class Fault(Enum):
    MISSING = "missing"
    DOUBLED = "doubled"
    REORDERED = "reordered"
    FOREIGN = "foreign"


class Seen(NamedTuple):
    """A record's offset, and the contents that identify it."""

    offset: int
    contents: Hashable


class Finding(NamedTuple):
    """A fault. For a missing record, `offset` is the offset in the source, else the offset in the copy."""

    fault: Fault
    offset: int


class CopyComparison:
    """Compares `source` with `copy`, which are read as far as needed.

    `compared` counts records of the copy; every source record before `next` was found in the copy or reported.
    """

    def __init__(self, source: Iterator[Seen], copy: Iterator[Seen], window: int = WINDOW) -> None:
        self.compared = 0
        self.next: int | None = None
        self._source: Final = source
        self._copy: Final = copy
        self._window: Final = window
        self._ahead: Final[deque[Seen]] = deque()
        self._ahead_count: Final[Counter[Hashable]] = Counter()
        self._passed: Final[deque[Seen]] = deque()  # of the source, not found so far
        self._recent: Final[deque[Hashable]] = deque()
        self._recent_count: Final[Counter[Hashable]] = Counter()

    def findings(self) -> Iterator[Finding]:
        """Yield faults as they are found. Raises the errors of the reads."""
        for seen in self._copy:
            self.compared += 1
            yield from self._on_copy(seen)
        yield from (Finding(Fault.MISSING, seen.offset) for seen in (*self._passed, *self._ahead, *self._source))

    def _on_copy(self, seen: Seen) -> Iterator[Finding]:
        contents = seen.contents
        self._look_ahead(1)
        if self._ahead and self._ahead[0].contents == contents:
            self._take()
        elif (passed := next((each for each in self._passed if each.contents == contents), None)) is not None:
            self._passed.remove(passed)
            yield Finding(Fault.REORDERED, seen.offset)
        elif self._recent_count[contents]:
            yield Finding(Fault.DOUBLED, seen.offset)
            return
        else:
            self._look_ahead(self._window)
            if not self._ahead_count[contents]:
                yield Finding(Fault.FOREIGN, seen.offset)
                return
            while self._ahead[0].contents != contents:
                self._passed.append(self._take())
            self._take()
        self._remember(contents)
        while len(self._passed) > self._window:
            yield Finding(Fault.MISSING, self._passed.popleft().offset)

    def _look_ahead(self, count: int) -> None:
        for seen in islice(self._source, max(0, count - len(self._ahead))):
            self._ahead.append(seen)
            self._ahead_count[seen.contents] += 1

    def _take(self) -> Seen:
        seen = self._ahead.popleft()
        self.next = seen.offset + 1
        self._ahead_count[seen.contents] -= 1
        if not self._ahead_count[seen.contents]:
            del self._ahead_count[seen.contents]
        return seen

    def _remember(self, contents: Hashable) -> None:
        self._recent.append(contents)
        self._recent_count[contents] += 1
        if len(self._recent) > self._window:
            oldest = self._recent.popleft()
            self._recent_count[oldest] -= 1
            if not self._recent_count[oldest]:
                del self._recent_count[oldest]
