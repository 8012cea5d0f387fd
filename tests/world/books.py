"""The books of a ledger note what producers have written and were told. Their judge compares that with the log."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from tests.world.findings import Findings

_ANYWHERE: Final = sys.maxsize
"""The offset of a value that may lie behind all others."""


class Fate(Enum):
    OPEN = auto()
    """No commit has been sent. The next producer with its transactional id aborts it, or its timeout does."""
    UNKNOWN = auto()
    """A commit has been sent, and its producer does not know what became of it."""
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(slots=True)
class Entry:
    """An entry is one value, as its producer knows it. `offset` is -1 until the value is acknowledged."""

    key: bytes
    value: bytes
    partition: int
    offset: int = -1


@dataclass(slots=True)
class Transaction:
    """A transaction has the values that a producer writes together.

    A write of an idempotent producer counts as a transaction of one value, which is committed when it is acknowledged.
    """

    producer: str
    entries: list[Entry] = field(default_factory=list)
    fate: Fate = Fate.OPEN
    committed_at: float = math.inf
    offset: int = -1
    """The transaction commits this offset for its producer's group, or none if it is -1."""


class Reading(NamedTuple):
    """A reader of a partition has found these values, by offset, from the log's `start` to `end`."""

    values: dict[int, bytes]
    start: int
    end: int


