"""ListOffsets for many partitions at once: each leader is asked for its partitions, until all have answered."""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from ottla.client.cluster import UNKNOWN_TOPIC_GRACE_S, ClusterClient
from ottla.client.grouping import grouped
from ottla.client.kafka.apis import LIST_OFFSETS, own_error
from ottla.client.kafka.exchange import Exchange, Terms
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.units import timestamp_ms
from ottla.errors import ErrorCode, OttlaError, UnknownTopicError, config_error, error_from_code
from ottla.machines.metadata import ClusterView, Route
from ottla_core.kafka.messages import ListOffsetsRequest, ListOffsetsResponse
from ottla_core.model import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    TopicId,
    TopicPartition,
)
from ottla_core.rpc.retry import Backoff

TRY_S: Final = 3.0
"""How long to wait for a leader before looking up the leaders again."""
_LOCAL_FROM: Final = 8
"""From this version of ListOffsets on, a timestamp stands for the first record on the broker's own disk (KIP-405).
Earlier brokers have no other records."""
_CONSUMER: Final = -1
_READ_COMMITTED: Final = 1

OffsetSpec = Literal["earliest", "latest"] | datetime | timedelta
"""A position in a log: its ends, a time (without a zone: local), or a timedelta from now (-1 h: an hour ago)."""


class OffsetAndTimestamp(NamedTuple):
    """An offset, and the timestamp in ms of the record there; -1 if it was not looked up by time."""

    offset: int
    timestamp: int


def list_offsets(
    cluster: ClusterClient,
    timestamps: Mapping[TopicPartition, int],
    *,
    timeout: float,
    read_committed: bool = False,
    topic_ids: dict[TopicPartition, TopicId] | None = None,
    epochs: dict[TopicPartition, int] | None = None,
    offline: set[TopicPartition] | None = None,
    skips_missing: bool = False,
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Look up offsets by timestamp: -1 is the end; with `read_committed`, where the first open transaction begins.

    -2 is the beginning, and -4 that of what is not in tiered storage (KIP-405). Any other timestamp (ms) is the first
    record at or after it, None if no record is that recent.
    The ids of the topics are added to `topic_ids`, and the epochs of the leaders that answered to `epochs`. Partitions
    without a leader are added to `offline` and left out, so that they keep no other from being found; without `offline`
    they are waited for. With `skips_missing`, so are those that do not exist. Raises UnknownTopicError, or after
    `timeout` seconds the brokers' last error.
    """
    started_at = cluster.clock.monotonic()
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    backoff = Backoff(first_s=0.01)
    gone: Set[TopicPartition] = offline if offline is not None else frozenset()
    while left := {p: at for p, at in timestamps.items() if p not in found and p not in gone}:
        remaining = max(0.001, started_at + timeout - cluster.clock.monotonic())
        view = cluster.fetch_metadata(dict.fromkeys(p.topic for p in left), timeout=remaining)
        if offline is not None:
            offline.update(p for p in left if view.is_offline(p) or (skips_missing and not view.exists(p)))
            left = {partition: at for partition, at in left.items() if partition not in offline}
        last = _request_leaders(cluster, view, left, found, remaining, read_committed=read_committed)
        if topic_ids is not None:
            topic_ids |= {p: view.routes[p].partition_id.topic_id for p in left if p in found}
        if epochs is not None:  # a request names the epoch, so no leader of another one has answered
            epochs |= {p: view.routes[p].leader_epoch for p in left if p in found}
        if last is not None:
            unknown = isinstance(last, UnknownTopicError)
            pause = backoff.next()
            patience = min(timeout, UNKNOWN_TOPIC_GRACE_S) if unknown else timeout
            if not last.retriable or cluster.clock.monotonic() + pause >= started_at + patience:
                raise last
            cluster.wait(pause)
    return found


def list_offsets_or_end(
    cluster: ClusterClient,
    timestamps: Mapping[TopicPartition, int],
    *,
    timeout: float,
    read_committed: bool = False,
    topic_ids: dict[TopicPartition, TopicId] | None = None,
    epochs: dict[TopicPartition, int] | None = None,
    offline: set[TopicPartition] | None = None,
    skips_missing: bool = False,
) -> dict[TopicPartition, int]:
    """Like `list_offsets`, but returns the end of the log if no record is that recent."""
    how: Any = {"timeout": timeout, "read_committed": read_committed, "topic_ids": topic_ids}
    how |= {"epochs": epochs, "offline": offline, "skips_missing": skips_missing}
    found = list_offsets(cluster, timestamps, **how)
    offsets = {partition: at.offset for partition, at in found.items() if at is not None}
    if none := {partition: LATEST_TIMESTAMP for partition, at in found.items() if at is None}:
        ends = list_offsets(cluster, none, **how)
        offsets |= {partition: at.offset for partition, at in ends.items() if at is not None}
    return offsets


def _request_leaders(
    cluster: ClusterClient,
    view: ClusterView,
    timestamps: Mapping[TopicPartition, int],
    found: dict[TopicPartition, OffsetAndTimestamp | None],
    timeout: float,
    *,
    read_committed: bool,
) -> OttlaError | None:
    """Enter the leaders' responses into `found`; return the last error if a partition is still missing."""
    by_leader: dict[str, dict[TopicPartition, Route]] = {}
    last: OttlaError | None = None
    for partition in timestamps:
        route = view.routes.get(partition)
        if route is None:
            last = no_leader(view, partition)
        else:
            by_leader.setdefault(route.address, {})[partition] = route
    for address, routes in by_leader.items():
        try:
            asked = search(cluster.names, routes, timestamps, read_committed=read_committed)
            answers = cluster.exchange(address, asked, timeout=min(timeout, TRY_S))
        except OttlaError as error:
            last = error
            continue
        for partition in routes:
            answer = answers[partition]
            if isinstance(answer, OttlaError):
                last = error_from_code(answer.code, answer.message, of=partition, broker=address)
            else:
                found[partition] = answer
    return last


def search(
    names: TopicNames,
    routes: Mapping[TopicPartition, Route],
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
) -> Exchange[Mapping[TopicPartition, OffsetAndTimestamp | OttlaError | None]]:
    """Return the exchange that asks a leader for the offsets of partitions at some timestamps.

    Each partition has a result of its own, which may be an error, or None if no record is that recent. Raises
    UNKNOWN_TOPIC_ID if the topic of a route is not known any more.
    """

    def partition(at: TopicPartition, version: int) -> ListOffsetsRequest.ListOffsetsPartition:
        is_local = timestamps[at] == EARLIEST_LOCAL_TIMESTAMP
        return ListOffsetsRequest.ListOffsetsPartition(
            partition_index=at.partition,
            current_leader_epoch=routes[at].leader_epoch,
            timestamp=EARLIEST_TIMESTAMP if is_local and version < _LOCAL_FROM else timestamps[at],
        )

    def build(terms: Terms) -> ListOffsetsRequest:
        # Only now: a topic that was recreated while the request waited must not answer for the former one.
        by_topic = grouped((names.name_of(route.partition_id.topic_id), at) for at, route in routes.items())
        return ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=_READ_COMMITTED if read_committed else 0,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=name, partitions=[partition(at, terms.version) for at in partitions]
                )
                for name, partitions in by_topic.items()
            ],
            timeout_ms=terms.timeout_ms,
        )

    def read(response: ListOffsetsResponse) -> Mapping[TopicPartition, OffsetAndTimestamp | OttlaError | None]:
        found = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in response.topics
            for each in topic.partitions
        }
        return {at: _answer(found.get(at)) for at in routes}

    return Exchange(LIST_OFFSETS, build, read)


