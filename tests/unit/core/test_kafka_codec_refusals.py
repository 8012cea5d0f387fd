"""Bytes that lie are refused, and so is what has no spelling. Nothing is allocated by what a count claims."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest
from kafka_messages import invented, type_of

from ottla_core.kafka import codec
from ottla_core.kafka.messages import (
    ApiVersionsResponse,
    DescribeTopicPartitionsRequest,
    FetchResponse,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceResponse,
    RequestHeader,
    SyncGroupRequest,
    UpdateFeaturesRequest,
)
from ottla_core.kafka.runtime import UnencodableError, varint
from ottla_core.kafka.schema import message_names, schema_of
from ottla_core.kafka_formats.primitives import MalformedError

HEARTBEAT = HeartbeatRequest(group_id="group", generation_id=4, member_id="member")
MUTATIONS = 60


def refused(data: bytes, version: int, message_type: type = HeartbeatRequest) -> str:
    with pytest.raises(MalformedError) as error:
        codec.decode(message_type, data, version)
    return str(error.value)


def test_the_error_names_the_message_and_the_version() -> None:
    assert refused(b"", 3) == (
        "the bytes are not a valid HeartbeatRequest of version 3: the bytes end in the middle of a field"
    )


# ---- lengths ---------------------------------------------------------------------------------------------------------


def test_a_plain_string_may_not_be_null_unless_its_field_may() -> None:
    whole = struct.pack(">h5sih6sh", 5, b"group", 4, 6, b"member", -1)
    assert codec.decode(HeartbeatRequest, whole, 3) == HEARTBEAT
    assert "group_id is null" in refused(struct.pack(">hih6sh", -1, 4, 6, b"member", -1), 3)


def test_a_compact_string_may_not_be_null_unless_its_field_may() -> None:
    whole = codec.encode(HEARTBEAT, 4)
    assert whole == b"\6group\0\0\0\4\7member\0\0"
    assert "member_id is null" in refused(b"\6group\0\0\0\4\0\0\0", 4)


def test_an_array_may_not_be_null_unless_its_field_may() -> None:
    assert codec.decode(OffsetFetchRequest, struct.pack(">h1si", 1, b"g", -1), 2).topics is None
    assert "topics is null" in refused(struct.pack(">h1si", 1, b"g", -1), 1, OffsetFetchRequest)


@pytest.mark.parametrize("length", [1, 7, 2**15 - 1, 2**31 - 1], ids=str)
def test_a_length_behind_the_end_is_refused(length: int) -> None:
    compact = b"\6group\0\0\0\4" + varint(length + 1)
    refused(compact, 4)
    if length < 2**15:
        refused(struct.pack(">h5sih", 5, b"group", 4, length), 3)


def test_a_string_beyond_kafkas_limit_is_refused() -> None:
    longest = HeartbeatRequest(group_id="g" * 0x7FFF)
    assert codec.decode(HeartbeatRequest, codec.encode(longest, 4), 4) == longest
    data = varint(0x8001) + b"g" * 0x8000 + codec.encode(HeartbeatRequest(), 4)[1:]
    assert "group_id is too long" in refused(data, 4)


def test_committed_metadata_alone_may_be_longer_so_that_its_commit_has_an_error_of_its_own() -> None:
    topic, partition = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
    request = OffsetCommitRequest(topics=[topic(name="t", partitions=[partition(committed_metadata="x")])])
    whole = codec.encode(request, 8)
    long = whole.replace(b"\2x", varint(40_001) + b"x" * 40_000)
    [[found]] = [entry.partitions for entry in codec.decode(OffsetCommitRequest, long, 8).topics]
    assert found.committed_metadata == "x" * 40_000


def test_what_is_not_utf_8_is_refused() -> None:
    assert "UTF-8" in refused(codec.encode(HEARTBEAT, 4).replace(b"group", b"gr\xffup"), 4)


def test_a_varint_of_six_bytes_is_refused() -> None:
    assert "five bytes" in refused(b"\x86\x80\x80\x80\x80\0group\0\0\0\4\7member\0\0", 4)


# ---- counts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 1_000, 10**6, 2**31 - 1], ids=str)
def test_a_count_that_lies_is_refused_before_anything_is_allocated(count: int) -> None:
    join = JoinGroupRequest(group_id="g", protocol_type="consumer")
    plain = codec.encode(join, 5)[:-4] + struct.pack(">i", count) + b"\0\1p"
    compact = codec.encode(join, 6)[:-2] + varint(count + 1) + b"\2p"
    for version in (5, 6):
        codec.decode(JoinGroupRequest, codec.encode(join, version), version)  # their functions are there
    tracemalloc.start()
    try:
        assert f"{count} protocols" in refused(plain, 5, JoinGroupRequest)
        assert f"{count} protocols" in refused(compact, 6, JoinGroupRequest)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_request_has_a_limit_for_all_its_elements_together() -> None:
    most = 100_000
    topic = OffsetFetchRequest.OffsetFetchRequestTopic
    half = topic(name="t", partition_indexes=[0] * (most // 2 - 1))
    whole = codec.encode(OffsetFetchRequest(topics=[half, half]), 5)
    assert len(codec.decode(OffsetFetchRequest, whole, 5).topics or ()) == 2
    refused(codec.encode(OffsetFetchRequest(topics=[half, half, topic(name="t")]), 5), 5, OffsetFetchRequest)


def test_an_array_of_a_response_has_kafkas_limit() -> None:
    million = 1_000_000
    version = ApiVersionsResponse.ApiVersion()
    whole = codec.encode(ApiVersionsResponse(api_keys=[version] * (million + 1)), 0)
    refused(whole, 0, ApiVersionsResponse)
    whole = whole[:2] + struct.pack(">i", million) + whole[6:-6]
    assert len(codec.decode(ApiVersionsResponse, whole, 0).api_keys) == million


# ---- tagged fields ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tags", [b"\1\x63\0", b"\2\x63\2ab\xe7\7\1c", b"\1\xff\xff\xff\xff\x0f\0"], ids=repr)
def test_unknown_tagged_fields_are_passed_by(tags: bytes) -> None:
    assert codec.decode(HeartbeatRequest, codec.encode(HEARTBEAT, 4)[:-1] + tags, 4) == HEARTBEAT


def test_unknown_tagged_fields_among_elements_of_a_fixed_size_are_passed_by() -> None:
    keys = [ApiVersionsResponse.ApiVersion(api_key=n, max_version=7) for n in range(3)]
    message = ApiVersionsResponse(api_keys=keys)
    plain = codec.encode(message, 3)
    for place in range(3):
        end = 3 + 7 * (place + 1)
        tagged = plain[: end - 1] + b"\1\x63\2ab" + plain[end:]
        assert codec.decode(ApiVersionsResponse, tagged, 3) == message


@pytest.mark.parametrize("tags", [b"\x05", b"\1\x63\5a", b"\x91\x4e" + b"\x63\0" * 10_001, b"\1\x63"], ids=len)
def test_tagged_fields_that_lie_are_refused(tags: bytes) -> None:
    refused(codec.encode(HEARTBEAT, 4)[:-1] + tags, 4)


def test_a_tagged_field_that_is_longer_than_it_says_is_refused() -> None:
    response = ApiVersionsResponse(finalized_features_epoch=7)
    whole = codec.encode(response, 3)
    assert whole.endswith(b"\1\1\x08" + (7).to_bytes(8, "big"))
    lying = whole[:-10] + b"\1\x04" + whole[-8:]
    assert "finalized_features_epoch is too long" in refused(lying, 3, ApiVersionsResponse)


def test_a_tagged_field_at_its_default_is_not_sent() -> None:
    assert codec.encode(ApiVersionsResponse(), 3) == b"\0\0" + b"\1" + bytes(4) + b"\0"
    partition = ProduceResponse.PartitionProduceResponse()
    absent = codec.encode(partition_response(partition), 10)
    leader = ProduceResponse.LeaderIdAndEpoch(leader_id=3)
    there = codec.encode(partition_response(ProduceResponse.PartitionProduceResponse(current_leader=leader)), 10)
    assert len(there) - len(absent) == 2 + 4 + 4 + 1


def partition_response(partition: ProduceResponse.PartitionProduceResponse) -> ProduceResponse:
    topic = ProduceResponse.TopicProduceResponse(name="t", partition_responses=[partition])
    return ProduceResponse(responses=[topic])


# ---- structures ------------------------------------------------------------------------------------------------------


def test_a_structure_that_may_be_null_has_a_byte_that_says_whether_it_is_there() -> None:
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name="t", partition_index=3)
    assert codec.encode(DescribeTopicPartitionsRequest(cursor=cursor), 0).endswith(b"\1\2t\0\0\0\3\0\0")
    none = codec.encode(DescribeTopicPartitionsRequest(), 0)
    assert none.endswith(b"\xff\0")
    assert codec.decode(DescribeTopicPartitionsRequest, none, 0).cursor is None


def test_bytes_behind_a_message_are_ignored() -> None:
    """librdkafka leaves some behind its Metadata request: confluentinc/librdkafka#5049."""
    assert codec.decode(HeartbeatRequest, codec.encode(HEARTBEAT, 4) + b"abc", 4) == HEARTBEAT


