"""Reading a partition and its copy in another cluster, and what is different: for `ottla mirror verify`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.admin.admin import Admin
from ottla.consumer.consumer import Consumer
from ottla.errors import config_error
from ottla.machines.comparisons.copies import CopyComparison, Fault, Finding, Seen

_EXAMPLES: Final = 10


class Copied(NamedTuple):
    """A partition of the source's `topic`, and the topic of the target with its copy. `position`: what comes before it
    in the source is in the copy."""

    topic: str
    partition: int
    copy: str
    position: int


@dataclass(slots=True)
class Verified:
    """How many records of the copy were compared, what was found, and the first examples of it."""

    copied: Copied
    compared: int = 0
    counts: dict[Fault, int] = field(default_factory=lambda: dict.fromkeys(Fault, 0))
    examples: list[Finding] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not any(self.counts.values())


class VerifiedUpTo:
    """How far earlier runs have come, in a file: offsets in the source and in the copy, by partition."""

    def __init__(self, file: Path | None) -> None:
        self._file: Final = file
        self._at: dict[str, list[int]] = {}
        if file is not None and file.exists():
            try:
                self._at = {str(name): [int(at[0]), int(at[1])] for name, at in json.loads(file.read_text()).items()}
            except (OSError, ValueError, LookupError, TypeError, AttributeError):
                raise config_error(f"{file} is not what a run has written", hint="remove it to begin anew") from None

    def get(self, copied: Copied) -> tuple[int, int] | None:
        at = self._at.get(f"{copied.copy}-{copied.partition}")
        return None if at is None else (at[0], at[1])

    def put(self, copied: Copied, source: int, copy: int) -> None:
        self._at[f"{copied.copy}-{copied.partition}"] = [source, copy]
        if self._file is not None:
            aside = self._file.with_name(self._file.name + ".aside")
            aside.write_text(json.dumps(self._at))
            aside.replace(self._file)


def verify(source: Sequence[str], target: Sequence[str], copied: Copied, known: VerifiedUpTo) -> Verified:
    """Compare what is in both now, behind what was compared before. Raises what reading raises."""
    verified, at = Verified(copied), known.get(copied)
    starts: tuple[Any, Any] = ("earliest", "earliest")
    if at is not None:
        starts = {(copied.topic, copied.partition): at[0]}, {(copied.copy, copied.partition): at[1]}
    with Admin(list(target)) as admin:  # up to there, though a transaction that was left open is to be waited for
        end = admin.topics.offsets(copied.copy, "latest")[copied.partition]
    original = _open(source, copied.topic, copied.partition, starts[0], "end")
    copy = _open(target, copied.copy, copied.partition, starts[1], {(copied.copy, copied.partition): end})
    with original, copy:
        comparison = CopyComparison(_seen(original), _seen(copy))
        for finding in comparison.findings():
            if finding.fault is Fault.MISSING and finding.offset >= copied.position:
                continue  # it may be on its way
            verified.counts[finding.fault] += 1
            if len(verified.examples) < _EXAMPLES:
                verified.examples.append(finding)
        verified.compared = comparison.compared
        if comparison.next is not None:
            known.put(copied, comparison.next, copy.position((copied.copy, copied.partition)))
    return verified


def _open(bootstrap: Sequence[str], topic: str, partition: int, start: Any, stop: Any) -> Consumer[Any, Any]:
    return Consumer(
        topic,
        bootstrap=list(bootstrap),
        partitions=[partition],
        start=start,
        stop=stop,
        key="bytes",
        value="bytes",
    )


def _seen(consumer: Consumer[Any, Any]) -> Iterator[Seen]:
    for record in consumer:
        yield Seen(record.offset, hash((record.key, record.value, tuple(record.headers), record.timestamp)))
