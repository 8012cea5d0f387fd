"""A member begins in its assigned partitions at the committed offset, or else by `auto_offset_reset`.

"latest" has a trap. A partition that is added to the topic later has no commit either. If its reader began at its end,
records written before the member found the partition would be skipped. So with "latest" a group starts at the end of a
topic in all its partitions at once: the first member that finds no commit in the topic commits the ends. If a partition
has no commit later, it was added after the group started, and is read from its first record.

A partition without a leader has no end that could be looked up, and nothing is appended to it. So it is left out, and
looked up again and again, while the member reads the others. With "latest" it begins at its end once it has a leader.
Had it been taken for a partition that was added, everything in it would be read again.

The lookups wait for the coordinator and for leaders. A member that waited for them in its reading thread would be
evicted, and the other partitions would stand still. So `StartPositionFinder` looks the offsets up on a thread of its
own, and `PositionInitializer` sets the positions when they are known. Meanwhile the other partitions are read.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster import ClusterClient
from ottla.client.condition import Condition
from ottla.client.list_offsets import list_offsets_or_end
from ottla.client.offsets import OffsetAndMetadata, offset_and_epoch
from ottla.consumer.context import ConsumerContext
from ottla.consumer.group.call import Call
from ottla.consumer.group.commits import Commits
from ottla.consumer.group.options import GroupOptions
from ottla.consumer.start_offsets import find_stops
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.membership import NEVER
from ottla.machines.position import NO_EPOCH, Position, StopOffset
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicId, TopicPartition
from ottla_core.plural import counted

logger = logging.getLogger("ottla.group")

# The pause before another lookup, and how long a member waits for commits of another one that has just begun.
_RETRY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class StartPosition:
    """The offset at which one partition begins, the leader epoch of the record before it, and the stop.

    `topic_id` is the id of the topic in which the offset was committed, if the coordinator knows it. If nothing is
    committed and auto_offset_reset is "none", there is only an `error`.
    """

    offset: int = 0
    epoch: int | None = None
    committed: bool = False
    stop: StopOffset | None = None
    error: OttlaError | None = None
    topic_id: TopicId | None = None


StartPositions = dict[TopicPartition, StartPosition]


class StartPositionFinder:
    """Asks the coordinator, then leaders, and waits up to `timeout` seconds for each response. Thread-safe."""

    def __init__(
        self, commits: Commits, cluster: ClusterClient, options: GroupOptions, timeout: float, *, read_committed: bool
    ) -> None:
        self._commits: Final = commits
        self._cluster: Final = cluster
        self._options: Final = options
        self._timeout: Final = timeout
        self._read_committed: Final = read_committed
        self._offline: Final[set[TopicPartition]] = set()
        """Partitions that had neither a commit nor a leader when they were last looked up."""

    def find(self, partitions: Sequence[TopicPartition]) -> StartPositions:
        """Return the start position of each partition, except those that have neither a commit nor a leader.

        Partitions of deleted topics have no leader. Raises if no broker answers.
        """
        topic_ids: dict[TopicPartition, TopicId] = {}
        committed = self._commits.fetch(partitions, self._timeout, topic_ids)
        uncommitted = [partition for partition in partitions if partition not in committed]
        offline: set[TopicPartition] = set()
        if uncommitted and self._options.reset == "latest":
            committed |= self._begin(uncommitted, topic_ids, offline)
            uncommitted = [p for p in uncommitted if p not in committed and p not in offline]
        # With "latest", what is still uncommitted now was added after the group began.
        reset = self._reset_offsets(uncommitted, topic_ids, offline)
        self._note(offline)
        partitions = [p for p in partitions if p not in offline or p in committed]
        stops = find_stops(
            self._options.stop, partitions, self._cluster, self._timeout, read_committed=self._read_committed
        )
        found: StartPositions = {}
        for partition in partitions:
            stop, topic_id = stops.get(partition), topic_ids.get(partition)
            if partition in committed:
                at = committed[partition]
                found[partition] = StartPosition(at.offset, at.leader_epoch, True, stop, topic_id=topic_id)
            elif partition in reset:
                found[partition] = StartPosition(reset[partition], stop=stop, topic_id=topic_id)
            else:
                found[partition] = StartPosition(error=self._no_offset(partition))
        return found

    def _note(self, offline: Set[TopicPartition]) -> None:
        """Remember partitions that have no leader, or do not exist any more."""
        if unknown := offline - self._offline:
            logger.warning(
                "group %s has no committed offsets for %s without a leader, such as %s: reading begins there once they "
                "have one; check which brokers are down, and whether the topics exist",
                self._options.group,
                counted(len(unknown), "partition"),
                min(unknown),
            )
        self._offline.update(offline)

    def _begin(
        self,
        uncommitted: Sequence[TopicPartition],
        topic_ids: dict[TopicPartition, TopicId],
        offline: set[TopicPartition],
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Begin in the topics of these partitions, unless the group has done so. Return what is committed for them now.

        Partitions without a leader are added to `offline`. If another member has just begun, its commits may be under
        way; it waits a moment for them.
        """
        names = sorted({partition.topic for partition in uncommitted})
        view = self._cluster.fetch_metadata(names, timeout=self._timeout)
        views = view.topics
        ids = {name: views[name].id for name in names if name in views and not views[name].error}
        existing = [TopicPartition(topic, number) for topic in ids for number in range(len(views[topic].partitions))]
        offline.update(partition for partition in uncommitted if view.is_offline(partition))
        led = [partition for partition in existing if not view.is_offline(partition)]
        committed_in: dict[TopicPartition, TopicId] = {}
        # All partitions of the topic count, not only this member's: one commit shows that the group has begun in the
        # topic.
        committed = self._commits.fetch(led, self._timeout, committed_in)
        # A commit in a former topic of this name does not count (I29).
        begun = {p.topic for p in committed if committed_in.get(p, ids[p.topic]) == ids[p.topic]}
        back = self._offline.intersection(led, uncommitted).difference(committed)
        new = [partition for partition in led if partition.topic not in begun or partition in back]
        ends = list_offsets_or_end(
            self._cluster,
            dict.fromkeys(new, LATEST_TIMESTAMP),
            timeout=self._timeout,
            read_committed=self._read_committed,
        )
        first = {p: offset_and_epoch(at, NO_EPOCH, ids[p.topic]) for p, at in ends.items()}
        if first:
            # Only where nothing is committed: another member may have begun, or read on, since the fetch.
            self._commits.commit_first(first)
        # Not before the ends are committed: if that fails, these partitions still have to begin at their ends.
        self._offline.difference_update(first, committed)
        if any(partition.topic in begun and partition not in offline for partition in uncommitted):
            self._cluster.wait(_RETRY_S)
        own = {partition: first[partition] for partition in uncommitted if partition in first}
        # What is committed now wins over the ends that this member found, whichever member committed it.
        return own | self._commits.fetch(uncommitted, self._timeout, topic_ids)

    def _reset_offsets(
        self,
        uncommitted: Sequence[TopicPartition],
        topic_ids: dict[TopicPartition, TopicId],
        offline: set[TopicPartition],
    ) -> dict[TopicPartition, int]:
        reset = self._options.reset
        if not uncommitted or reset == "none":
            return {}
        reason = "auto_offset_reset" if reset == "earliest" else "they were added after the group began"
        logger.info(
            "group %s has no committed offsets for %s, such as %s: reading from the earliest record (%s)",
            self._options.group,
            counted(len(uncommitted), "partition"),
            uncommitted[0],
            reason,
        )
        timestamps = dict.fromkeys(uncommitted, EARLIEST_TIMESTAMP)
        return list_offsets_or_end(
            self._cluster,
            timestamps,
            timeout=self._timeout,
            read_committed=self._read_committed,
            topic_ids=topic_ids,
            offline=offline,
            skips_missing=True,
        )

    def _no_offset(self, partition: TopicPartition) -> OttlaError:
        return error_from_code(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"group {self._options.group!r} has no committed offset for {partition}, and auto_offset_reset is 'none'",
            hint="seek, or set auto_offset_reset='earliest' or 'latest'",
        )


