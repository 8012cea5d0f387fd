"""What is passed on to the controller: how long, how often, and what becomes of it when it fails as a whole."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import kafka.protocol.admin as messages
import pytest
from images import image_of, topic_id, with_topic

from ottla_broker.kafka import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    elect_leaders,
)
from ottla_broker.kafka.addresses import Endpoint
from ottla_broker.kafka.forwarding import forward, limit_s
from ottla_broker.kafka.frames import Caller, Request
from ottla_broker.kafka.wire import Reader
from ottla_core.cluster.image import Broker, Change, ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

TOPIC = 2


@pytest.mark.parametrize(("timeout_ms", "expected"), [(-1, 1.0), (0, 1.0), (5_000, 5.0), (2**31 - 1, 60.0)])
def test_a_requests_time_is_bounded_on_both_sides(timeout_ms: int, expected: float) -> None:
    assert limit_s(timeout_ms) == expected


def controller(*answers: Any) -> tuple[Any, list[float]]:
    """A backend whose controller answers so, and the deadlines that it was given."""
    deadlines: list[float] = []
    left = iter(answers)

    async def call(method: object, request: object, *, timeout: float) -> Any:
        deadlines.append(timeout)
        answer = next(left)
        if isinstance(answer, OttlaError):
            raise answer
        return answer

    return SimpleNamespace(controller=SimpleNamespace(call=call)), deadlines


def _nobody() -> OttlaError:
    return OttlaError(ErrorCode.NOT_CONTROLLER, "nobody is elected")


async def test_an_election_is_waited_for_within_the_requests_time() -> None:
    backend, deadlines = controller(_nobody(), pb.DeleteTopicsReply())
    await forward(backend, Controller.DELETE_TOPICS, pb.DeleteTopicsRequest(), limit_s=5.0)
    first, second = deadlines
    assert second < first <= 5.0


@pytest.mark.parametrize(
    ("failure", "limit"),
    [(_nobody, 0.05), (lambda: OttlaError(ErrorCode.NETWORK_EXCEPTION, "it may have been carried out"), 5.0)],
)
async def test_what_may_have_been_done_is_not_asked_again(failure: Callable[[], OttlaError], limit: float) -> None:
    backend, deadlines = controller(failure())
    with pytest.raises(OttlaError) as told:
        await forward(backend, Controller.DELETE_TOPICS, pb.DeleteTopicsRequest(), limit_s=limit)
    assert told.value.code == failure().code
    assert len(deadlines) == 1


# ---- whole requests ------------------------------------------------------------------------------------------------


def request_of(version: int) -> Request:
    return Request(version, 1, "test", Reader(memoryview(b"")), Caller("", "127.0.0.1"))


def _resource(api: Any) -> Any:
    return api.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])


def _creatable() -> Any:
    kind = messages.CreateTopicsRequest.CreatableTopic
    return kind(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])


def _grown() -> Any:
    return messages.CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=3, assignments=None)


def _deleted(name: str | None) -> Any:
    given = None if name else uuid.UUID(bytes=topic_id(1))
    return messages.DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=given)


def _described() -> Any:
    return messages.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC, resource_name="t", configuration_keys=None
    )


def _elected() -> Any:
    return messages.ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])


REQUESTS: dict[str, tuple[Any, int, Callable[[], Any], Callable[[Any], Any]]] = {
    "CreateTopics": (
        create_topics.answer,
        7,
        lambda: messages.CreateTopicsRequest(topics=[_creatable()], timeout_ms=1, validate_only=False),
        lambda answer: answer.topics,
    ),
    "DeleteTopics": (
        delete_topics.answer,
        6,
        lambda: messages.DeleteTopicsRequest(topics=[_deleted("t"), _deleted(None)], topic_names=[], timeout_ms=1),
        lambda answer: answer.responses,
    ),
    "CreatePartitions": (
        create_partitions.answer,
        3,
        lambda: messages.CreatePartitionsRequest(topics=[_grown()], timeout_ms=1, validate_only=False),
        lambda answer: answer.results,
    ),
    "DescribeConfigs": (
        describe_configs.answer,
        4,
        lambda: messages.DescribeConfigsRequest(resources=[_described()]),
        lambda answer: answer.results,
    ),
    "AlterConfigs": (
        alter_configs.replacing,
        2,
        lambda: messages.AlterConfigsRequest(resources=[_resource(messages.AlterConfigsRequest)]),
        lambda answer: answer.responses,
    ),
    "IncrementalAlterConfigs": (
        alter_configs.incremental,
        1,
        lambda: messages.IncrementalAlterConfigsRequest(
            resources=[_resource(messages.IncrementalAlterConfigsRequest)], validate_only=False
        ),
        lambda answer: answer.responses,
    ),
    "ElectLeaders": (
        elect_leaders.answer,
        2,
        lambda: messages.ElectLeadersRequest(election_type=0, topic_partitions=[_elected()], timeout_ms=1),
        lambda answer: [answer, *answer.replica_election_results[0].partition_result],
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_what_fails_as_a_whole_is_told_for_each_topic_or_resource(name: str) -> None:
    handler, version, asked, results = REQUESTS[name]
    backend, _ = controller(OttlaError(ErrorCode.NETWORK_EXCEPTION, "cut off", hint="look"))
    answer = await handler(backend, asked(), request_of(version))
    told = results(answer)
    assert {each.error_code for each in told} == {ErrorCode.NETWORK_EXCEPTION}
    assert {each.error_message for each in told if each is not answer} == {"cut off; look"}
    answer.encode()


CREATED = pb.CreateTopicsReply(topics=[pb.TopicCreated(name="t", topic_id=topic_id(1), partitions=1)])
DELETED = pb.DeleteTopicsReply(topics=[pb.TopicDeleted(name="t", topic_id=topic_id(1))])
GROWN = pb.CreatePartitionsReply(topics=[pb.PartitionsCreated(name="t")])
WITHOUT, SMALL, LARGE = image_of(1), with_topic(image_of(1), "t", 1), with_topic(image_of(1), "t", 3)


@pytest.mark.parametrize(
    ("name", "reply", "before", "after"),
    [
        ("CreateTopics", CREATED, WITHOUT, SMALL),
        ("DeleteTopics", DELETED, SMALL, WITHOUT),
        ("CreatePartitions", GROWN, SMALL, LARGE),
    ],
)
async def test_an_answer_waits_a_moment_until_this_broker_knows(
    name: str, reply: Any, before: ClusterImage, after: ClusterImage
) -> None:
    waited: list[Callable[[ClusterImage], bool]] = []

    async def until(condition: Callable[[ClusterImage], bool], *, timeout: float) -> None:
        waited.append(condition)
        raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, "not yet")

    handler, version, asked, results = REQUESTS[name]
    backend, _ = controller(reply)
    backend.replicas, backend.image = SimpleNamespace(until=until), after
    told = results(await handler(backend, asked(), request_of(version)))
    assert [each.error_code for each in told] == [0], "it was done, whatever this broker knows"
    (condition,) = waited
    assert (condition(before), condition(after)) == (False, True)


@pytest.mark.parametrize(("wanted", "expected"), [(False, [(0, False)]), (True, [(0, False), (1, True)])])
def test_fenced_brokers_are_told_to_who_asks_for_them(wanted: bool, expected: list[tuple[int, bool]]) -> None:
    fenced = Broker(1, 9, "directory", "127.0.0.1:1", kafka_address="127.0.0.1:2", fenced=True)
    backend: Any = SimpleNamespace(
        image=image_of(1).with_changes([Change(("broker", 1), fenced)], 300),
        addresses=SimpleNamespace(told=lambda broker, dialled_host: Endpoint(dialled_host, 2)),
        node_id=lambda: 0,
    )
    asked = messages.DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=wanted)
    told = describe_cluster.answer(backend, asked, request_of(2))
    assert [(b.broker_id, b.is_fenced) for b in told.brokers] == expected
