"""The nouns that every part shares: topics, partitions, brokers. They are only values, without rules."""

from __future__ import annotations

import re
from typing import NamedTuple, NewType

from ottla_core.errors import ErrorCode, OttlaError

TopicId = NewType("TopicId", bytes)
"""A topic id has 16 bytes and is never reused: deleting and creating a topic again gives another id (KIP-516)."""

NO_LEADER = -1
NO_OWNER = -1
EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
SHARD_TOPICS = {"group": "__consumer_offsets", "txn": "__transaction_state"}
"""For each kind of coordinator, the topic whose partition n holds the state of its shard n."""
INTERNAL_TOPICS = frozenset(SHARD_TOPICS.values())

MAX_BATCH_BYTES = 100 << 20
"""The largest record batch that a log may hold. Kafka's socket.request.max.bytes is as large, so no
request can bring a larger batch. Every transport carries a batch of this size (`ottla_core.rpc.status`)."""

_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class TopicPartition(NamedTuple):
    """A partition, identified by topic name and partition number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionId(NamedTuple):
    """A partition as services name it: by topic id, which belongs to one topic for ever."""

    topic_id: TopicId
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id.hex()}-{self.partition}"


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION unless `name` is legal in Kafka: 1 to 249 of [a-zA-Z0-9._-], not `.` or `..`."""
    if name in (".", "..") or not _LEGAL_TOPIC.fullmatch(name):
        shown = name if len(name) <= 60 else f"{name[:60]}… ({len(name)} characters)"
        raise OttlaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"the topic name {shown!r} is not valid",
            hint="use 1 to 249 letters, digits, '.', '_' or '-', other than '.' and '..'",
        )
