"""Copies that were made exactly once: where they stand, how they are judged, and the mutant that leaves records out."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from tests.faults.interrupted.notes import Notes

import ottla
from ottla.consumer.group.reader import GroupReader
from ottla.consumer.reader import RecordReader


def topic_of_copy(given: argparse.Namespace) -> str:
    """Return the topic to which the group copies."""
    return f"{given.topic}-{given.group}"


def check_copy(given: argparse.Namespace, notes: Notes) -> None:
    """Compare the copy with the committed offsets of its group: it has each record below them once."""
    counts: Counter[bytes] = Counter()
    settings: dict[str, Any] = {"bootstrap": given.bootstrap, "start": "earliest", "stop": "end", "value": "bytes"}
    with ottla.Consumer[Any, bytes](topic_of_copy(given), **settings) as copy:
        counts.update(record.value for record in copy)
    with ottla.Admin(given.bootstrap) as admin:
        ends = {partition.partition: end for partition, end in admin.groups.committed(given.group).items()}
    expected = {b"%d:%d" % (partition, offset) for partition, end in ends.items() for offset in range(end)}
    notes.seen = len(counts)
    notes.skipped = len(expected - counts.keys())
    notes.repeated = sum(count - 1 for count in counts.values())
    notes.misplaced = notes.repeated + len(counts.keys() - expected)


def stay_behind(reader: RecordReader[Any, Any]) -> None:
    """The order that there was before: only an abort that has run to its end leads the consumer back."""
    assert isinstance(reader, GroupReader)
    reader._transactions.clear()
    reader.go_back_unless = lambda outcome: None
