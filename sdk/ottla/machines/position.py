"""One assigned partition of a consumer: where it is, which leader it was checked with, and where it fetches from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.machines.metadata import BrokerView, Route
from ottla_core.model import LATEST_TIMESTAMP, PartitionId, TopicId, TopicPartition
from ottla_core.records.batch import iter_headers

NO_EPOCH = -1


class Position:
    """One assigned partition.

    `offset` is the next record to hand out, and `offset_epoch` the leader epoch of the one before it, where known. It
    is None until `start` (a timestamp as in ListOffsets: -2 earliest, -1 latest, else milliseconds; None: where the
    group left off) has been looked up. `stop` is the first offset that is not wanted. `fetch_offset` is what comes
    after all that was fetched, and `epoch` the leader epoch of the batch before it, -1 where that is not known.
    `leader_epoch` is of the leader in whose log they are known to be right (KIP-320). `topic_id` is of the topic in
    which `offset` is valid, None while that is not known; so is `stop_topic_id` for `stop`. `read_topic_id` is of the
    topic whose records were handed out last, whatever has its name now, and None before that and after a seek of the
    user's.
    """

    __slots__ = (
        "epoch",
        "failures",
        "fetch_offset",
        "high_watermark",
        "in_flight",
        "leader_epoch",
        "offset",
        "offset_epoch",
        "partition",
        "paused",
        "read_topic_id",
        "replica",
        "replica_until",
        "retry_at",
        "route",
        "start",
        "stop",
        "stop_topic_id",
        "topic_id",
        "version",
        "waiting_bytes",
    )

    def __init__(self, partition: TopicPartition, start: int | None = LATEST_TIMESTAMP) -> None:
        self.partition = partition
        self.offset: int | None = None
        self.offset_epoch = NO_EPOCH
        self.start = start
        self.stop: int | None = None
        self.stop_topic_id: TopicId | None = None
        self.fetch_offset = 0
        self.epoch = NO_EPOCH
        self.leader_epoch = NO_EPOCH
        self.topic_id: TopicId | None = None
        self.read_topic_id: TopicId | None = None
        self.version = 0
        self.in_flight: FetchPart | EpochCheck | None = None
        self.waiting_bytes = 0
        self.paused = False
        self.retry_at = 0.0
        self.failures = 0
        self.high_watermark = -1
        self.route: Route | None = None  # of the leader that was asked last
        self.replica: int | None = None  # the broker that the leader named to read from, until `replica_until`;
        self.replica_until = 0.0  # without one, none is wanted until then

    @property
    def lag(self) -> int:
        """Records between the position and the end of the log as of the last fetch; -1 before the first."""
        return -1 if self.high_watermark < 0 or self.offset is None else max(0, self.high_watermark - self.offset)

    @property
    def done(self) -> bool:
        """Whether everything up to `stop` was handed out."""
        return self.offset is not None and self.is_behind_stop(self.offset)

    def wants_more(self, share_bytes: int) -> bool:
        """Whether there is a reason to fetch: resolved, nothing under way, not too much waiting, not at its end."""
        return (
            self.offset is not None
            and self.in_flight is None
            and not self.paused
            and self.waiting_bytes < share_bytes
            and not self.is_behind_stop(self.fetch_offset)
        )

    def is_behind_stop(self, offset: int) -> bool:
        """Whether nothing is wanted from `offset` on; an offset in another topic than the stop's says nothing."""
        if self.stop is None or offset < self.stop:
            return False
        return self.topic_id == self.stop_topic_id or None in (self.topic_id, self.stop_topic_id)

    def is_due(self, route: Route, now: float) -> bool:
        """Whether its leader may be asked: not just after it has failed, nor in another topic than that of its stop."""
        if self.stop is not None:
            self.stop_topic_id = self.stop_topic_id or route.partition_id.topic_id
            if self.stop_topic_id != route.partition_id.topic_id:
                return False
        return self.retry_at <= now or route != self.route

    def is_checked(self, route: Route) -> bool:
        """Whether its offset is valid in this leader's log: it comes from there, or that can't be checked."""
        if self.epoch == NO_EPOCH:
            self.leader_epoch = route.leader_epoch
        return self.leader_epoch >= route.leader_epoch

    def nearest(self, route: Route, brokers: Mapping[int, BrokerView], now: float, shun_s: float) -> Target:
        """Whom to ask; a replica that can't be asked is left, for `shun_s` seconds if it is unknown."""
        if self.route is not None and self.route.leader_epoch != route.leader_epoch:
            self.leave_replica(now)
        if self.replica is not None:
            broker = brokers.get(self.replica)
            if broker is not None and not broker.fenced and now < self.replica_until:
                return Target(broker.address, True, may_name=False)
            self.leave_replica(now if broker is not None else now + shun_s)
        return Target(route.address, False, may_name=now >= self.replica_until)

    def advance(self, records: bytes, leader_epoch: int) -> bool:
        """Whole batches were fetched from that leader; False where nothing in them comes after what was there."""
        after, epoch = self.fetch_offset, self.epoch
        for _, header in iter_headers(records):
            after, epoch = max(after, header.next_offset), header.leader_epoch
        if after == self.fetch_offset:
            return False
        self.fetch_offset, self.epoch, self.leader_epoch = after, epoch, leader_epoch
        return True

    def leave_replica(self, until: float) -> None:
        """The replica was of no use: fetch from the leader itself until then."""
        self.replica = None
        self.replica_until = until

    def go_to(self, offset: int | None, epoch: int = NO_EPOCH, start: int | None = None) -> None:
        """Go on at `offset`, whatever was fetched; `epoch` of what lies before it, where that is known.

        Without an offset where `start` is. Nothing is called in here, so no interrupt can leave half of it.
        """
        self.version += 1
        self.offset = offset
        self.start = start
        self.offset_epoch = epoch
        self.fetch_offset = offset or 0
        self.epoch = epoch
        self.leader_epoch = NO_EPOCH


