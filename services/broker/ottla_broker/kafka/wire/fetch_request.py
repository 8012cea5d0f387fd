"""A fetch as values: what was requested, and the response for each partition of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ottla_broker.replication.fetch import FetchResult
from ottla_core.model import TopicId

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
"""The session epoch of a request without a session, or of the last one in a session."""
CONSUMER: Final = -1

TopicKey: TypeAlias = str | TopicId
"""A topic as the request's version names it."""


class RequestedPartition(NamedTuple):
    """The request for one partition."""

    topic: TopicKey
    number: int
    leader_epoch: int
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int
    session_id: int
    session_epoch: int
    partitions: Sequence[RequestedPartition]
    forgotten: list[tuple[TopicKey, int]]
    rack: str


class FetchResponsePartition(NamedTuple):
    """One partition of the response, with what was requested of it."""

    requested: RequestedPartition
    fetched: FetchResult