class PositionInitializer:
    """Sets start positions in the reader's thread. A position that the user has moved meanwhile stays as it is."""

    def __init__(self, finder: StartPositionFinder, commits: Commits, context: ConsumerContext) -> None:
        self._finder: Final = finder
        self._commits: Final = commits
        self._subscription: Final = context.subscription
        self._fetcher: Final = context.fetcher
        self._name: Final = context.client_id
        self._found: Final = Condition()
        self._call: Call[StartPositions] | None = None
        self._requested: dict[Position, int] = {}  # positions being looked up, with their version at that time
        self._retry_at = 0.0
        self._timeout_s: Final = context.request_timeout_s
        self._trouble: OttlaError | None = None
        """Why the last lookup failed, to be raised again."""

    def update(self) -> None:
        """Set the positions that were found, and look up the missing ones. Raises if one has no start."""
        if self._call is not None and self._call.done:
            call, self._call = self._call, None
            self._on_found(call)
        missing = self._missing()
        if self._call is None and missing and self._fetcher.clock.monotonic() >= self._retry_at:
            self._requested = {position: position.version for position in missing}
            partitions = sorted(position.partition for position in missing)
            name = f"ottla-start-positions-{self._name}"
            self._call = Call(name, lambda: self._finder.find(partitions), self._on_done).start()

    def wait(self) -> None:
        """Wait until no position is missing. Raises like `update`, if the consumer is interrupted or closed, or if a
        position is still missing after the request timeout."""
        give_up_at = self._fetcher.clock.monotonic() + self._timeout_s
        while missing := self._missing():
            self.update()
            if self._fetcher.clock.monotonic() >= give_up_at:
                raise self._trouble or _without_start(min(position.partition for position in missing))
            with self._found:
                self._fetcher.check_open()
                if self._missing() and (self._call is None or not self._call.done):
                    self._found.wait(_RETRY_S)

    def wake(self) -> None:
        """Wake a thread in `wait`, so that it checks whether to go on."""
        with self._found:
            self._found.notify_all()

    def next_at(self) -> float:
        """Return when `update` has to be called if nothing else happens."""
        return self._retry_at if self._call is None and self._missing() else NEVER

    def _missing(self) -> list[Position]:
        with self._fetcher.lock:
            return [p for p in self._subscription.unlocated if p.start is None]

    def _on_done(self) -> None:
        # The lookup ends on its own thread, and only the reader's thread may set positions.
        self._fetcher.call_attention()
        self.wake()

    def _on_found(self, call: Call[StartPositions]) -> None:
        try:
            found = call.result()
            self._trouble = None
        except OttlaError as error:
            self._trouble = error.again()
            if not error.retriable or self._fetcher.closed:
                raise
            self._retry_at = self._fetcher.clock.monotonic() + _RETRY_S
            logger.warning("the start positions of %s are not known yet: %s", self._name, error)
            return
        if len(found) < len(self._requested):
            self._retry_at = self._fetcher.clock.monotonic() + _RETRY_S
        errors = [
            self._set(position, version, found[position.partition])
            for position, version in self._requested.items()
            if position.partition in found
        ]
        # Raised after all positions were set: one partition without a start must not keep the others from being read.
        for no_offset in filter(None, errors):
            raise no_offset

    def _set(self, position: Position, version: int, start: StartPosition) -> OttlaError | None:
        with self._fetcher.lock:
            # The user has sought meanwhile, or the partition was given away: what was looked up no longer counts.
            if position.version != version or start.error is not None:
                return None if position.version != version else start.error
            position.stop, position.topic_id = start.stop, start.topic_id
            self._subscription.seek(position, start.offset, NO_EPOCH if start.epoch is None else start.epoch)
        if start.committed:
            self._commits.known[position.partition] = offset_and_epoch(start.offset, NO_EPOCH, start.topic_id)
        return None


def _without_start(partition: TopicPartition) -> OttlaError:
    return error_from_code(
        ErrorCode.LEADER_NOT_AVAILABLE,
        f"{partition} has neither a committed offset nor a leader",
        hint="try again; check which brokers are down, and whether the topic exists",
    )
