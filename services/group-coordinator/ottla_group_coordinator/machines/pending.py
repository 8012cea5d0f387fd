"""Offsets in open transactions. They are committed once the producer's marker says so, and invisible until then (rule
50).

A marker names only the producer. The offsets that it commits are older than what others have committed or deleted
since. For each partition the record that came last counts, as if there were no markers.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from typing import Final, NamedTuple

from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines.records import CommittedOffset, OffsetKey

_NOTHING: Final[dict[TopicPartition, set[int]]] = {}


class _Held(NamedTuple):
    """`offset` is None once something newer has been committed. Its partition stays unstable all the same."""

    order: int
    offset: CommittedOffset | None


class PendingOffsets:
    def __init__(self) -> None:
        self._by_producer: Final[dict[int, dict[OffsetKey, _Held]]] = {}
        self._producers: Final[dict[str, dict[TopicPartition, set[int]]]] = {}
        self._order = 0

    def partitions(self, group: str) -> KeysView[TopicPartition]:
        """Return the partitions for which the group has an offset commit in an open transaction."""
        return self._producers.get(group, _NOTHING).keys()

    def groups(self) -> KeysView[str]:
        return self._producers.keys()

    def __iter__(self) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        for held in self._by_producer.values():
            yield from ((key, held.offset) for key, held in held.items() if held.offset is not None)

    def hold(self, producer_id: int, key: OffsetKey, offset: CommittedOffset) -> None:
        self._order += 1
        self._by_producer.setdefault(producer_id, {})[key] = _Held(self._order, offset)
        self._producers.setdefault(key.group, {}).setdefault(key.partition, set()).add(producer_id)

    def end(self, producer_id: int, *, committed: bool) -> list[tuple[OffsetKey, CommittedOffset]]:
        """End the producer's transaction. Return the offsets that are committed by it."""
        ended = self._by_producer.pop(producer_id, {})
        for key, held in ended.items():
            self._unlink(key, producer_id)
            if committed and held.offset is not None:
                self.supersede(key, before=held.order)
        return [(key, held.offset) for key, held in ended.items() if committed and held.offset is not None]

    def supersede(self, key: OffsetKey, *, before: int | None = None) -> None:
        """Note that something newer is committed than what is pending, or than what was pending before that moment."""
        for producer_id in self._producers.get(key.group, _NOTHING).get(key.partition, ()):
            held = self._by_producer[producer_id]
            if before is None or held[key].order < before:
                held[key] = held[key]._replace(offset=None)

    def drop(self, key: OffsetKey) -> None:
        """Drop a deleted offset, and what is pending with it."""
        for producer_id in list(self._producers.get(key.group, _NOTHING).get(key.partition, ())):
            held = self._by_producer[producer_id]
            del held[key]
            if not held:
                del self._by_producer[producer_id]
            self._unlink(key, producer_id)

    def _unlink(self, key: OffsetKey, producer_id: int) -> None:
        partitions = self._producers[key.group]
        partitions[key.partition].discard(producer_id)
        if not partitions[key.partition]:
            del partitions[key.partition]
        if not partitions:
            del self._producers[key.group]
