"""What is passed on to the controller: how long, how often, and what becomes of it when it fails as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from images import image_of, topic_id, with_topic
from waiting import until

from ottla_broker.kafka.authorization.access import Access
from ottla_broker.kafka.forwarding import auto_topics
from ottla_broker.kafka.forwarding.controller_calls import forward, limit_s
from ottla_broker.kafka.handlers import (
    alter_configs,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_quorum,
    elect_leaders,
)
from ottla_broker.kafka.private_methods import PRIVATE_METHODS, PrivateCall
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.cluster.image import Broker, Change, ClusterImage
from ottla_core.cluster.image import Controller as ElectedController
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.host_port import HostPort
from ottla_core.kafka import messages
from ottla_core.kafka.codec import encode
from ottla_core.kafka.messages import MetadataRequest
from ottla_core.kafka_formats.primitives import Reader
from ottla_proto import controller_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Controller

TOPIC, BROKER = 2, 4
ALICE = "User:alice"


@pytest.mark.parametrize(("timeout_ms", "expected"), [(-1, 1.0), (0, 1.0), (5_000, 5.0), (2**31 - 1, 60.0)])
def test_a_requests_time_is_bounded_on_both_sides(timeout_ms: int, expected: float) -> None:
    assert limit_s(timeout_ms) == expected


class AsksController:
    """A backend whose controller answers so, the last answer for ever; `deadlines` and `requests` are what it got.

    A controller that answers `...` hangs. `elect` lets another be elected, which the backend hears of.
    """

    def __init__(self, *answers: Any) -> None:
        self.deadlines: list[float] = []
        self.requests: list[Any] = []
        self.principals: list[str] = []
        self.image = image_of(1)
        self.node_id = 0
        self.replicas: Any = None
        self.process_configs: dict[str, Any] = {}
        self.threads = DiskThreads()
        self.controller = self.metadata = self
        self._answers = list(answers)
        self._elected = asyncio.Event()

    async def call(self, method: object, request: Any, *, timeout: float, principal: str) -> Any:
        self.principals.append(principal)
        self.deadlines.append(timeout)
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is ...:
            await asyncio.Event().wait()
        if isinstance(answer, OttlaError):
            raise answer
        return answer

    async def wait_for(self, condition: Callable[[ClusterImage], bool], timeout: float) -> None:
        while not condition(self.image):
            self._elected.clear()
            await self._elected.wait()

    def elect(self, epoch: int) -> None:
        elected = Change(("controller",), ElectedController(0, "127.0.0.1:1", epoch))
        self.image = self.image.with_changes([elected], 1000 + epoch)
        self._elected.set()


def nobody() -> OttlaError:
    return OttlaError(ErrorCode.NOT_CONTROLLER, "nobody is elected")


def gone() -> OttlaError:
    return OttlaError(ErrorCode.NETWORK_EXCEPTION, "the connection was reset")


def ask(backend: Any, limit_s: float = 5.0) -> Any:
    return forward(backend, Controller.DELETE_TOPICS, pb.DeleteTopicsRequest(), principal=ALICE, limit_s=limit_s)


async def test_an_election_is_waited_for_within_the_requests_time() -> None:
    backend = AsksController(nobody(), gone(), nobody(), pb.DeleteTopicsResponse())
    await ask(backend)
    assert len(backend.deadlines) == 4
    assert sorted(backend.deadlines, reverse=True) == backend.deadlines
    assert backend.deadlines[0] <= 5.0


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([nobody()], ErrorCode.NOT_CONTROLLER),
        ([gone()], ErrorCode.REQUEST_TIMED_OUT),
        ([gone(), nobody()], ErrorCode.REQUEST_TIMED_OUT),
    ],
)
async def test_at_the_end_of_the_time_a_client_is_told_to_try_again(
    answers: list[OttlaError], expected: ErrorCode
) -> None:
    """And whether something may have been done: then the code says that nobody knows."""
    backend = AsksController(*answers)
    with pytest.raises(OttlaError) as told:
        await ask(backend, limit_s=0.25)
    assert told.value.code == expected
    assert told.value.retriable
    assert len(backend.deadlines) > 1


async def test_what_the_controller_refuses_is_not_asked_again() -> None:
    backend = AsksController(OttlaError(ErrorCode.INVALID_REQUEST, "no"))
    with pytest.raises(OttlaError, match="no"):
        await ask(backend)
    assert len(backend.deadlines) == 1


async def test_a_controller_that_hangs_is_left_for_the_next_one() -> None:
    backend = AsksController(..., pb.DeleteTopicsResponse())
    backend.elect(1)
    asking = asyncio.create_task(ask(backend, limit_s=60.0))
    await until(lambda: len(backend.deadlines) == 1)
    backend.elect(2)
    await asyncio.wait_for(asking, 20)
    assert len(backend.deadlines) == 2


# ---- whole requests ------------------------------------------------------------------------------------------------


def request_of(version: int) -> KafkaContext:
    return KafkaContext(version, 1, "test", Reader(memoryview(b"")), Caller("", "127.0.0.1"))


def _resource(api: Any) -> Any:
    return api.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])


def _creatable() -> Any:
    kind = messages.CreateTopicsRequest.CreatableTopic
    return kind(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])


def _grown() -> Any:
    return messages.CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=3, assignments=None)


def _deleted(name: str | None) -> Any:
    given = bytes(16) if name else topic_id(1)
    return messages.DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=given)


def _described() -> Any:
    return messages.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC, resource_name="t", configuration_keys=None
    )


def _elected() -> Any:
    return messages.ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])


REQUESTS: dict[str, tuple[Any, int, Callable[[], Any], Callable[[Any], Any]]] = {
    "CreateTopics": (
        create_topics.handle,
        7,
        lambda: messages.CreateTopicsRequest(topics=[_creatable()], timeout_ms=1, validate_only=False),
        lambda answer: answer.topics,
    ),
    "DeleteTopics": (
        delete_topics.handle,
        6,
        lambda: messages.DeleteTopicsRequest(topics=[_deleted("t"), _deleted(None)], topic_names=[], timeout_ms=1),
        lambda answer: answer.responses,
    ),
    "CreatePartitions": (
        create_partitions.handle,
        3,
        lambda: messages.CreatePartitionsRequest(topics=[_grown()], timeout_ms=1, validate_only=False),
        lambda answer: answer.results,
    ),
    "DescribeConfigs": (
        describe_configs.handle,
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
    "DescribeQuorum": (
        describe_quorum.handle,
        2,
        lambda: messages.DescribeQuorumRequest(topics=[]),
        lambda answer: [SimpleNamespace(error_code=answer.error_code, error_message=answer.error_message)],
    ),
    "ElectLeaders": (
        elect_leaders.handle,
        2,
        lambda: messages.ElectLeadersRequest(election_type=0, topic_partitions=[_elected()], timeout_ms=1),
        lambda answer: [answer, *answer.replica_election_results[0].partition_result],
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_what_fails_as_a_whole_is_told_for_each_topic_or_resource(name: str) -> None:
    handler, version, asked, results = REQUESTS[name]
    backend = AsksController(OttlaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "cut off", hint="look"))
    answer = await handler(backend, asked(), request_of(version))
    told = results(answer)
    assert {each.error_code for each in told} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert {each.error_message for each in told if each is not answer} == {"cut off; look"}
    assert encode(answer, version)


class Allowed(Access):
    """The access of a client whom an authorizer allows everything."""

    is_limited = True


OF_SECURITY: dict[str, tuple[Any, int, Callable[[], Any]]] = {
    "CreateAcls": (
        create_acls.handle,
        3,
        lambda: messages.CreateAclsRequest(
            creations=[
                messages.CreateAclsRequest.AclCreation(
                    resource_type=2,
                    resource_name="t",
                    resource_pattern_type=3,
                    principal="User:bob",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
            ]
        ),
    ),
    "DeleteAcls": (
        delete_acls.handle,
        3,
        lambda: messages.DeleteAclsRequest(
            filters=[
                messages.DeleteAclsRequest.DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter="t",
                    pattern_type_filter=3,
                    principal_filter="User:bob",
                    host_filter="*",
                    operation=3,
                    permission_type=3,
                )
            ]
        ),
    ),
    "AlterUserScramCredentials": (
        alter_user_scram_credentials.handle,
        0,
        lambda: messages.AlterUserScramCredentialsRequest(
            deletions=[messages.AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="bob", mechanism=1)],
            upsertions=[],
        ),
    ),
}


@pytest.mark.parametrize("name", [*REQUESTS, *OF_SECURITY])
async def test_the_controller_hears_which_client_has_sent_the_request(name: str) -> None:
    handler, version, asked = REQUESTS[name][:3] if name in REQUESTS else OF_SECURITY[name]
    backend = AsksController(OttlaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "cut off", hint="look"))
    caller = Caller("", "127.0.0.1", login=cast(Any, SimpleNamespace(principal=ALICE)))
    await handler(backend, asked(), replace(request_of(version), caller=caller, access=Allowed()))
    assert backend.principals == [ALICE]


async def test_the_controller_hears_which_client_has_declared_a_restore() -> None:
    backend = AsksController(pb.DeclareRestoredResponse())
    method = PRIVATE_METHODS[Controller.DECLARE_RESTORED.path]
    await method.serve(cast(Any, backend), pb.DeclareRestoredRequest(), PrivateCall(ALICE, 5.0))
    assert backend.principals == [ALICE]


CREATED = pb.CreateTopicsResponse(topics=[pb.TopicCreated(name="t", topic_id=topic_id(1), partitions=1)])
DELETED = pb.DeleteTopicsResponse(topics=[pb.TopicDeleted(name="t", topic_id=topic_id(1))])
GROWN = pb.CreatePartitionsResponse(topics=[pb.PartitionsCreated(name="t")])
WITHOUT, SMALL, LARGE = image_of(1), with_topic(image_of(1), "t", 1), with_topic(image_of(1), "t", 3)


@pytest.mark.parametrize(
    ("name", "response", "before", "after"),
    [
        ("CreateTopics", CREATED, WITHOUT, SMALL),
        ("DeleteTopics", DELETED, SMALL, WITHOUT),
        ("CreatePartitions", GROWN, SMALL, LARGE),
    ],
)
async def test_an_answer_waits_a_moment_until_this_broker_knows(
    name: str, response: Any, before: ClusterImage, after: ClusterImage
) -> None:
    waited: list[Callable[[ClusterImage], bool]] = []

    async def until(condition: Callable[[ClusterImage], bool], *, timeout: float) -> None:
        waited.append(condition)
        raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, "not yet")

    handler, version, asked, results = REQUESTS[name]
    backend = AsksController(response)
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
        addresses=SimpleNamespace(advertised=lambda broker, caller: HostPort(caller.dialled_host, 2)),
        node_id=lambda: 0,
    )
    asked = messages.DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=wanted)
    told = describe_cluster.handle(backend, asked, request_of(2))
    assert [(b.broker_id, b.is_fenced) for b in told.brokers] == expected


# ---- what is named twice -------------------------------------------------------------------------------------------


def _topics_of(request: Any) -> list[str]:
    return [topic.name for topic in request.topics]


def _creatable_of(name: str) -> Any:
    kind = messages.CreateTopicsRequest.CreatableTopic
    return kind(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])


async def test_of_topics_that_are_named_twice_none_is_created_and_the_others_are() -> None:
    response = pb.CreateTopicsResponse(topics=[pb.TopicCreated(name="b", topic_id=topic_id(1), partitions=1)])
    backend = AsksController(response)
    topics = [_creatable_of(name) for name in ("a", "b", "a")]
    asked = messages.CreateTopicsRequest(topics=topics, timeout_ms=1, validate_only=True)
    told = await create_topics.handle(cast(Any, backend), asked, request_of(7))
    assert _topics_of(backend.requests[0]) == ["b"]
    assert [(t.name, t.error_code) for t in told.topics] == [("a", ErrorCode.INVALID_REQUEST), ("b", 0)]


async def test_of_topics_that_are_named_twice_none_grows_and_the_others_do() -> None:
    backend = AsksController(pb.CreatePartitionsResponse(topics=[pb.PartitionsCreated(name="b")]))
    kind = messages.CreatePartitionsRequest.CreatePartitionsTopic
    topics = [kind(name=name, count=3, assignments=None) for name in ("a", "b", "a")]
    asked = messages.CreatePartitionsRequest(topics=topics, timeout_ms=1, validate_only=True)
    told = await create_partitions.handle(cast(Any, backend), asked, request_of(3))
    assert _topics_of(backend.requests[0]) == ["b"]
    assert [(t.name, t.error_code) for t in told.results] == [("a", ErrorCode.INVALID_REQUEST), ("b", 0)]


@pytest.mark.parametrize("failure", [None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
async def test_of_topics_that_are_named_twice_none_is_deleted_and_the_others_are(failure: ErrorCode | None) -> None:
    ids = [topic_id(n) for n in (1, 2)]
    gone = [pb.TopicDeleted(name="b", topic_id=topic_id(3)), pb.TopicDeleted(topic_id=topic_id(2))]
    backend = AsksController(pb.DeleteTopicsResponse(topics=gone) if failure is None else OttlaError(failure, "no"))
    backend.replicas = SimpleNamespace(until=_known)
    state = messages.DeleteTopicsRequest.DeleteTopicState
    topics = [state(name=name) for name in ("a", "b", "a")]
    topics += [state(name=None, topic_id=each) for each in (ids[0], ids[1], ids[0])]
    asked = messages.DeleteTopicsRequest(topics=topics, topic_names=[], timeout_ms=1)
    told = await delete_topics.handle(cast(Any, backend), asked, request_of(6))
    assert (list(backend.requests[0].names), list(backend.requests[0].topic_ids)) == (["b"], [topic_id(2)])
    twice, others = told.responses[:2], told.responses[2:]
    assert [(t.name, t.topic_id) for t in twice] == [("a", bytes(16)), (None, ids[0])]
    assert {t.error_code for t in twice} == {ErrorCode.INVALID_REQUEST}
    assert [t.error_code for t in others] == [failure or 0] * 2
    assert encode(told, 6)


@pytest.mark.story("repeated-resources-all-described")
@pytest.mark.parametrize("name", ["AlterConfigs", "IncrementalAlterConfigs"])
async def test_of_resources_that_are_named_twice_none_is_altered_and_the_others_are(name: str) -> None:
    handler, version, _, results = REQUESTS[name]
    described = pb.DescribeConfigsResponse(resources=[pb.ConfigsDescribed()] * 2)  # its own, and the cluster's
    altered = pb.AlterConfigsResponse(resources=[pb.ConfigsAlterResult()])
    backend = AsksController(*([described] if name == "AlterConfigs" else []), altered)
    api = getattr(messages, f"{name}Request")
    resources = [api.AlterConfigsResource(resource_type=TOPIC, resource_name=n, configs=[]) for n in ("a", "b", "a")]
    told = results(await handler(backend, api(resources=resources, validate_only=False), request_of(version)))
    assert [r.resource.name for r in backend.requests[-1].resources] == ["b"]
    assert all(len(request.resources) <= 2 for request in backend.requests), "nobody looks at what is refused"
    assert [r.error_code for r in told] == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


async def _known(condition: object, *, timeout: float) -> None:
    """At once."""


# ---- topics that are created because they are named ------------------------------------------------------------------


async def test_a_topic_that_is_created_or_there_by_now_is_waited_for_and_a_refusal_is_told() -> None:
    codes = {"made": 0, "there": ErrorCode.TOPIC_ALREADY_EXISTS, "no": ErrorCode.INVALID_REPLICATION_FACTOR}
    told = [pb.TopicCreated(name=name, error=Error(code=code)) for name, code in codes.items()]
    backend, waited = AsksController(pb.CreateTopicsResponse(topics=told)), []

    async def until(condition: Callable[[ClusterImage], bool], *, timeout: float) -> None:
        waited.append(condition)

    backend.replicas = SimpleNamespace(until=until)
    refused = await auto_topics.create(cast(Any, backend), list(codes), ALICE)
    assert refused == {"no": ErrorCode.INVALID_REPLICATION_FACTOR}
    assert backend.principals == [ALICE]
    assert {(t.partitions, t.replication_factor) for t in backend.requests[0].topics} == {(-1, -1)}
    (condition,) = waited
    there = with_topic(with_topic(image_of(1), "made", number=1), "there", number=2)
    assert (condition(with_topic(image_of(1), "made")), condition(there)) == (False, True)


def test_the_services_own_topics_come_from_the_services_and_illegal_names_from_nobody() -> None:
    kind = MetadataRequest.MetadataRequestTopic
    names = ("__consumer_offsets", "not legal", "t", "new", "new")
    asked = MetadataRequest(topics=[kind(name=name) for name in names], allow_auto_topic_creation=True)
    assert auto_topics.to_create(with_topic(image_of(1), "t"), asked, 12) == ["new"]


def test_one_request_creates_100_topics_at_most() -> None:
    kind = MetadataRequest.MetadataRequestTopic
    topics = [kind(name=f"t-{n}") for n in range(130)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    assert auto_topics.to_create(image_of(1), request, 12) == [f"t-{n}" for n in range(100)]


async def test_where_no_controller_answers_the_client_is_to_ask_again() -> None:
    backend = AsksController(OttlaError(ErrorCode.REQUEST_TIMED_OUT, "etcd is away"))
    assert await auto_topics.create(cast(Any, backend), ["t"], ALICE) == {}


# ---- configs of brokers --------------------------------------------------------------------------------------------


async def test_a_broker_tells_of_itself_and_of_the_cluster_and_of_no_other_broker() -> None:
    response = pb.DescribeConfigsResponse(resources=[pb.ConfigsDescribed()] * 3)
    backend = AsksController(response)
    kind = messages.DescribeConfigsRequest.DescribeConfigsResource
    names = ("1", "0", "", "zero")
    resources = [kind(resource_type=BROKER, resource_name=name, configuration_keys=None) for name in names]
    asked = messages.DescribeConfigsRequest(resources=resources)
    told = (await describe_configs.handle(cast(Any, backend), asked, request_of(4))).results
    assert [(r.resource_name, r.error_code) for r in told] == [
        ("1", ErrorCode.INVALID_REQUEST),
        ("0", 0),
        ("", 0),
        ("zero", ErrorCode.INVALID_REQUEST),
    ]
    assert (told[0].error_message or "").startswith("Unexpected broker id, expected 0 or empty string, but received 1")
    assert [r.name for r in backend.requests[0].resources] == ["0", "", ""], "and the cluster's for synonyms"


@pytest.mark.timeout(10)
async def test_topics_named_twice_are_rejected_within_seconds() -> None:
    backend: Any = AsksController(pb.DeleteTopicsResponse())
    names = [f"t{n}" for n in range(49_000)]
    request = messages.DeleteTopicsRequest(topics=[], topic_names=names * 2, timeout_ms=1)
    answer = await delete_topics.handle(backend, request, request_of(5))
    assert [(each.name, each.error_code) for each in answer.responses] == [
        (n, ErrorCode.INVALID_REQUEST) for n in names
    ]
