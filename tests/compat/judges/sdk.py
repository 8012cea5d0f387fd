"""Our side has consumers of the SDK."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.compat.judges.opening import HEARTBEAT_MS, LIMIT_MS, METADATA_MS, NEVER_MS, Opening
from tests.compat.judges.side import Raised

import ottla
from ottla.client.offsets import OffsetAndMetadata

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS: Final = {"Config": "refused", "OffsetOutOfRange": "no position"}
_SOON_S: Final = 0.1

Row = tuple[int, int, str]


class SdkSide:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._bootstrap: Final = bootstrap
        self._topic: Final = topic
        self._group: Final = group
        self._open: Final[dict[str, _CalledConsumer]] = {}

    def call(self, who: str, what: str, **arguments: Any) -> Any:
        try:
            if what == "open":
                self._open[who] = _CalledConsumer(self._bootstrap, self._topic, self._group, Opening(**arguments))
                return None
            return getattr(self._open.pop(who) if what == "close" else self._open[who], what)(**arguments)
        except ottla.OttlaError as error:
            kind = type(error).__name__.removesuffix("Error")
            return Raised(_KINDS.get(kind, kind))

    def close(self) -> None:
        for who in list(self._open):
            self.call(who, "close")


class _CalledConsumer:
    """A consumer of the SDK has the methods of peers/java/CalledConsumer.java."""

    def __init__(self, bootstrap: str, topic: str, group: str, opening: Opening) -> None:
        self._topic: Final = topic
        self._events: list[tuple[str, list[int]]] = []
        self._commits_when_revoked: Final = opening.commits_when_revoked
        settings: dict[str, Any] = {
            "auto_offset_reset": opening.reset,
            "metadata_max_age": METADATA_MS / 1000,
        }
        if opening.isolation != "default":
            settings["isolation_level"] = opening.isolation
        if opening.partitions is not None:
            start = "committed" if opening.reset == "none" else opening.reset
            settings |= {"partitions": opening.partitions, "start": start}
        else:
            settings |= {
                "group": group,
                "commit": "at_least_once" if opening.auto_commit else "manual",
                "auto_commit_interval": NEVER_MS / 1000,
                "assignors": opening.assignor,
                "heartbeat_interval": HEARTBEAT_MS / 1000,
                "max_poll_interval": opening.max_poll_interval_ms / 1000,
                "on_assigned": self._note("assigned"),
                "on_revoked": self._note("revoked"),
                "on_lost": self._note("lost"),
            }
        self._consumer: Final[ottla.Consumer[Any, str]] = ottla.Consumer(
            topic, bootstrap=bootstrap, key="bytes", value="str", **settings
        )

    def poll(self) -> list[Row]:
        batch = self._consumer.poll(_SOON_S, max_records=1)
        return [(record.partition, record.offset, str(record.value)) for record in batch]

    def read(self, count: int) -> list[Row]:
        rows: list[Row] = []
        self._poll_until(lambda: len(rows) >= count, rows)
        return rows

    def reach(self, partition: int, offset: int) -> list[Row]:
        rows: list[Row] = []
        self._poll_until(lambda: self.position(partition) == offset, rows)
        return rows

    def position(self, partition: int) -> int:
        return self._consumer.position((self._topic, partition))

    def assignment(self) -> list[int]:
        return sorted(partition.partition for partition in self._consumer.assignment())

    def events(self) -> list[tuple[str, list[int]]]:
        since, self._events = self._events, []
        return since

    def ends(self, partition: int) -> int | None:
        return self._consumer.offsets("latest")[self._topic, partition]

    def begins(self, partition: int) -> int | None:
        return self._consumer.offsets("earliest")[self._topic, partition]

    def committed(self, partition: int) -> tuple[int, int | None, str] | None:
        found = self._consumer.committed((self._topic, partition))[self._topic, partition]
        return None if found is None else (found.offset, found.leader_epoch, found.metadata)

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek((self._topic, partition), offset)

    def seek_to_beginning(self, partition: int) -> None:
        self._consumer.seek_to_beginning((self._topic, partition))

    def seek_to_end(self, partition: int) -> None:
        self._consumer.seek_to_end((self._topic, partition))

    def seek_to_time(self, partition: int, timestamp_ms: int) -> None:
        self._consumer.seek_to_time(_EPOCH + timedelta(milliseconds=timestamp_ms), (self._topic, partition))

    def pause(self, partition: int) -> None:
        self._consumer.pause((self._topic, partition))

    def resume(self, partition: int) -> None:
        self._consumer.resume((self._topic, partition))

    def commit(self, offsets: Sequence[tuple[int, int, int | None, str]] | None = None) -> None:
        self._consumer.commit(
            None
            if offsets is None
            else {
                (self._topic, partition): OffsetAndMetadata(offset, metadata, epoch)
                for partition, offset, epoch, metadata in offsets
            }
        )

    def close(self) -> list[tuple[str, list[int]]]:
        self._consumer.close()
        return self.events()

    def _note(self, what: str) -> Callable[[Sequence[tuple[str, int]]], None]:
        def called(partitions: Sequence[tuple[str, int]]) -> None:
            self._events.append((what, sorted(number for _, number in partitions)))
            if what == "revoked" and self._commits_when_revoked:
                self._consumer.commit()

        return called

    def _poll_until(self, done: Callable[[], bool], rows: list[Row]) -> None:
        give_up_at = time.monotonic() + LIMIT_MS / 1000
        while not done() and time.monotonic() < give_up_at:
            rows += self.poll()
