"""An assigned partition of a consumer: its position, the leader that confirmed the position, and the fetch target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.machines.metadata import BrokerView, Route
from ottla_core.model import LATEST_TIMESTAMP, PartitionId, TopicId, TopicPartition
from ottla_core.records.batch import MAGIC, Buffer, iter_headers

NO_EPOCH = -1


class StopOffset(NamedTuple):
    """The first `offset` of a partition that is not read.

    `topic_id` is the id of the topic in which it is valid, or None while unknown. `epoch` is the epoch of the last
    leader that had every record before it, or -1 if no leader was asked.
    """

    offset: int
    topic_id: TopicId | None = None
    epoch: int = NO_EPOCH


class Position:
    """One assigned partition.

    `offset` is the offset of the next record to return, and `offset_epoch` the leader epoch of the record before it, if
    known. `offset` is None until `start` has been looked up (a timestamp as in ListOffsets: -2 earliest, -1 latest,
    else milliseconds; None for the committed offset). `fetch_offset` is the next offset to fetch, and `epoch` the
    leader epoch of the batch before it, or -1 if unknown. `leader_epoch` is the epoch of the leader whose log confirmed
    these offsets (KIP-320). `topic_id` is the id of the topic in which `offset` is valid, or None while unknown.
    `read_topic_id` is the id of the topic that the last returned record came from, even if another topic has its name
    now; it is None before the first record and after a seek of the user.
    """

    __slots__ = (
        "epoch",
        "failing_since",
        "failures",
        "fetch_offset",
        "high_watermark",
        "in_flight",
        "leader_epoch",
        "locate_at",
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
        "topic_id",
        "version",
        "waiting_bytes",
    )

    def __init__(self, partition: TopicPartition, start: int | None = LATEST_TIMESTAMP) -> None:
        self.partition = partition
        self.offset: int | None = None
        self.offset_epoch = NO_EPOCH
        self.start = start
        self.locate_at = 0.0  # when `start` is to be looked up again
        self.stop: StopOffset | None = None
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
        self.failing_since = 0.0
        self.high_watermark = -1
        self.route: Route | None = None  # of the leader that was asked last
        self.replica: int | None = None  # the broker that the leader named to read from, until `replica_until`;
        self.replica_until = 0.0  # without one, none is wanted until then

    @property
    def lag(self) -> int:
        """The number of records between the position and the end of the log as of the last fetch; -1 before the first
        fetch."""
        return -1 if self.high_watermark < 0 or self.offset is None else max(0, self.high_watermark - self.offset)

    @property
    def done(self) -> bool:
        """Whether every record before `stop` was returned."""
        return self.offset is not None and self.is_behind_stop(self.offset)

    def wants_more(self, share_bytes: int) -> bool:
        """Whether to fetch: the offset is resolved, no fetch is in flight, not too much data waits, and the stop is not
        reached."""
        return (
            self.offset is not None
            and self.in_flight is None
            and not self.paused
            and self.waiting_bytes < share_bytes
            and not self.is_behind_stop(self.fetch_offset)
        )

    def is_behind_stop(self, offset: int) -> bool:
        """Whether `offset` is at or behind the stop; offsets of different topics are not compared."""
        if self.stop is None or offset < self.stop.offset:
            return False
        return self.topic_id == self.stop.topic_id or None in (self.topic_id, self.stop.topic_id)

    def is_due(self, route: Route, now: float) -> bool:
        """Return whether to fetch from the leader: not right after a failure, and not in a topic other than the
        stop's."""
        if self.stop is not None:
            if self.stop.topic_id is None:
                self.stop = self.stop._replace(topic_id=route.partition_id.topic_id)
            if self.stop.topic_id != route.partition_id.topic_id:
                return False
        return self.retry_at <= now or route != self.route

    def check(self, route: Route) -> EpochCheck | None:
        """Return what to ask this leader before its records count: about the offset, then about the stop.

        Return None if both came from its log, or can't be checked.
        """
        if self.epoch == NO_EPOCH:
            self.leader_epoch = route.leader_epoch
        if self.leader_epoch < route.leader_epoch:
            return EpochCheck(self, route, self.epoch, self.version)
        if self.stop is not None and NO_EPOCH < self.stop.epoch < route.leader_epoch:
            return EpochCheck(self, route, self.stop.epoch, self.version, self.stop)
        return None

    def nearest(self, route: Route, brokers: Mapping[int, BrokerView], now: float, shun_s: float) -> Target:
        """Return the fetch target.

        An unavailable replica is abandoned, and avoided for `shun_s` seconds if it is unknown.
        """
        if self.route is not None and self.route.leader_epoch != route.leader_epoch:
            self.leave_replica(now)
        if self.replica is not None:
            broker = brokers.get(self.replica)
            if broker is not None and not broker.fenced and now < self.replica_until:
                return Target(broker.address, True, may_name=False)
            self.leave_replica(now if broker is not None else now + shun_s)
        return Target(route.address, False, may_name=now >= self.replica_until)

    def advance(self, records: Buffer, leader_epoch: int) -> int:
        """Advance after batches were fetched from that leader. Return how many bytes of `records` to read, or 0 if they
        contain nothing new.

        A message in a format older than Kafka 0.11 would be misread as a batch. So only the bytes before the first such
        message are read.
        """
        after, epoch, end = self.fetch_offset, self.epoch, len(records)
        for at, header in iter_headers(records):
            if header.magic != MAGIC:
                end = at
                break
            after, epoch = max(after, header.next_offset), header.leader_epoch
        if after == self.fetch_offset:
            return 0
        self.fetch_offset, self.epoch, self.leader_epoch = after, epoch, leader_epoch
        return end

    def leave_replica(self, until: float) -> None:
        """Abandon a replica that was of no use, and fetch from the leader until the given time."""
        self.replica = None
        self.replica_until = until

    def go_to(self, offset: int | None, epoch: int = NO_EPOCH, start: int | None = None) -> None:
        """Continue at `offset`, whatever was fetched; `epoch` is the leader epoch of the record before it, if known.

        Without an offset, continue at `start`. This method calls no other, so an interrupt can't leave it half done.
        """
        self.version += 1
        self.offset = offset
        self.start = start
        self.locate_at = 0.0
        self.offset_epoch = epoch
        self.fetch_offset = offset or 0
        self.epoch = epoch
        self.leader_epoch = NO_EPOCH


