"""A table's snapshot on the local disk, so that a start reads only newer records (docs/use/tables.md).

A snapshot is used only if loading the topic would give the same table: the topic has the same id, its log begins where
it began and still has the snapshot's positions, and the table reads at the same isolation level. The snapshot must also
be younger than `delete.retention.ms`, because brokers keep a tombstone only that long, so an older one could miss
removals. Its age counts from a time at which the table provably had every record: a table that is cut off does not
notice. A topic with retention gets no snapshot, because retention deletes records without a tombstone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.admin.configs import Configs
from ottla.admin.controller_channel import ControllerChannel
from ottla.client.list_offsets import list_offsets_or_end
from ottla.consumer.consumer import Consumer
from ottla.errors import OttlaError, config_error
from ottla.table.snapshot_file import Head, Stored, open_snapshot, write_snapshot
from ottla.table.view import TableView
from ottla_core.clock import Clock
from ottla_core.model import LATEST_TIMESTAMP, TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla_core.records.record import RawRecord

logger = logging.getLogger("ottla.table")

PathLike: TypeAlias = str | Path

_EVERY_S: Final = 300.0
_YOUNG_MS: Final = 3_600_000
_LOOK_UP_S: Final = 5.0
"""How long a lookup for a snapshot may take: meanwhile the table does not follow its topic."""


class TableSnapshot:
    """The snapshot of one table, for the thread that follows the topic: it keeps the raw records, and writes them."""

    def __init__(self, directory: Path, topic: str) -> None:
        self._topic: Final = topic
        self._path: Final = directory / f"{topic}.snapshot"
        self._latest: dict[bytes, Stored] = {}
        self._as_of_ms: int | None = None
        self._ends: tuple[int, dict[TopicPartition, int]] | None = None  # the time of a lookup, and its result
        self._look_at = 0.0
        self._state: tuple[str, dict[int, tuple[int, int]]] | None = None
        self._first: dict[int, int] | None = None  # where the logs began when they were first read
        self._unfit: str | None = None  # why no snapshot is written
        self._written: Head | None = None
        self._clock: Clock | None = None  # the consumer's, once there is one
        self._read_committed = True
        self._is_restored = False

    def keeping(self, raws: Iterable[RawRecord]) -> Iterator[RawRecord]:
        """Pass the records on to the view, keeping a copy."""
        latest = self._latest
        for raw in raws:
            _, _, key, value, headers = raw
            if key is not None:
                latest.pop(key, None)  # in the order of the changes: keys may be equal once they are deserialized
                if value is not None:
                    latest[key] = (value, tuple(headers)) if headers else value
            yield raw

    def clear(self) -> None:
        """Forget all records: the view's content is no longer in the topic."""
        self._latest, self._as_of_ms, self._ends, self._state = {}, None, None, None
        self._first, self._look_at = None, 0.0

    def restore(self, consumer: Consumer[Any, Any], view: TableView) -> None:
        """Load the snapshot, once, before anything is read. If it can't be used, log why."""
        if self._is_restored:
            return
        consumer.assignment()  # raises if no broker answers, or the topic is missing
        self._is_restored = True
        try:
            self._first = first = self._first_offsets(consumer)
            with open_snapshot(self._path) as (head, batches):
                self._check(head, first, consumer)
                for raws in batches:
                    view.apply(TopicPartition(self._topic, -1), self.keeping(raws))
            self._seek(head, consumer)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, AttributeError, LookupError, OttlaError) as error:
            view.clear()
            self.clear()
            logger.warning("ignoring %s: %s", self._path, error)

    def _check(self, head: Head, first: Mapping[int, int], consumer: Consumer[Any, Any]) -> None:
        """Raise ValueError or OttlaError unless the topic still has every record after the snapshot."""
        cluster = consumer._cluster
        if head.topic_id != cluster.view.topics[self._topic].id.hex():
            raise ValueError("the snapshot belongs to another topic with the same name")
        if head.read_committed != consumer._fetcher.read_committed:
            raise ValueError(
                f"the snapshot was read with isolation_level=read_{'' if head.read_committed else 'un'}committed"
            )
        if not first.items() >= head.first_offsets.items():
            raise ValueError("the start of the log has moved, because records were deleted")
        kept_ms, age_ms = deleted_kept_ms(consumer, self._topic), cluster.clock.wall_ms() - head.as_of_ms
        if not 0 <= age_ms < kept_ms:
            raise ValueError(
                f"the snapshot's age of {age_ms / 1000:.0f} s is not between 0 and delete.retention.ms ({kept_ms} ms)"
            )
        end = consumer.offsets("latest")
        for number, (offset, _) in head.positions.items():
            partition = TopicPartition(self._topic, number)
            if not head.first_offsets[number] <= offset <= (end[partition] or 0):
                raise ValueError(f"the snapshot's position {offset} is not in the log of {partition}")

    def _seek(self, head: Head, consumer: Consumer[Any, Any]) -> None:
        positions = consumer._assignment.positions()
        with consumer._lock:
            for number, (offset, epoch) in head.positions.items():
                position = positions[TopicPartition(self._topic, number)]
                consumer._subscription.seek(position, offset, epoch)
                position.topic_id = TopicId(bytes.fromhex(head.topic_id))  # the offset is valid only in that topic
        self._as_of_ms, self._written = head.as_of_ms, head

    def on_step(self, consumer: Consumer[Any, Any], *, caught_up: bool) -> None:
        """Write from time to time, once the table reflects everything that was in the topic at some point."""
        positions = consumer._assignment.positions()
        clock = self._clock = consumer._cluster.clock
        self._read_committed = consumer._fetcher.read_committed
        ids = dict.fromkeys(at.topic_id for at in positions.values())
        if len(ids) == 1 and (topic_id := next(iter(ids))) is not None:
            known = {p.partition: (at.offset, at.offset_epoch) for p, at in positions.items() if at.offset is not None}
            self._state = (topic_id.hex(), known) if len(known) == len(positions) else None
        if caught_up and clock.monotonic() >= self._look_at:
            self._look_at = clock.monotonic() + _EVERY_S
            try:
                self._ends = self._look_up(consumer, positions)
            except OttlaError as error:
                logger.warning("can't take a snapshot of %r at the moment: %s", self._topic, error)
            except ValueError as error:
                if self._unfit != str(error):
                    logger.warning("can't take a snapshot of %r: %s", self._topic, error)
                self._unfit = str(error)
        if self._ends is not None and self._state is not None:
            as_of_ms, ends = self._ends
            if all(self._state[1].get(p.partition, (-1,))[0] >= end for p, end in ends.items()):
                self._as_of_ms, self._ends = as_of_ms, None
                if not self._written or self._written.positions != self._state[1] or self._is_aging(as_of_ms):
                    self.write()

    def _look_up(
        self, consumer: Consumer[Any, Any], partitions: Iterable[TopicPartition]
    ) -> tuple[int, dict[TopicPartition, int]]:
        """Return a time, and the ends of the logs at that time. Raises ValueError if a snapshot would be useless, and
        OttlaError."""
        as_of_ms = consumer._cluster.clock.wall_ms()
        deleted_kept_ms(consumer, self._topic)
        first = self._first_offsets(consumer)
        self._first = self._first or first
        if not first.items() >= self._first.items():
            raise ValueError("records were deleted, and the table may show them until it restarts")
        self._first = first
        ends = list_offsets_or_end(
            consumer._cluster,
            dict.fromkeys(partitions, LATEST_TIMESTAMP),
            timeout=_LOOK_UP_S,
            read_committed=consumer._fetcher.read_committed,
        )
        return as_of_ms, ends

    def _first_offsets(self, consumer: Consumer[Any, Any]) -> dict[int, int]:
        return {partition.partition: at or 0 for partition, at in consumer.offsets("earliest").items()}

    def _is_aging(self, now_ms: int) -> bool:
        """Return whether the file has to be renewed because of its age, though nothing has changed."""
        return self._written is not None and now_ms - self._written.as_of_ms > _YOUNG_MS

    def write(self) -> None:
        """Write the file, if there is anything new. A failure is logged, and tried again later."""
        if self._state is None or self._as_of_ms is None or self._first is None:
            return
        topic_id, positions = self._state
        head = Head(topic_id, self._read_committed, self._first, positions, self._as_of_ms)
        if head == self._written or self._has_later(head):
            return
        try:
            write_snapshot(self._path, head, self._latest)
            self._written = head
        except OSError as error:
            logger.warning("the snapshot %s can't be written: %s", self._path, error.strerror)

    def _has_later(self, head: Head) -> bool:
        """Return whether another table of the topic has written a file with a later time.

        A time in the future comes from a clock that was set back: no start would use that file.
        """
        with suppress(OSError, ValueError, TypeError, AttributeError), open_snapshot(self._path) as (found, _):
            is_later = self._clock is not None and head.as_of_ms < found.as_of_ms <= self._clock.wall_ms()
            return is_later and found[:2] == head[:2]
        return False


def deleted_kept_ms(consumer: Consumer[Any, Any], topic: str) -> int:
    """Return how long brokers keep a tombstone. Raises OttlaError, and ValueError if records are deleted without
    one."""
    configs = Configs(ControllerChannel(consumer._cluster, _LOOK_UP_S)).get(topic=topic)
    if "delete" in configs["cleanup.policy"].value:
        raise ValueError("cleanup.policy contains delete, so retention deletes keys without a tombstone")
    return int(configs["delete.retention.ms"].value)


def directory_at(like: PathLike) -> Path:
    """Return the directory, created if missing. Raises ConfigError."""
    try:
        Path(like).mkdir(parents=True, exist_ok=True)
    except (OSError, TypeError, ValueError) as error:
        raise config_error(f"snapshot={like!r} can't be used: {error}", hint="pass a directory") from None
    return Path(like)
