"""Holds copies against their source, and against what its writers were told. Pure.

lost         a record of the source, or one that a writer was acknowledged, is not in the copy; of a table, the newest
             of a key
doubled      a record is in the copy more than once, where each is to be there once
reordered    what is there for the first time is not in the order of the source
foreign      a record that nobody wrote so, or one of an aborted transaction
past_true    an offset was translated to a place behind a record that its reader has not had
behind       … to one more than a batch before the record; Redis may be late by moments
swallowed    a producer of the target was acknowledged a record that is not there
unreadable   a copy can't be read
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.faults.history import Name, Operation, key_of, value_of
from tests.faults.kinds_found import KindsFound
from tests.faults.mirrored.arrivals import ARRIVAL_KINDS
from tests.faults.mirrored.copies import Copied
from tests.faults.mirrored.writer import TABLE

KINDS: Final = (
    "lost", "doubled", "reordered", "foreign", "past_true", "behind", "swallowed", "unreadable", *ARRIVAL_KINDS
)  # fmt: skip
MOST_BEHIND: Final = 1
"""Batches."""


class Translation(NamedTuple):
    """The translation of an offset of a topic's partition, for readers of the copy."""

    copy: str
    topic: str
    partition: int
    offset: int
    translated: int
    by_redis: bool = False


@dataclass(slots=True)
class Findings(KindsFound):
    """And how much was compared; `doubled_least` are records that came twice where they may."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    compared: int = 0
    acknowledged: int = 0
    doubled_least: int = 0
    translations: int = 0
    redis_translations: int = 0
    most_behind: int = 0


class Told(NamedTuple):
    """What a topic's writer reported: the acknowledged numbers, and the numbers of aborted transactions."""

    acknowledged: Collection[int]
    aborted: Collection[int]


def told(history: Iterable[Operation]) -> dict[str, Told]:
    """By topic."""
    found: dict[str, tuple[set[int], set[int]]] = {}
    for operation in history:
        if operation["f"] == "send" and operation["type"] in ("ok", "fail"):
            numbers = range(operation["first"], operation["first"] + operation["count"])
            acknowledged, aborted = found.setdefault(operation["topic"], (set(), set()))
            (acknowledged if operation["type"] == "ok" else aborted).update(numbers)
    return {topic: Told(*sets) for topic, sets in found.items()}


def is_intact(value: bytes | None) -> bool:
    """Whether a writer has written it so."""
    return value is not None and value_of(value.partition(b"=")[0]) == value


class Pair(NamedTuple):
    """A partition of the source, and its copy."""

    copy_of: str
    topic: str
    partition: int
    source: Sequence[Copied]
    copy: Sequence[Copied]

    @property
    def where(self) -> str:
        return f"{self.copy_of}.{self.topic}-{self.partition}"


def check_pair(findings: Findings, pair: Pair, told: Told, *, once: bool) -> None:
    """`once`: no record may be there twice."""
    source, copy = [each[1:] for each in pair.source], [each[1:] for each in pair.copy]
    order = list(dict.fromkeys(copy))
    findings.compared += len(copy)
    if len(order) < len(copy) and once:
        again = next(content for content, count in Counter(copy).items() if count > 1)
        findings.add("doubled", f"{pair.where}: {again} is one of {len(copy) - len(order)}")
    elif not once:
        findings.doubled_least += len(copy) - len(order)
    for key, value in order:
        if not is_intact(value):
            findings.add("foreign", f"{pair.where}: {key!r} {value!r}")
    if pair.topic == TABLE:
        _check_table(findings, pair.where, dict(source), dict(copy))
    else:
        _check_stream(findings, pair, source, order, told)


def _check_table(
    findings: Findings, where: str, source: Mapping[bytes | None, object], copy: Mapping[bytes | None, object]
) -> None:
    for key, value in source.items():
        if copy.get(key) != value:
            findings.add("lost", f"{where}: {key!r} is {copy.get(key)!r}, and {value!r} in the source")


def _check_stream(
    findings: Findings,
    pair: Pair,
    source: Sequence[tuple[object, ...]],
    order: Sequence[tuple[object, ...]],
    told: Told,
) -> None:
    there, written = set(order), dict.fromkeys(source)
    for content in written:
        if content not in there:
            findings.add("lost", f"{pair.where}: {content}")
    keys = {content[0] for content in there}
    for kind, numbers, is_wrong in (("lost", told.acknowledged, False), ("foreign", told.aborted, True)):
        for number in numbers:
            key = key_of(Name(pair.topic, pair.partition, number))
            if (key in keys) is is_wrong:
                findings.add(kind, f"{pair.where}: {key!r}, as its writer knows it")
    findings.acknowledged += len(told.acknowledged)
    for content in order:
        if content not in written:
            findings.add("foreign", f"{pair.where}: {content}")
    if [content for content in order if content in written] != [content for content in written if content in there]:
        findings.add("reordered", pair.where)


def check_translations(
    findings: Findings, pair: Pair, batches: Sequence[int], translations: Iterable[Translation]
) -> None:
    """Check the translations of one partition. `batches` are the first offsets of the batches of its copy."""
    first: dict[tuple[object, ...], int] = {}
    last: dict[tuple[object, ...], int] = {}
    for record in pair.copy:
        first.setdefault(record[1:], record.offset)
        last[record[1:]] = record.offset
    records = [record for record in pair.source if record[1:] in first]
    limits = _from_each_on([last[record[1:]] for record in records])
    at = [record.offset for record in records]
    # Second copies of earlier records may lie before a record. Reading them again does not make a translation late.
    places = sorted(first.values())
    for translation in translations:
        number = bisect_left(at, translation.offset)
        if number == len(at):
            continue  # at the end of all that there is
        if translation.by_redis:
            findings.redis_translations += 1
        else:
            findings.translations += 1
        true = first[records[number][1:]]
        if translation.translated > limits[number]:
            findings.add("past_true", f"{translation}, the last copy of what follows is at {limits[number]}")
        if translation.by_redis:
            continue
        again = places[bisect_left(places, translation.translated) : bisect_left(places, true)]
        behind = len({bisect_right(batches, place) for place in again})
        findings.most_behind = max(findings.most_behind, behind)
        if behind > MOST_BEHIND:
            findings.add("behind", f"{translation}, {behind} batches before {true}")


def _from_each_on(offsets: Sequence[int]) -> list[int]:
    """The lowest of those from each one on."""
    lowest: list[int] = []
    for offset in reversed(offsets):
        lowest.append(min(offset, lowest[-1]) if lowest else offset)
    return lowest[::-1]