@dataclass(slots=True, eq=False)
class FetchPart:
    """One partition of a fetch. A late response is recognized by its `version`, and by the fetch that has named it."""

    position: Position
    route: Route
    offset: int
    version: int
    fetch: Fetch


@dataclass(slots=True, eq=False)
class EpochCheck:
    """A question to a partition's leader: where did `epoch` end in its log? The position waits for the answer."""

    position: Position
    route: Route
    epoch: int
    version: int


class Target(NamedTuple):
    """Whom to ask. `from_follower`: it is a replica which the partitions' leaders have named; `may_name`: it may name
    one."""

    address: str
    from_follower: bool
    may_name: bool


@dataclass(slots=True, eq=False)
class FetchSession:
    """What one target is requested, once for many fetches; `number` counts those. See ottla.machines.fetch_sessions."""

    target: Target
    id: int
    number: int = 0
    open: int = 0
    parts: dict[PartitionId, FetchPart] = field(default_factory=dict)
    forgotten: list[PartitionId] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Fetch:
    """One fetch of a session, of up to `partition_bytes` a partition; sent at `sent_at`, in monotonic seconds.

    `parts` are what it adds to the session, and `forgotten` is what it takes out before.
    """

    session: FetchSession
    partition_bytes: int
    sent_at: float = 0.0
    number: int = 0
    parts: list[FetchPart] = field(default_factory=list)
    forgotten: list[PartitionId] = field(default_factory=list)

    @property
    def target(self) -> Target:
        return self.session.target


@dataclass(frozen=True, slots=True)
class PartitionData:
    """A broker's response for one partition: whole batches, another replica to read from, or a code and a message.

    `high_watermark` is how far it may be read: of committed records alone, to the last stable offset.
    """

    records: bytes = b""
    high_watermark: int = -1
    log_start_offset: int = -1
    code: int = 0
    message: str = ""
    preferred_replica: int | None = None
    aborted: tuple[tuple[int, int], ...] = ()  # producer id and first offset of aborted transactions in `records`

    @property
    def ends_request(self) -> bool:
        """Whether the partition is requested no longer."""
        return bool(self.records or self.code) or self.preferred_replica is not None


@dataclass(slots=True)
class FetchedData:
    """Whole batches of one partition of the topic `topic_id` that came in one answer; `aborted` as in PartitionData."""

    position: Position
    version: int
    records: bytes
    aborted: tuple[tuple[int, int], ...] = ()
    topic_id: TopicId | None = None


@dataclass(slots=True)
class FetchOutcome:
    """The result of a response: `refresh` the metadata, warn about positions that were `reset`."""

    refresh: bool = False
    reset: list[str] = field(default_factory=list)