@dataclass(slots=True, eq=False)
class FetchPart:
    """One partition of a fetch. Its `version`, and the fetch that added it, identify a late response."""

    position: Position
    route: Route
    offset: int
    version: int
    fetch: Fetch


@dataclass(slots=True, eq=False)
class EpochCheck:
    """A query to a partition's leader for the end of `epoch` in its log. The position waits for the response.

    It is about the position's offset, or about its `stop`.
    """

    position: Position
    route: Route
    epoch: int
    version: int
    stop: StopOffset | None = None


class Target(NamedTuple):
    """A broker to fetch from.

    `from_follower`: the partitions' leaders have named it as a replica to read from; `may_name`: it may name such a
    replica.
    """

    address: str
    from_follower: bool
    may_name: bool


@dataclass(slots=True, eq=False)
class FetchSession:
    """The partitions requested from one target over many fetches; `number` counts the fetches
    (ottla.machines.fetch_sessions). The id of an express fetch, which belongs to no session, is 0."""

    target: Target
    id: int
    number: int = 0
    open: int = 0
    parts: dict[PartitionId, FetchPart] = field(default_factory=dict)
    forgotten: list[PartitionId] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Fetch:
    """One fetch of a session, of up to `partition_bytes` per partition; sent at `sent_at`, in monotonic seconds.

    `parts` are the partitions that it adds to the session, and `forgotten` those that it removes first. A broker holds
    it for up to `max_wait_s` seconds, and no longer than the consumer's own setting says. One that `is_overdue` should
    have been answered by now.
    """

    session: FetchSession
    partition_bytes: int
    sent_at: float = 0.0
    number: int = 0
    max_wait_s: float = float("inf")
    parts: list[FetchPart] = field(default_factory=list)
    forgotten: list[PartitionId] = field(default_factory=list)
    is_overdue: bool = False

    @property
    def target(self) -> Target:
        return self.session.target


@dataclass(frozen=True, slots=True)
class PartitionData:
    """A broker's response for one partition: whole batches, another replica to read from, or a code and a message.

    `high_watermark` is the limit for reads; with read_committed it is the last stable offset.
    """

    records: Buffer = b""
    high_watermark: int = -1
    log_start_offset: int = -1
    code: int = 0
    message: str = ""
    preferred_replica: int | None = None
    aborted: tuple[tuple[int, int], ...] = ()  # producer id and first offset of aborted transactions in `records`

    @property
    def ends_request(self) -> bool:
        """Whether the response ends the request for the partition."""
        return bool(self.records or self.code) or self.preferred_replica is not None


@dataclass(slots=True)
class FetchedData:
    """Whole batches of one partition of the topic `topic_id`, from one response; `aborted` is as in PartitionData."""

    position: Position
    version: int
    records: Buffer
    aborted: tuple[tuple[int, int], ...] = ()
    topic_id: TopicId | None = None


@dataclass(slots=True)
class FetchOutcome:
    """The result of a response: whether to `refresh` the metadata, and `warnings` for the log."""

    refresh: bool = False
    warnings: list[str] = field(default_factory=list)
