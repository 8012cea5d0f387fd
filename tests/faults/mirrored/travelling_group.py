"""A group that reads in the source or in a copy, and knows what it has had: it goes to the other site and back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from tests.faults.mirrored.copies import Copied
from tests.faults.mirrored.writer import IN_TRANSACTIONS, PARTITIONS

import ottla

READ_TOPICS: Final = ("gzip", IN_TRANSACTIONS)
"""Topics of the source: the offsets of the first differ little in the copy, those of the second again and again."""

Logs = Mapping[ottla.TopicPartition, Sequence[Copied]]
"""What lies in partitions, by offset."""

_LEFT: Final = 400
"""Records of a partition that are before a group when it begins."""

_POLL_S: Final = 0.2
_AT_ONCE: Final = 50
_READ_LIMIT_S: Final = 60.0


class Side(StrEnum):
    SOURCE = "source"
    TARGET = "target"


class Kind(StrEnum):
    """What becomes of a group while months go by."""

    COMMUTER = "commuter"
    """It works on whichever side it is, and its members stay while it rests."""

    HOME = "home"
    """It works in the source alone, also where it was moved."""

    SLEEPER = "sleeper"
    """It leaves before the first month, and goes on after the first failover as a commuter."""

    LEAVER = "leaver"
    """A commuter that leaves the target for good."""

    GONE = "gone"
    """It leaves before the first month, for good."""


class TravellingGroup:
    """A group of the flow with this alias. `bootstraps` are the clusters' by side. Not thread-safe."""

    def __init__(self, kind: Kind, alias: str, bootstraps: Mapping[Side, str]) -> None:
        self.kind: Final = kind
        self.alias: Final = alias
        self.name: Final = f"{alias}-{kind}"
        self.side = Side.SOURCE
        """Where it works, or did last."""
        self.had: Final[Counter[bytes]] = Counter()
        """By the keys of records, on both sides."""
        self.furthest: Final[dict[ottla.TopicPartition, int]] = {}
        """Where it has been by itself; partitions of the copies are among them."""
        self._bootstraps: Final = bootstraps
        self._member: ottla.Consumer[bytes, bytes] | None = None

    def topic_on(self, side: Side, topic: str) -> str:
        return topic if side is Side.SOURCE else f"{self.alias}.{topic}"

    def partitions_on(self, side: Side) -> list[ottla.TopicPartition]:
        names = [self.topic_on(side, topic) for topic in READ_TOPICS]
        return [ottla.TopicPartition(name, number) for name in names for number in range(PARTITIONS)]

    def begin(self, admin: ottla.Admin, logs: Logs) -> None:
        """In the source, some records before the ends of its logs, as if it had had the rest."""
        positions = {}
        for tp in self.partitions_on(Side.SOURCE):
            *had, first = logs[tp][: max(1, len(logs[tp]) - _LEFT)]
            positions[tp] = first.offset
            self.had.update(record.key for record in had if record.key is not None)
        admin.groups.commit(self.name, positions)

    def go_on(self, side: Side, ends: Mapping[ottla.TopicPartition, int]) -> None:
        """Read on that side up to these offsets or beyond, from what it has committed there, and commit. Its member
        stays. Raises OttlaError where nothing is committed, and TimeoutError."""
        if side is not self.side:
            self.leave()
            self.side = side
        if self._member is None:
            self._member = self._join()
        ends = {tp: ends[tp] for tp in self.partitions_on(side)}
        give_up_at, reached = time.monotonic() + _READ_LIMIT_S, dict[ottla.TopicPartition, int]()
        while not all(self.furthest.get(tp, 0) >= end for tp, end in ends.items()):
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{self.name} was to read {ends}, and came to {reached}")
            for record in self._member.poll(_POLL_S, max_records=_AT_ONCE):
                self._note(record)
                tp = ottla.TopicPartition(record.topic, record.partition)
                reached[tp] = record.offset + 1
                self.furthest[tp] = max(self.furthest.get(tp, 0), record.offset + 1)
        if reached:
            self._member.commit(reached)

    def leave(self) -> None:
        if self._member is not None:
            self._member.close()
            self._member = None

    def _join(self) -> ottla.Consumer[bytes, bytes]:
        return ottla.Consumer(
            *(self.topic_on(self.side, topic) for topic in READ_TOPICS),
            bootstrap=self._bootstraps[self.side],
            group=self.name,
            auto_offset_reset="none",
            commit="manual",
            key="bytes",
            value="bytes",
        )

    def _note(self, record: Any) -> None:
        self.had[record.key] += 1
