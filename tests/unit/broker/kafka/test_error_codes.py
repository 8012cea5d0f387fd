"""The error codes of the APIs agree with Kafka's message schemas, and with the lists at its response classes."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.api_header import ResponseClassRegistry
from kafka_messages import invented, known_versions, type_of

from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.error_codes import OF_ALL, Errors
from ottla_broker.kafka.wire import codec
from ottla_broker.kafka.wire import fetch as fetch_wire
from ottla_broker.kafka.wire import metadata as metadata_wire
from ottla_broker.kafka.wire.fetch_request import FetchResponsePartition, RequestedPartition
from ottla_broker.replication.fetch import FetchResult
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.codec import decode, encode
from ottla_core.kafka.message import Message
from ottla_core.kafka.schema import Struct, schema_of
from ottla_core.model import PartitionId, TopicId

BY_HAND = {0: "Produce", 1: "Fetch", 3: "Metadata"}
"""Their responses are not encoded by the codec library."""
EVERY = [*ErrorCode, 999]
VERSIONS = [
    pytest.param(api.key, version, id=f"{api.name}-{version}")
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
]

# What Kafka's response classes name as possible, beside what needs ACLs, quotas or groups of KIP-848.
NAMED_BY_KAFKA = {
    "Produce": "CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER MESSAGE_TOO_LARGE "
    "INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND "
    "INVALID_REQUIRED_ACKS TOPIC_AUTHORIZATION_FAILED UNSUPPORTED_FOR_MESSAGE_FORMAT INVALID_PRODUCER_EPOCH "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED INVALID_RECORD INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING",
    "Fetch": "OFFSET_OUT_OF_RANGE TOPIC_AUTHORIZATION_FAILED REPLICA_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER "
    "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH UNKNOWN_TOPIC_OR_PARTITION KAFKA_STORAGE_ERROR "
    "UNSUPPORTED_COMPRESSION_TYPE CORRUPT_MESSAGE UNKNOWN_TOPIC_ID FETCH_SESSION_TOPIC_ID_ERROR INCONSISTENT_TOPIC_ID",
    "ListOffsets": "UNSUPPORTED_FOR_MESSAGE_FORMAT TOPIC_AUTHORIZATION_FAILED REPLICA_NOT_AVAILABLE "
    "NOT_LEADER_OR_FOLLOWER FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH UNKNOWN_TOPIC_OR_PARTITION KAFKA_STORAGE_ERROR "
    "LEADER_NOT_AVAILABLE OFFSET_NOT_AVAILABLE",
    "OffsetCommit": "UNKNOWN_TOPIC_OR_PARTITION OFFSET_METADATA_TOO_LARGE COORDINATOR_LOAD_IN_PROGRESS "
    "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS "
    "INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED GROUP_ID_NOT_FOUND",
    "OffsetFetch": "UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED UNSTABLE_OFFSET_COMMIT "
    "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR UNKNOWN_MEMBER_ID",
    "FindCoordinator": "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "Heartbeat": "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS",
    "LeaveGroup": "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR FENCED_INSTANCE_ID "
    "UNKNOWN_MEMBER_ID",
    "CreateTopics": "REQUEST_TIMED_OUT INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED TOPIC_ALREADY_EXISTS "
    "INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG NOT_CONTROLLER "
    "POLICY_VIOLATION",
    "DeleteTopics": "REQUEST_TIMED_OUT INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED NOT_CONTROLLER "
    "TOPIC_DELETION_DISABLED",
    "DeleteRecords": "OFFSET_OUT_OF_RANGE UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER REQUEST_TIMED_OUT",
    "InitProducerId": "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS INVALID_PRODUCER_EPOCH "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED PRODUCER_FENCED",
    "OffsetForLeaderEpoch": "TOPIC_AUTHORIZATION_FAILED REPLICA_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER "
    "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH UNKNOWN_TOPIC_OR_PARTITION KAFKA_STORAGE_ERROR",
    "AddPartitionsToTxn": "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS INVALID_TXN_STATE "
    "INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_EPOCH PRODUCER_FENCED TOPIC_AUTHORIZATION_FAILED "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION",
    "AddOffsetsToTxn": "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS "
    "INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_EPOCH PRODUCER_FENCED INVALID_TXN_STATE "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "EndTxn": "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS INVALID_TXN_STATE "
    "INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_EPOCH PRODUCER_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "WriteTxnMarkers": "CORRUPT_MESSAGE INVALID_PRODUCER_EPOCH UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER "
    "MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND "
    "INVALID_REQUIRED_ACKS TRANSACTION_COORDINATOR_FENCED REQUEST_TIMED_OUT",
    "TxnOffsetCommit": "INVALID_PRODUCER_EPOCH NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS "
    "OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE TRANSACTIONAL_ID_AUTHORIZATION_FAILED "
    "UNSUPPORTED_FOR_MESSAGE_FORMAT UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID ILLEGAL_GENERATION",
    "DeleteGroups": "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INVALID_GROUP_ID "
    "NON_EMPTY_GROUP GROUP_ID_NOT_FOUND",
    "OffsetDelete": "GROUP_SUBSCRIBED_TO_TOPIC TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION "
    "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INVALID_GROUP_ID GROUP_ID_NOT_FOUND "
    "NON_EMPTY_GROUP",
}


class _Header:
    def __init__(self, key: int, version: int) -> None:
        self.request_api_key, self.request_api_version = key, version


def response_type_of(key: int, version: int) -> Any:
    return ResponseClassRegistry.get_response_class(_Header(key, version))[None]


def sent_code(key: int, version: int, code: int) -> int:
    return APIS[key].errors.sent(APIS[key].name, version, code)


def known(key: int, version: int) -> set[int]:
    """The codes that may leave in a response of this version."""
    errors = APIS[key].errors
    return {
        *OF_ALL,
        *errors.codes,
        *(code for code, since in errors.since.items() if version >= since.version),
    }


@pytest.mark.story("code-unknown-to-client")
@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_no_code_leaves_that_the_version_does_not_know(key: int, version: int) -> None:
    allowed = known(key, version)
    for code in EVERY:
        sent = sent_code(key, version, code)
        assert sent in allowed
        assert sent == code or code not in allowed


# ---- where responses are encoded ---------------------------------------------------------------------------------


def codes_in(message: Message, of: Struct, version: int) -> Iterator[tuple[Message, str]]:
    """Each field of the message, however deep, that has an error code in this version."""
    for field in of.fields:
        if version not in field.versions:
            continue
        if field.name.endswith("error_code"):
            yield message, field.name
        for element in getattr(message, field.name) or () if field.is_array and field.struct else ():
            assert field.struct is not None
            yield from codes_in(element, field.struct, version)


@pytest.mark.parametrize(("key", "version"), [item for item in VERSIONS if item.values[0] not in BY_HAND])
def test_each_code_in_a_response_is_held_against_the_table(key: int, version: int) -> None:
    """Every field with a code that the version has, however deep, gets each code in turn."""
    name = f"{APIS[key].name}Response"
    struct = schema_of(name).struct
    bodies = [encode(invented(name, version, random.Random(seed)), version) for seed in range(9)]
    body = max(bodies, key=len)  # some have no elements
    for code in EVERY:
        response = decode(type_of(name), body, version)
        for place in codes_in(response, struct, version):
            setattr(*place, int(code))
        sent = decode(type_of(name), b"".join(codec.encode(response, version, APIS[key].errors)), version)
        codes = {getattr(*place) for place in codes_in(sent, struct, version)}
        assert codes == {sent_code(key, version, code)}


class Nowhere:
    """There are no leaders to name."""

    def of(self, partition_id: PartitionId) -> None:
        return None

    def endpoints(self) -> dict[int, bytes]:
        return {}


@pytest.mark.parametrize("version", range(4, 19))
def test_the_codes_of_a_fetch(version: int) -> None:
    topic = "t" if version < fetch_wire.TOPIC_ID_FROM else TopicId(bytes(range(16)))
    where = PartitionId(TopicId(bytes(16)), 0)
    for code in EVERY:
        failed = FetchResult(where, error=OttlaError(code, ""))
        part = FetchResponsePartition(RequestedPartition(topic, 0, -1, 0, 0), failed)
        leaders: Any = Nowhere()
        body = b"".join(fetch_wire.write(version, [part], leaders, isolation=0, error_code=code))
        response, _ = load_fetch(version)(memoryview(body), 0)
        (sent,) = (partition.error_code for entry in response.responses for partition in entry.partitions)
        assert sent == sent_code(1, version, code)
        assert version < 7 or response.error_code == sent_code(1, version, code)


def load_fetch(version: int) -> Any:
    response_type = response_type_of(1, version)
    flexible = response_type.flexible_version_q(version)
    return response_type._struct.compiled_decode_from(
        version, compact=flexible, tagged=flexible, data_class=response_type
    )


@pytest.mark.parametrize("version", range(14))
def test_the_codes_of_metadata(version: int) -> None:
    for code in ErrorCode:
        missing = metadata_wire.write_missing(version, code, "t", bytes(16))
        assert int.from_bytes(missing[:2], signed=True) == sent_code(3, version, code)


# ---- against Kafka -----------------------------------------------------------------------------------------------


def schema_versions() -> Iterator[tuple[int, int, ErrorCode]]:
    """The key, the version and the code wherever Kafka's schema of a response says that a version brings a code."""
    for key, api in APIS.items():
        if not (known := known_versions(api)):
            continue
        schema = response_type_of(key, known[-1])._json
        version = 0
        for word in re.findall(
            r"(?<!same as )(?<!identical to )[Vv]ersion \d+|\b[A-Z]+(?:_[A-Z]+)+\b", schema.get("doc", "")
        ):
            if word[-1].isdigit():
                version = int(word.split()[-1])
            elif word in ErrorCode.__members__:
                yield key, version, ErrorCode[word]


