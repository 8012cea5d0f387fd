"""The response to a fetch. It has the attributes of the contract's message, as far as clients read them.

A protobuf message would copy the records twice, once into the message and once out of it. Here they stay in the frame
in which they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.kafka.translations.leaders import leader_of
from ottla_core.kafka.messages import FetchResponse
from ottla_proto import broker_pb2 as pb
from ottla_proto.common_pb2 import Error

_NOBODY: Final = -1
_NO_ERROR: Final = Error()
_NO_LEADER: Final = pb.Leader()
_NO_SESSION: Final = pb.FetchSession()
_MOST_WASTE: Final = 2
"""A view keeps its whole frame in memory, which may have this many times the bytes of the view."""


class FetchedPartition:
    """The response for one partition, like `PartitionFetched` in broker.proto. Treat its messages as read-only."""

    __slots__ = (
        "aborted",
        "current_leader",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "preferred_read_replica",
        "records",
        "topic_id",
    )

    def __init__(self, topic_id: bytes, data: FetchResponse.PartitionData, endpoints: Mapping[int, str]) -> None:
        self.topic_id: Final = topic_id
        self.partition: Final = data.partition_index
        self.error: Final = Error(code=data.error_code) if data.error_code else _NO_ERROR
        self.high_watermark: Final = data.high_watermark
        self.last_stable_offset: Final = data.last_stable_offset
        self.log_start_offset: Final = max(0, data.log_start_offset)
        self.records: Final = _kept(data.records)
        self.aborted: Final[Sequence[FetchResponse.AbortedTransaction]] = data.aborted_transactions or ()
        self.preferred_read_replica: Final = data.preferred_read_replica
        self.current_leader: Final = leader_of(data.current_leader, endpoints) or _NO_LEADER

    def HasField(self, name: str) -> bool:  # noqa: N802  # protobuf's name
        """Return whether the partition has this field. Clients ask only for the preferred replica."""
        return name == "preferred_read_replica" and self.preferred_read_replica != _NOBODY

    @property
    def ends_request(self) -> bool:
        """Whether the client no longer counts the partition as requested (`PartitionData.ends_request`)."""
        return bool(self.records or self.error.code) or self.preferred_read_replica != _NOBODY


class Fetched:
    """The whole response, like `FetchResponse` in broker.proto."""

    __slots__ = ("error", "partitions", "session")

    def __init__(self) -> None:
        self.partitions: Final[list[FetchedPartition]] = []
        self.session = _NO_SESSION
        self.error = _NO_ERROR

    def HasField(self, name: str) -> bool:  # noqa: N802  # protobuf's name
        """Return whether the response has this field. Clients ask only for the session."""
        return name == "session" and self.session is not _NO_SESSION


def _kept(records: bytes | memoryview | None) -> bytes | memoryview:
    """Return the records: as they are, if they take enough of their frame, and otherwise as a copy.

    A consumer keeps records until they are read, and counts their own bytes alone.
    """
    if not records:
        return b""
    if isinstance(records, memoryview) and len(records) * _MOST_WASTE < len(memoryview(records.obj)):
        return bytes(records)
    return records
