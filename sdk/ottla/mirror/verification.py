"""Compares a partition with its copy in another cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.admin.admin import Admin
from ottla.consumer.consumer import Consumer
from ottla.errors import config_error
from ottla.machines.comparisons.copies import CopyComparison, Fault, Finding, Seen
from ottla.mirror.flow_info import MirroredPartition

_EXAMPLES: Final = 10


@dataclass(slots=True)
class CopyCheck:
    """The comparison of a source partition with its copy.

    `compared` counts the compared records of the copy, `counts` has the number of faults of each kind, and `examples`
    has the first faults found. The copy contains every record before the source offset `position`.
    """

    topic: str
    partition: int
    copy: str
    position: int
    compared: int = 0
    counts: dict[Fault, int] = field(default_factory=lambda: dict.fromkeys(Fault, 0))
    examples: list[Finding] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether no record of the copy is missing, duplicated, reordered, or foreign to the source."""
        return not any(self.counts.values())


class VerifiedUpTo:
    """A file with the progress of earlier runs: offsets in the source and in the copy, by partition."""

    def __init__(self, file: Path | None) -> None:
        self._file: Final = file
        self._at: dict[str, list[int]] = {}
        if file is not None and file.exists():
            try:
                self._at = {str(name): [int(at[0]), int(at[1])] for name, at in json.loads(file.read_text()).items()}
            except (OSError, ValueError, LookupError, TypeError, AttributeError):
                raise config_error(
                    f"{file} is not a state file of an earlier run", hint="remove it to start from the beginning"
                ) from None

    def get(self, copied: CopyCheck) -> tuple[int, int] | None:
        at = self._at.get(f"{copied.copy}-{copied.partition}")
        return None if at is None else (at[0], at[1])

    def put(self, copied: CopyCheck, source: int, copy: int) -> None:
        self._at[f"{copied.copy}-{copied.partition}"] = [source, copy]
        if self._file is not None:
            aside = self._file.with_name(self._file.name + ".aside")
            aside.write_text(json.dumps(self._at))
            aside.replace(self._file)


class Site(NamedTuple):
    """How to reach a cluster: addresses of brokers, and settings under Kafka's names, which may have other ones."""

    bootstrap: Sequence[str]
    config: Mapping[str, Any]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a client."""
        return {"bootstrap": None if "bootstrap.servers" in self.config else self.bootstrap, "config": self.config}


def verify_copy(source: Site, target: Site, mirrored: MirroredPartition, known: VerifiedUpTo) -> CopyCheck:
    """Compare what is in both now, after what was compared before. Raises the errors of reading."""
    check = CopyCheck(mirrored.topic, mirrored.partition, mirrored.copy, mirrored.position or 0)
    at = known.get(check)
    starts: tuple[Any, Any] = ("earliest", "earliest")
    if at is not None:
        starts = {(check.topic, check.partition): at[0]}, {(check.copy, check.partition): at[1]}
    with Admin(**target.arguments()) as admin:  # up to there, even if that means waiting for an open transaction
        end = admin.topics.offsets(check.copy, "latest")[check.partition]
    original = _open(source, check.topic, check.partition, starts[0], "end")
    copy = _open(target, check.copy, check.partition, starts[1], {(check.copy, check.partition): end})
    with original, copy:
        comparison = CopyComparison(_seen(original), _seen(copy))
        for finding in comparison.findings():
            if finding.fault is Fault.MISSING and finding.offset >= check.position:
                continue  # it may still be on its way
            check.counts[finding.fault] += 1
            if len(check.examples) < _EXAMPLES:
                check.examples.append(finding)
        check.compared = comparison.compared
        if comparison.next is not None:
            known.put(check, comparison.next, copy.position((check.copy, check.partition)))
    return check


def _open(site: Site, topic: str, partition: int, start: Any, stop: Any) -> Consumer[Any, Any]:
    return Consumer(
        topic,
        **site.arguments(),
        partitions=[partition],
        start=start,
        stop=stop,
        key="bytes",
        value="bytes",
    )


def _seen(consumer: Consumer[Any, Any]) -> Iterator[Seen]:
    for record in consumer:
        yield Seen(record.offset, hash((record.key, record.value, tuple(record.headers), record.timestamp)))