def test_a_code_is_there_from_the_version_on_that_kafkas_schemas_say() -> None:
    sent = [entry for entry in schema_versions() if entry[2] not in OF_ALL]
    assert len(sent) >= 15
    for key, version, code in sent:
        since = APIS[key].errors.since.get(code)
        assert since is not None, f"{APIS[key].name} has {code.name} from version {version} on"
        assert since.version == version, f"{APIS[key].name} has {code.name} from version {version} on"


@pytest.mark.parametrize("name", NAMED_BY_KAFKA)
def test_what_kafka_may_answer_may_be_answered(name: str) -> None:
    (api,) = (api for api in APIS.values() if api.name == name)
    row = api.errors
    missing = {ErrorCode[code] for code in NAMED_BY_KAFKA[name].split()} - OF_ALL - row.codes - row.since.keys()
    assert not missing


@pytest.mark.story("fenced-producer-dies")
@pytest.mark.parametrize("version", range(3, 13))
def test_a_producer_hears_of_a_fence_and_an_abort_as_it_knows_them(version: int) -> None:
    """Producers abort after INVALID_PRODUCER_EPOCH and go on; PRODUCER_FENCED ends them."""
    assert sent_code(0, version, ErrorCode.PRODUCER_FENCED) == ErrorCode.INVALID_PRODUCER_EPOCH
    abortable = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
    assert sent_code(0, version, ErrorCode.TRANSACTION_ABORTABLE) == abortable


def test_a_code_without_a_row_is_logged_as_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    Errors.sent.cache_clear()
    for _ in range(3):
        assert sent_code(12, 4, ErrorCode.SHARD_FENCED) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [record.getMessage() for record in caplog.records] == [
        "Heartbeat does not have error code 1001 in version 4; the client gets UNKNOWN_SERVER_ERROR"
    ]