def test_a_requests_client_id_has_its_plain_spelling_in_every_version() -> None:
    header = RequestHeader(request_api_key=3, request_api_version=12, correlation_id=5, client_id="me")
    assert codec.encode(header, 2) == b"\0\3\0\x0c\0\0\0\5\0\2me\0"
    assert codec.decode_at(RequestHeader, b"\0\3\0\x0c\0\0\0\5\xff\xff\0rest", 2, 0)[1] == 11


def test_records_are_a_view_of_the_data() -> None:
    partition = FetchResponse.PartitionData(records=b"r" * 1000)
    topic = FetchResponse.FetchableTopicResponse(partitions=[partition])
    data = codec.encode(FetchResponse(responses=[topic]), 13)
    [[found]] = [entry.partitions for entry in codec.decode(FetchResponse, data, 13).responses]
    assert isinstance(found.records, memoryview)
    assert found.records.obj is data


# ---- encoding --------------------------------------------------------------------------------------------------------


def test_a_value_that_the_version_lacks_is_left_out_if_it_is_ignorable_and_refused_otherwise() -> None:
    ignorable = FindCoordinatorResponse(error_message="why")
    assert codec.encode(ignorable, 0) == codec.encode(FindCoordinatorResponse(), 0)
    member = LeaveGroupRequest.MemberIdentity(member_id="m")
    with pytest.raises(UnencodableError, match="LeaveGroupRequest can't be encoded in version 2: this version has no"):
        codec.encode(LeaveGroupRequest(members=[member]), 2)
    with pytest.raises(UnencodableError, match="skip_assignment"):
        codec.encode(JoinGroupResponse(skip_assignment=True), 8)
    assert codec.decode(SyncGroupRequest, codec.encode(SyncGroupRequest(), 0), 0) == SyncGroupRequest()