class Books:
    """This keeps what producers know, and judges what readers see.

    With `is_compacted`, a value may be gone if a newer value of its key is visible.
    """

    def __init__(self, findings: Findings, *, is_compacted: bool) -> None:
        self.transactions: Final[list[Transaction]] = []
        self.deleted: Final[Counter[int]] = Counter()
        """The offset before which records may have been deleted, by partition."""
        self._findings: Final = findings
        self._is_compacted: Final = is_compacted
        self._written: Final[dict[bytes, tuple[Transaction, Entry]]] = {}

    def begin(self, producer: str, fate: Fate = Fate.OPEN) -> Transaction:
        self.transactions.append(Transaction(producer, fate=fate))
        return self.transactions[-1]

    def add(self, transaction: Transaction, entry: Entry) -> Entry:
        transaction.entries.append(entry)
        self._written[entry.value] = (transaction, entry)
        return entry

    def key_of(self, value: bytes) -> bytes:
        return self._written[value][1].key

    # ---- the judge -------------------------------------------------------------------------------------------------

    def judge_visible(self, number: int, read: Reading, *, committed_before: float = math.inf) -> None:
        """Compare what a reader of committed records has seen of a partition with what producers know."""
        findings, places = self._findings, {value: offset for offset, value in read.values.items()}
        if read.start > self.deleted[number]:
            findings.violate(
                f"partition {number} begins at {read.start}, but DeleteRecords asked for {self.deleted[number]}"
            )
        for offset, value in read.values.items():
            self.check_readable(number, offset, value)
        newest = self._newest(number, read, committed_before)
        for transaction in self.transactions:
            for entry in transaction.entries:
                if entry.partition != number or not transaction.committed_at < committed_before:
                    continue
                if not read.start <= entry.offset < read.end:
                    continue
                findings.counts["judged"] += 1
                there = read.values.get(entry.offset)
                if places.get(entry.value) != entry.offset and not (
                    there is None and newest.get(entry.key, -1) > entry.offset
                ):
                    findings.violate(f"{entry.value!r} was committed at offset {entry.offset}, which has {there!r}")

    def check_readable(self, number: int, offset: int, value: bytes) -> None:
        """Check a value that a reader of committed records has seen."""
        if value not in self._written:
            self._findings.violate(f"offset {offset} of partition {number} has {value!r}, which nobody has written")
        elif (fate := self._written[value][0].fate) in (Fate.ABORTED, Fate.OPEN):
            self._findings.violate(f"{value!r} is visible at offset {offset}, but its transaction is {fate.name}")

    def _newest(self, number: int, read: Reading, committed_before: float) -> Mapping[bytes, int]:
        """Return, for each key of a compacted topic, the highest offset of a value that may supersede others.

        While producers are at work, that may be a value beyond the end of what was read: a leader that has just started
        knows an older high watermark than the one up to which it has cleaned. Nobody knows the offset of a value that
        is not acknowledged.
        """
        if not self._is_compacted:
            return {}
        newest = {self.key_of(value): offset for offset, value in sorted(read.values.items()) if value in self._written}
        if committed_before < math.inf:
            for transaction in self.transactions:
                for entry in transaction.entries if transaction.fate in (Fate.UNKNOWN, Fate.COMMITTED) else ():
                    if entry.partition == number:
                        offset = entry.offset if entry.offset >= 0 else _ANYWHERE
                        newest[entry.key] = max(offset, newest.get(entry.key, -1))
        return newest

    def judge_order(self, number: int, visible: Reading, written: Reading) -> None:
        """Check that each value is there once, and that a producer's values are in the order in which it sent them."""
        seen: dict[bytes, int] = {}
        for offset, value in written.values.items():
            if seen.setdefault(value, offset) != offset:
                self._findings.violate(
                    f"{value!r} was written once and is at offsets {seen[value]} and {offset} of partition {number}"
                )
        last: dict[str, int] = {}
        for transaction in self.transactions:
            for entry in transaction.entries:
                offset = seen.get(entry.value, -1)
                if entry.partition == number and offset in visible.values:
                    if offset < last.get(transaction.producer, -1):
                        self._findings.violate(
                            f"{entry.value!r} is at offset {offset}, before a value that was sent earlier"
                        )
                    last[transaction.producer] = offset

    def judge_whole(self, visible: Sequence[Reading]) -> None:
        """Check that each transaction is visible as a whole or not at all, except for deleted and superseded values."""
        there = {value for read in visible for value in read.values.values()}
        newest = [self._newest(number, read, math.inf) for number, read in enumerate(visible)]
        for transaction in self.transactions:
            missing = [entry for entry in transaction.entries if entry.value not in there]
            if 0 < len(missing) < len(transaction.entries):
                for entry in missing:
                    is_deleted = 0 <= entry.offset < visible[entry.partition].start
                    is_superseded = newest[entry.partition].get(entry.key, -1) > entry.offset >= 0
                    if not (is_deleted or is_superseded):
                        self._findings.violate(f"a transaction is visible without {entry}: {transaction}")

    def difference(self, number: int, logs: Mapping[str, Reading], visible: Reading) -> str:
        """Return how the logs of the replicas differ, or an empty text.

        All logs must have equal values at equal offsets. In a compacted topic, each log must have the newest value of
        each key. A leader that was killed may have forgotten a deletion that its follower has carried out. So only
        what lies after the highest log start is compared.
        """
        start = max(visible.start, *(log.start for log in logs.values()))
        if start > self.deleted[number]:
            return f"a log of partition {number} begins at {start}, but DeleteRecords asked for {self.deleted[number]}"
        if not self._is_compacted:
            values = [{o: v for o, v in log.values.items() if o >= start} for log in logs.values()]
            return "" if all(each == values[0] for each in values) else f"the logs of partition {number} differ"
        newest = self._newest(number, visible, math.inf)
        for name, log in logs.items():
            for key, offset in newest.items():
                if offset >= start and log.values.get(offset) != visible.values[offset]:
                    return (
                        f"{name} has {log.values.get(offset)!r} at offset {offset} of partition {number}, which has "
                        f"the newest value of {key!r}"
                    )
        return _contradiction(number, logs.values())


def _contradiction(number: int, logs: Iterable[Reading]) -> str:
    """Return at which offset two logs have different values, or an empty text."""
    known: dict[int, bytes] = {}
    for log in logs:
        for offset, value in log.values.items():
            if known.setdefault(offset, value) != value:
                return (
                    f"offset {offset} of partition {number} has {known[offset]!r} on one disk and {value!r} on another"
                )
    return ""
