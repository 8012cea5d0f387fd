"""Kafka's messages as kio has them, and those of Kafka 4.4 that kio does not have yet.

kio shares neither definitions nor code with ottla, so it judges what the fuzzer sends and what the broker answers. kio
ends one version before Kafka 4.4 in three APIs. The classes of these versions are here, written by hand for kio to read
and write. `tests/unit/core/test_kafka_codec.py` compares ottla's codec with all of these classes, and
`tests/compat/test_messages.py` compares it with Kafka's own, so that an error in the classes here is found, too.
"""

# kio needs the types of fields as they are, not as texts, so this module does not import annotations from __future__.

import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.txn_offset_commit.v5 import request as commit
from kio.schema.txn_offset_commit.v5 import response as committed
from kio.static.primitive import i32

_STRING: Final = {"kafka_type": "string"}
_INT32: Final = {"kafka_type": "int32"}
_UUID: Final = {"kafka_type": "uuid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ApiVersionsRequest5(ApiVersionsRequest):
    cluster_id: str | None = field(metadata=_STRING)
    node_id: i32 = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeletableGroupResult3(DeletableGroupResult):
    error_message: str | None = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeleteGroupsResponse3(DeleteGroupsResponse):
    results: tuple[_DeletableGroupResult3, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _TopicToCommit6(commit.TxnOffsetCommitRequestTopic):
    name: uuid.UUID | None = field(metadata=_UUID)  # type: ignore[assignment]  # version 6 has the id in place of the name


@dataclass(frozen=True, slots=True, kw_only=True)
class _TxnOffsetCommitRequest6(commit.TxnOffsetCommitRequest):
    topics: tuple[_TopicToCommit6, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommittedTopic6(committed.TxnOffsetCommitResponseTopic):
    name: uuid.UUID | None = field(metadata=_UUID)  # type: ignore[assignment]  # version 6 has the id in place of the name


@dataclass(frozen=True, slots=True, kw_only=True)
class _TxnOffsetCommitResponse6(committed.TxnOffsetCommitResponse):
    topics: tuple[_CommittedTopic6, ...]


_REQUESTS: Final = {
    (18, 5): _ApiVersionsRequest5,
    (28, 6): _TxnOffsetCommitRequest6,
    (42, 3): DeleteGroupsRequest,
}
_RESPONSES: Final = {
    (18, 5): ApiVersionsResponse,
    (28, 6): _TxnOffsetCommitResponse6,
    (42, 3): _DeleteGroupsResponse3,
}


def request_schema(key: int, version: int) -> Any:
    """Raises kio.index.UnknownEntity if neither kio nor this module has the request."""
    return _REQUESTS.get((key, version)) or load_request_schema(key, version)


def response_schema(key: int, version: int) -> Any:
    """Raises kio.index.UnknownEntity if neither kio nor this module has the response."""
    return _RESPONSES.get((key, version)) or load_response_schema(key, version)