@pytest.mark.parametrize(
    "message",
    [
        HeartbeatRequest(group_id=None),  # type: ignore[arg-type]  # what is refused
        HeartbeatRequest(generation_id=2**31),
        HeartbeatRequest(generation_id=None),  # type: ignore[arg-type]  # what is refused
        HeartbeatRequest(group_id="g" * 0x8000),
        LeaveGroupRequest(members=None),  # type: ignore[arg-type]  # what is refused
        UpdateFeaturesRequest(feature_updates=["no structure"]),  # type: ignore[list-item]  # what is refused
    ],
    ids=repr,
)
def test_a_value_that_does_not_fit_its_field_is_refused(message: HeartbeatRequest) -> None:
    for version in schema_of(type(message).__name__).versions:
        if isinstance(message, LeaveGroupRequest) and version < 3:
            continue
        with pytest.raises(UnencodableError, match=type(message).__name__):
            codec.encode(message, version)


# ---- anything --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", message_names())
def test_bytes_that_were_changed_are_read_or_refused(name: str) -> None:
    """No other error comes, and what was read has a spelling."""
    for version in schema_of(name).versions:
        random_ = random.Random(f"{name} {version}")
        whole = (codec.encode(invented(name, version, random_), version) or b"\0")[:3_000]
        for _ in range(MUTATIONS // len(schema_of(name).versions) + 5):
            changed = bytearray(whole)
            for _ in range(random_.choice((1, 1, 2, 5))):
                changed[random_.randrange(len(changed))] = random_.choice(
                    (0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256))
                )
            try:
                message = codec.decode(type_of(name), bytes(changed), version)
            except MalformedError:
                continue
            assert codec.decode(type_of(name), codec.encode(message, version), version) == message
