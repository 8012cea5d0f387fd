"""A table's snapshot on the local disk, for a start that reads only what came since (docs/use/tables.md).

It is used where it can't differ from what the topic would give: the topic has the same id, its log still has the
positions, and no removal can have been forgotten, for brokers keep one for `delete.retention.ms`. That counts from a
time at which the table had demonstrably all that was there: a table that is cut off does not notice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
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
        self._written: Head | None = None
        self._clock: Clock | None = None  # the consumer's, once there is one
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
        self._look_at = 0.0

    def restore(self, consumer: Consumer[Any, Any], view: TableView) -> None:
        """Begin with the snapshot, once, before anything was read; where it can't be used, a line in the log."""
        if self._is_restored:
            return
        consumer.assignment()  # raises where no broker answers, or the topic is not there
        self._is_restored = True
        try:
            with open_snapshot(self._path) as (head, batches):
                self._check(head, consumer)
                for raws in batches:
                    view.apply(TopicPartition(self._topic, -1), self.keeping(raws))
            self._seek(head, consumer)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, AttributeError, LookupError, OttlaError) as error:
            view.clear()
            self.clear()
            logger.warning("the snapshot %s is not used: %s", self._path, error)

    def _check(self, head: Head, consumer: Consumer[Any, Any]) -> None:
        """Raise ValueError or OttlaError unless the topic still has all that follows."""
        cluster = consumer._cluster
        if head.topic_id != cluster.view.topics[self._topic].id.hex():
            raise ValueError("it is of another topic of that name")
        kept_ms, age_ms = delete_retention_ms(consumer, self._topic), cluster.clock.wall_ms() - head.as_of_ms
        if not 0 <= age_ms < kept_ms:
            raise ValueError(f"it is {age_ms / 1000:.0f} s old, and delete.retention.ms is {kept_ms}")
        first, end = consumer.offsets("earliest"), consumer.offsets("latest")
        for number, (offset, _) in head.positions.items():
            partition = TopicPartition(self._topic, number)
            if not (first[partition] or 0) <= offset <= (end[partition] or 0):
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
        ids = {at.topic_id for at in positions.values()}
        if len(ids) == 1 and (topic_id := ids.pop()) is not None:
            known = {p.partition: (at.offset, at.offset_epoch) for p, at in positions.items() if at.offset is not None}
            self._state = (topic_id.hex(), known) if len(known) == len(positions) else None
        if caught_up and clock.monotonic() >= self._look_at:
            self._look_at = clock.monotonic() + _EVERY_S
            as_of_ms, latest = clock.wall_ms(), dict.fromkeys(positions, LATEST_TIMESTAMP)
            try:
                self._ends = (
                    as_of_ms,
                    list_offsets_or_end(
                        consumer._cluster, latest, timeout=_LOOK_UP_S, read_committed=consumer._fetcher.read_committed
                    ),
                )
            except OttlaError as error:
                logger.warning("no snapshot of %r for now: %s", self._topic, error)
        if self._ends is not None and self._state is not None:
            as_of_ms, ends = self._ends
            if all(self._state[1].get(p.partition, (-1,))[0] >= end for p, end in ends.items()):
                self._as_of_ms, self._ends = as_of_ms, None
                if not self._written or self._written.positions != self._state[1] or self._is_aging(as_of_ms):
                    self.write()

    def _is_aging(self, now_ms: int) -> bool:
        """Whether the file is to be made young, though nothing has changed."""
        return self._written is not None and now_ms - self._written.as_of_ms > _YOUNG_MS

    def write(self) -> None:
        """Where there is anything that the file has not. What fails is logged, and tried again later."""
        if self._state is None or self._as_of_ms is None:
            return
        head = Head(*self._state, self._as_of_ms)
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
            return is_later and found.topic_id == head.topic_id
        return False


def delete_retention_ms(consumer: Consumer[Any, Any], topic: str) -> int:
    """For how long brokers keep what removes a key. Raises OttlaError."""
    configs = Configs(ControllerChannel(consumer._cluster, _LOOK_UP_S)).get(topic=topic)
    return int(configs["delete.retention.ms"].value)


def directory_at(like: PathLike) -> Path:
    """It, made where it is missing. Raises ConfigError."""
    try:
        Path(like).mkdir(parents=True, exist_ok=True)
    except (OSError, TypeError, ValueError) as error:
        raise config_error(f"snapshot={like!r} can't be used: {error}", hint="give a directory") from None
    return Path(like)
