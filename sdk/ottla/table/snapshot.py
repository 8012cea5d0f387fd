"""A table's snapshot on the local disk, for a start that reads only what came since (docs/use/tables.md).

It is used where it can't differ from what the topic would give: the topic has the same id, its log begins where it
began and still has the positions, the table reads at the same isolation level, and no removal can have been forgotten,
for brokers keep one for `delete.retention.ms`. That counts from a time at which the table had demonstrably all that was
there: a table that is cut off does not notice. Of a topic with retention there is none, for what retention deletes goes
without a removal.
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
"""What a lookup may take for a snapshot's sake: the table does not follow meanwhile."""


class TableSnapshot:
    """Of one table, for the thread that follows the topic: it has the same records raw, and writes them."""

    def __init__(self, directory: Path, topic: str) -> None:
        self._topic: Final = topic
        self._path: Final = directory / f"{topic}.snapshot"
        self._latest: dict[bytes, Stored] = {}
        self._as_of_ms: int | None = None
        self._ends: tuple[int, dict[TopicPartition, int]] | None = None  # and when that was looked up
        self._look_at = 0.0
        self._state: tuple[str, dict[int, tuple[int, int]]] | None = None
        self._first: dict[int, int] | None = None  # offsets of the logs when they were read from there
        self._unfit: str | None = None  # why no snapshot is written
        self._written: Head | None = None
        self._clock: Clock | None = None  # the consumer's, once there is one
        self._read_committed = True
        self._is_restored = False

    def keeping(self, raws: Iterable[RawRecord]) -> Iterator[RawRecord]:
        """The same records, on their way to the view."""
        latest = self._latest
        for raw in raws:
            _, _, key, value, headers = raw
            if key is not None:
                latest.pop(key, None)  # in the order of the changes: keys may be equal once they are deserialized
                if value is not None:
                    latest[key] = (value, tuple(headers)) if headers else value
            yield raw

    def clear(self) -> None:
        """What the view has held is not in the topic."""
        self._latest, self._as_of_ms, self._ends, self._state = {}, None, None, None
        self._first, self._look_at = None, 0.0

    def restore(self, consumer: Consumer[Any, Any], view: TableView) -> None:
        """Begin with the snapshot, once, before anything was read; where it can't be used, a line in the log."""
        if self._is_restored:
            return
        consumer.assignment()  # raises where no broker answers, or the topic is not there
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
            logger.warning("the snapshot %s is not used: %s", self._path, error)

    def _check(self, head: Head, first: Mapping[int, int], consumer: Consumer[Any, Any]) -> None:
        """Raise ValueError or OttlaError unless the topic still has all that follows."""
        cluster = consumer._cluster
        if head.topic_id != cluster.view.topics[self._topic].id.hex():
            raise ValueError("it is of another topic of that name")
        if head.read_committed != consumer._fetcher.read_committed:
            raise ValueError(f"it was read with isolation_level=read_{'' if head.read_committed else 'un'}committed")
        if not first.items() >= head.first_offsets.items():
            raise ValueError("the log begins elsewhere by now: records were deleted")
        kept_ms, age_ms = deleted_kept_ms(consumer, self._topic), cluster.clock.wall_ms() - head.as_of_ms
        if not 0 <= age_ms < kept_ms:
            raise ValueError(f"it is {age_ms / 1000:.0f} s old, and delete.retention.ms is {kept_ms}")
        end = consumer.offsets("latest")
        for number, (offset, _) in head.positions.items():
            partition = TopicPartition(self._topic, number)
            if not head.first_offsets[number] <= offset <= (end[partition] or 0):
                raise ValueError(f"its position {offset} is not in the log of {partition}")

    def _seek(self, head: Head, consumer: Consumer[Any, Any]) -> None:
        positions = consumer._assignment.positions()
        with consumer._lock:
            for number, (offset, epoch) in head.positions.items():
                position = positions[TopicPartition(self._topic, number)]
                consumer._subscription.seek(position, offset, epoch)
                position.topic_id = TopicId(bytes.fromhex(head.topic_id))  # in another one it is not valid
        self._as_of_ms, self._written = head.as_of_ms, head

    def on_step(self, consumer: Consumer[Any, Any], *, caught_up: bool) -> None:
        """Write every so often, once everything that was there at some time is reflected."""
        positions = consumer._assignment.positions()
        clock = self._clock = consumer._cluster.clock
        self._read_committed = consumer._fetcher.read_committed
        ids = {at.topic_id for at in positions.values()}
        if len(ids) == 1 and (topic_id := ids.pop()) is not None:
            known = {p.partition: (at.offset, at.offset_epoch) for p, at in positions.items() if at.offset is not None}
            self._state = (topic_id.hex(), known) if len(known) == len(positions) else None
        if caught_up and clock.monotonic() >= self._look_at:
            self._look_at = clock.monotonic() + _EVERY_S
            try:
                self._ends = self._look_up(consumer, positions)
            except OttlaError as error:
                logger.warning("no snapshot of %r for now: %s", self._topic, error)
            except ValueError as error:
                if self._unfit != str(error):
                    logger.warning("no snapshot of %r: %s", self._topic, error)
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
        """Return a time, and the ends that the logs had then. Raise ValueError where no snapshot would be of use, and
        OttlaError."""
        as_of_ms = consumer._cluster.clock.wall_ms()
        deleted_kept_ms(consumer, self._topic)
        first = self._first_offsets(consumer)
        self._first = self._first or first
        if not first.items() >= self._first.items():
            raise ValueError("records were deleted, and the table may show them until it starts again")
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
        """Whether the file is to be made young, though nothing has changed."""
        return self._written is not None and now_ms - self._written.as_of_ms > _YOUNG_MS

    def write(self) -> None:
        """Where there is anything that the file has not. What fails is logged, and tried again later."""
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
        """Whether another table of the topic has written the file, with all that was there at a later time.

        A time that has not come yet is of a clock that was set back: no start would use that file.
        """
        with suppress(OSError, ValueError, TypeError, AttributeError), open_snapshot(self._path) as (found, _):
            is_later = self._clock is not None and head.as_of_ms < found.as_of_ms <= self._clock.wall_ms()
            return is_later and found[:2] == head[:2]
        return False


def deleted_kept_ms(consumer: Consumer[Any, Any], topic: str) -> int:
    """Return for how long brokers keep a record that removes a key. Raises OttlaError, and ValueError where records are
    deleted without one."""
    configs = Configs(ControllerChannel(consumer._cluster, _LOOK_UP_S)).get(topic=topic)
    if "delete" in configs["cleanup.policy"].value:
        raise ValueError("cleanup.policy has delete, and retention deletes keys without a tombstone")
    return int(configs["delete.retention.ms"].value)


def directory_at(like: PathLike) -> Path:
    """It, made where it is missing. Raises ConfigError."""
    try:
        Path(like).mkdir(parents=True, exist_ok=True)
    except (OSError, TypeError, ValueError) as error:
        raise config_error(f"snapshot={like!r} can't be used: {error}", hint="give a directory") from None
    return Path(like)
