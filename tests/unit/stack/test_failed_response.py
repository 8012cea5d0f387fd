"""Each API's response has an error where clients look for it, in every version that brokers serve."""

from __future__ import annotations

from typing import Any

import pytest

from ottla_broker.kafka.api import Api
from ottla_broker.kafka.apis import APIS
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka import codec, messages
from ottla_core.kafka import messages as m
from ottla_core.kafka.message import Message
from ottla_core.kafka.schema import schema_of
from ottla_stack.failed_response import failed_response

CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER
ID = bytes(15) + b"\7"


def failed(request: Message, version: int) -> Any:
    api = type(request).__name__.removesuffix("Request")
    body = failed_response(api, version, codec.encode(request, version), OttlaError(CODE, "an injected fault"))
    assert body is not None
    return codec.decode(getattr(messages, f"{api}Response"), body, version)


@pytest.mark.parametrize("version", [3, 9, 12])
def test_records_fail_by_partition(version: int) -> None:
    partitions = [m.ProduceRequest.PartitionProduceData(index=n, records=b"") for n in (4, 5)]
    topic = m.ProduceRequest.TopicProduceData(name="t", partition_data=partitions)
    (response,) = failed(m.ProduceRequest(acks=-1, topic_data=[topic]), version).responses
    assert response.name == "t"
    assert [(p.index, p.error_code) for p in response.partition_responses] == [(4, CODE), (5, CODE)]
    if version >= 8:
        assert {p.error_message for p in response.partition_responses} == {"an injected fault"}


def test_records_without_acks_get_no_response() -> None:
    partitions = [m.ProduceRequest.PartitionProduceData(index=0, records=b"")]
    topic = m.ProduceRequest.TopicProduceData(name="t", partition_data=partitions)
    request = codec.encode(m.ProduceRequest(acks=0, topic_data=[topic]), 12)
    assert failed_response("Produce", 12, request, OttlaError(CODE, "an injected fault")) is None


@pytest.mark.parametrize("version", [4, 12, 17])
def test_fetches_fail_by_partition_and_by_session(version: int) -> None:
    partition = m.FetchRequest.FetchPartition(partition=4, fetch_offset=9)
    topic = m.FetchRequest.FetchTopic(**({"topic": "t"} if version < 13 else {"topic_id": ID}), partitions=[partition])
    found = failed(m.FetchRequest(topics=[topic]), version)
    (response,) = found.responses
    assert (response.topic, response.topic_id) == (("t", bytes(16)) if version < 13 else ("", ID))
    assert [(p.partition_index, p.error_code) for p in response.partitions] == [(4, CODE)]
    if version >= 7:
        assert found.error_code == 0
        assert failed(m.FetchRequest(session_id=3, session_epoch=1), version).error_code == CODE


def test_metadata_fails_by_topic_or_as_a_whole() -> None:
    topic = m.MetadataRequest.MetadataRequestTopic(name="t")
    found = failed(m.MetadataRequest(topics=[topic]), 13)
    assert [(t.name, t.error_code) for t in found.topics] == [("t", CODE)]
    assert failed(m.MetadataRequest(topics=None), 13).error_code == CODE


def test_other_requests_fail_where_they_name_something() -> None:
    topics = [m.OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[3])]
    group = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=topics)
    (of_group,) = failed(m.OffsetFetchRequest(groups=[group]), 8).groups
    assert (of_group.group_id, of_group.topics[0].name) == ("g", "t")
    assert [(p.partition_index, p.error_code) for p in of_group.topics[0].partitions] == [(3, CODE)]

    resource = m.DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="t")
    (described,) = failed(m.DescribeConfigsRequest(resources=[resource]), 4).results
    assert (described.resource_type, described.resource_name, described.error_code) == (2, "t", CODE)
    assert described.error_message == "an injected fault"

    deleted = failed(m.DeleteGroupsRequest(groups_names=["g", "h"]), 2).results
    assert [(each.group_id, each.error_code) for each in deleted] == [("g", CODE), ("h", CODE)]

    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    assert failed(m.JoinGroupRequest(group_id="g", protocols=[protocol]), 9).error_code == CODE

    of_id = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[1])
    found = failed(m.AddPartitionsToTxnRequest(v3_and_below_topics=[of_id]), 3)
    (added,) = found.results_by_topic_v3_and_below[0].results_by_partition
    assert (added.partition_index, added.partition_error_code) == (1, CODE)


def test_an_error_that_has_no_place_is_not_left_out() -> None:
    request = codec.encode(m.MetadataRequest(topics=None), 9)
    assert failed_response("Metadata", 9, request, OttlaError(CODE, "an injected fault")) is None


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_version_of_every_api_has_a_response(api: Api) -> None:
    request: Message = getattr(messages, f"{api.name}Request")()
    served = set(range(api.min_version, api.max_version + 1))
    for version in served & set(schema_of(f"{api.name}Request").versions):
        body = failed_response(api.name, version, codec.encode(request, version), OttlaError(CODE, "a fault"))
        assert body is None or codec.decode(getattr(messages, f"{api.name}Response"), body, version)