def _answer(
    found: ListOffsetsResponse.ListOffsetsPartitionResponse | None,
) -> OffsetAndTimestamp | OttlaError | None:
    if found is None:
        return OttlaError(ErrorCode.NETWORK_EXCEPTION, "the response to ListOffsets lacks it")
    if (error := own_error(found)) is not None:
        return error
    return OffsetAndTimestamp(found.offset, found.timestamp) if found.offset >= 0 else None


def no_leader(view: ClusterView, partition: TopicPartition) -> OttlaError:
    """Return the error of a partition that has no leader, or does not exist."""
    topic = view.topics.get(partition.topic)
    if topic is None or topic.error:
        code = topic.error if topic is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return error_from_code(code, f"the topic {partition.topic!r} does not exist")
    if not 0 <= partition.partition < len(topic.partitions):
        return error_from_code(
            ErrorCode.INVALID_PARTITIONS,
            f"{partition.topic} has no partition {partition.partition}",
            hint=f"its partitions are 0 to {len(topic.partitions) - 1}",
        )
    return error_from_code(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")


def spec_timestamp(spec: OffsetSpec, *, now_ms: int) -> int:
    """Return ListOffsets' timestamp for a spec. Raises ConfigError."""
    if isinstance(spec, datetime | timedelta):
        return timestamp_ms(spec, now_ms=now_ms)
    if spec == "earliest":
        return EARLIEST_TIMESTAMP
    if spec == "latest":
        return LATEST_TIMESTAMP
    raise config_error(
        f"{spec!r} is not a position in a log", hint="use 'earliest', 'latest', a datetime or a timedelta"
    )
