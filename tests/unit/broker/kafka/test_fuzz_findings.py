"""What `make fuzz` has found, and what was found while it was written: each stays mended."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import struct
import tracemalloc
from types import SimpleNamespace
from typing import Any, cast

import pytest
from images import image_of
from kio.index import load_response_schema
from kio_messages import read

from ottla_broker.kafka import fetch_sessions
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import text_of
from ottla_broker.kafka.fetch_sessions import FetchSessions, Session
from ottla_broker.kafka.forwarding.controller_calls import reported_fields
from ottla_broker.kafka.handlers import (
    alter_configs,
    delete_topics,
    describe_configs,
    describe_producers,
    metadata,
    produce,
)
from ottla_broker.kafka.wire import codec
from ottla_broker.kafka.wire import fetch as fetch_wire
from ottla_broker.kafka.wire.encoded_topics import EncodedTopics
from ottla_broker.kafka.wire.fetch_request import FetchRequest, RequestedPartition
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_broker.replication.fetch_purgatory import FetchPurgatory
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import (
    AlterConfigsResponse,
    CreateTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    DescribeProducersRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from ottla_core.kafka_formats.primitives import MAX_ELEMENTS, MAX_STRING_BYTES, MalformedError, Reader
from ottla_proto import controller_pb2 as pb
from ottla_proto.common_pb2 import Error

METADATA, DELETE_TOPICS = 3, 20
NULL_ARRAY, NULL_TEXT = b"\xff\xff\xff\xff", b"\xff\xff"
NULLS: dict[str, tuple[Any, int, bytes]] = {
    "an array": (ListOffsetsRequest, 1, b"\0\0\0\1" + NULL_ARRAY),
    "an array in an array": (ListOffsetsRequest, 1, b"\0\0\0\1" + b"\0\0\0\1" + b"\0\1t" + NULL_ARRAY),
    "a name": (MetadataRequest, 1, b"\0\0\0\1" + NULL_TEXT),
    "a compact name": (CreateTopicsRequest, 5, b"\2" + b"\0" + bytes(30)),
}


def reader_of(data: bytes, *, flexible: bool = True) -> Reader:
    return Reader(memoryview(data), flexible=flexible)


@pytest.mark.parametrize("name", NULLS)
def test_null_is_refused_where_there_must_be_something(name: str) -> None:
    """It went on to handlers, which iterated over it."""
    request_type, version, body = NULLS[name]
    with pytest.raises(MalformedError, match="is null"):
        codec.decode(request_type, version, reader_of(body, flexible=version >= 5))


def test_null_is_read_where_it_may_stand() -> None:
    assert codec.decode(MetadataRequest, 1, reader_of(NULL_ARRAY, flexible=False)).topics is None


def test_a_text_may_not_be_longer_than_kafkas_are() -> None:
    """The compact spelling could say more; such names were logged, answered, and kept in fetch sessions."""
    longest = b"x" * MAX_STRING_BYTES
    assert reader_of(b"\x80\x80\2" + longest).string() == longest.decode()
    with pytest.raises(MalformedError, match="string"):
        reader_of(b"\x81\x80\2" + longest + b"x").string()


def test_all_arrays_of_a_request_together_are_bounded() -> None:
    """A produce of 100 MB may say of itself, truly, that it has millions of partitions without records."""
    reader = reader_of(struct.pack(">i", MAX_ELEMENTS // 2) * 3 + bytes(MAX_ELEMENTS), flexible=False)
    assert reader.array(1) == reader.array(1) == MAX_ELEMENTS // 2
    with pytest.raises(MalformedError, match="elements"):
        reader.array(1)


def test_tagged_fields_are_bounded_and_not_kept() -> None:
    count = b"\xa1\x8d\6"  # 100,001
    with pytest.raises(MalformedError, match="tagged"):
        reader_of(count + b"\7\0" * (MAX_ELEMENTS + 1)).pass_tags()


@pytest.mark.parametrize("what", ["topics", "forgotten topics", "forgotten partitions"])
def test_a_fetch_names_no_more_than_is_read_in_one_turn(what: str) -> None:
    many, nothing = fetch_wire.MOST_PARTITIONS + 1, struct.pack(">i", 0)
    empty = struct.pack(">i", many) + (struct.pack(">h", 1) + b"t" + nothing) * many
    numbers = struct.pack(">ihsi", 1, 1, b"t", many) + nothing * many
    body = struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, -1)
    body += empty if what == "topics" else nothing + (numbers if what == "forgotten partitions" else empty)
    with pytest.raises(MalformedError, match="a fetch of more than"):
        fetch_wire.read(Reader(memoryview(body + nothing)), 7)


@pytest.mark.parametrize("what", ["topics", "partitions"])
def test_a_produce_names_no_more_than_is_answered_in_one_turn(what: str) -> None:
    """Topics without partitions were not counted: their response was written in a turn of 105 ms."""
    many = produce.MOST_PARTITIONS + 1
    topics, partitions = (many, 0) if what == "topics" else (1, many)
    topic = struct.pack(">h1si", 1, b"t", partitions) + struct.pack(">ii", 1, -1) * partitions
    body = struct.pack(">hhii", -1, 1, 1_000, topics) + topic * topics
    with pytest.raises(MalformedError, match="a produce to more than"):
        produce.handle(cast(Backend, None), KafkaContext(8, 1, "me", Reader(memoryview(body)), Caller("", "")))


def test_tags_in_every_element_are_read_in_one_pass() -> None:
    """kafka-python copies the rest of the request for each structure that has tags: 400 MB for these 30 kB."""
    topic = b"\2t" + b"\1" + b"\1\7\1x"  # a name, no partitions, a tagged field of a byte
    body = reader_of(b"\xf1\x2e" + topic * 6_000 + b"\0")
    tracemalloc.start()
    try:
        assert len(codec.decode(DescribeProducersRequest, 0, body).topics) == 6_000
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()
    assert body.at == body.end


def test_words_about_long_names_fit_into_an_answer() -> None:
    """A plain string has room for 32,767 bytes, and the words for a name of that length have not."""
    long = "n" * MAX_STRING_BYTES
    words = text_of(OttlaError(ErrorCode.INVALID_CONFIG, long))
    error = reported_fields(Error(code=ErrorCode.INVALID_CONFIG, message=long))
    assert (len(words), len(error["error_message"])) == (1_001, 1_001)
    result = AlterConfigsResponse.AlterConfigsResourceResponse(resource_type=2, resource_name="t", **error)
    assert codec.encode(AlterConfigsResponse(responses=[result]), 0, alter_configs.REPLACING.errors)


@pytest.mark.parametrize("version", range(1, 7))
def test_a_deleted_topic_without_a_name_has_an_empty_one_before_version_6(version: int) -> None:
    refused = pb.TopicDeleted(error=Error(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    told = delete_topics._Result(**delete_topics._reported(refused, version))
    answer = DeleteTopicsResponse(responses=[told])
    (one,) = read(
        load_response_schema(DELETE_TOPICS, version), b"".join(codec.encode(answer, version, delete_topics.API.errors))
    ).responses
    assert one.name == ("" if version < 6 else None)


@pytest.mark.parametrize("version", [10, 11, 12, 13])
async def test_an_unknown_id_has_an_empty_name_before_version_12_of_metadata(version: int) -> None:
    backend = cast(Backend, SimpleNamespace(image=image_of(0), node_id=0, addresses=None, topics=EncodedTopics()))
    wanted = MetadataRequest.MetadataRequestTopic(name=None)
    asked = MetadataRequest(topics=[wanted])
    request = KafkaContext(version, 1, "me", reader_of(b""), Caller("127.0.0.1", "127.0.0.1"))
    answer = await metadata.handle(backend, asked, request)
    (topic,) = read(load_response_schema(METADATA, version), b"".join(answer)).topics
    assert int(topic.error_code) == ErrorCode.UNKNOWN_TOPIC_ID
    assert topic.name == ("" if version < 12 else None)


def test_a_long_name_takes_the_room_of_several_partitions_in_a_session() -> None:
    """A thousand sessions of 30 names of 32 kB each held a gigabyte."""
    numbers = itertools.count(7)
    held = FetchSessions(lambda: next(numbers), FetchPurgatory(), max_partitions=100)
    long = RequestedPartition("n" * fetch_sessions._NAME_BYTES * 60, 0, -1, 0, 1)
    first = FetchRequest(-1, 0, 1, 1024, 0, 0, 0, [long], [], "")

    def session_of(request: FetchRequest) -> Session:
        with held.fetching(request, by_id=False, now=0) as session:
            return session

    assert session_of(first).id == 7
    assert session_of(first).id == 0, "there is no room for another"
    gone = FetchRequest(-1, 0, 1, 1024, 0, 7, 1, [RequestedPartition("a", 0, -1, 0, 1)], [(long.topic, 0)], "")
    assert session_of(gone).due == [("a", 0)]
    assert session_of(first).id > 7, "what was forgotten has made room"


async def test_what_is_asked_many_times_is_told_once() -> None:
    """Each may be large: a few bytes to ask, kilobytes to answer."""
    threads = DiskThreads()
    backend = cast(
        Backend,
        SimpleNamespace(
            image=image_of(0),
            node_id=0,
            addresses=None,
            id_of=lambda *_: None,
            threads=threads,
            topics=EncodedTopics(),
        ),
    )
    request = KafkaContext(0, 1, "me", reader_of(b""), Caller("127.0.0.1", "127.0.0.1"))
    topic = MetadataRequest.MetadataRequestTopic(name="t")
    asked = MetadataRequest(topics=[topic] * 1_000, allow_auto_topic_creation=False)
    answer = await metadata.handle(backend, asked, dataclasses.replace(request, version=8))
    assert [t.name for t in read(load_response_schema(METADATA, 8), b"".join(answer)).topics] == ["t"]
    wanted = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0, 1, 0, 0])
    request_ = DescribeProducersRequest(topics=[wanted] * 9)
    producers = await describe_producers.handle(backend, request_, request)
    await threads.stop()
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in producers.topics] == [("t", [0, 1])]


async def test_configs_that_are_asked_for_twice_are_not_described() -> None:
    """2,000 times the same topic kept a broker busy for seconds."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=2, resource_name="t", configuration_keys=None
    )
    asked = DescribeConfigsRequest(resources=[resource] * 3, include_synonyms=False)
    response = pb.DescribeConfigsResponse(resources=[pb.ConfigsDescribed()])  # of the cluster-wide default

    async def call(*_: object, **__: object) -> pb.DescribeConfigsResponse:
        return response

    controller = SimpleNamespace(call=call)
    metadata_ = SimpleNamespace(wait_for=lambda *_: asyncio.sleep(60))
    parts = SimpleNamespace(image=image_of(0), node_id=0, controller=controller, metadata=metadata_, process_configs={})
    backend = cast(Backend, parts)
    request = KafkaContext(1, 1, "me", reader_of(b""), Caller("127.0.0.1", "127.0.0.1"))
    answer = await describe_configs.handle(backend, asked, request)
    assert [(r.error_code, r.configs) for r in answer.results] == [(ErrorCode.INVALID_REQUEST, [])] * 3
