"""What newer messages of Kafka's say of brokers and partitions, and what brokers of ottla add to them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from exchanged import meaning, sent
from images import image_of

import ottla
from ottla.client.cluster import ClusterClient
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka_descriptions import (
    DescribedBroker,
    DescribedCluster,
    EligibleLeaders,
    describe_cluster,
    eligible_leaders,
)
from ottla.errors import ErrorCode, OttlaError
from ottla_broker.kafka.handlers import describe_cluster as handler
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_core.clock import SystemClock
from ottla_core.cluster.image import Broker, Controller
from ottla_core.host_port import HostPort
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsResponse,
)
from ottla_core.model import TopicPartition

_Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
_Cursor = DescribeTopicPartitionsResponse.Cursor


class OneBroker:
    """A transport to a broker that answers a call from a list, or raises an error. `asked` has the requests."""

    def __init__(self, *answers: Message | OttlaError, private: bool = True) -> None:
        self.asked: list[Any] = []
        self._answers: Final = list(answers)
        self._private: Final = private

    def __call__(self, address: str) -> Any:
        return self

    def exchange(self, asked: Exchange[Any], *, timeout: float) -> Any:
        version = asked.api.versions[-1]
        self.asked.append(sent(asked, version))
        answer = self._answers.pop(0)
        if isinstance(answer, OttlaError):
            raise answer
        return meaning(asked, answer, version, private=self._private)

    def close(self) -> None:
        pass


def client_of(broker: OneBroker) -> ClusterClient:
    return ClusterClient(["b0:1"], cast(Any, broker))


# ---- the cluster -----------------------------------------------------------------------------------------------------


LIVE = Broker(0, 7, "d0", "b0:9650", "b0:9092", {"IN": "b0:9092", "OUT": "o0:9093"}, "r0", fenced=False, read_only=True)
FENCED = Broker(1, 8, "d1", "b1:9650", "b1:9092", fenced=True)


class Addresses:
    def advertised(self, broker: Broker, caller: Caller) -> HostPort:
        return HostPort.parse(broker.kafka_listeners.get("OUT", broker.kafka_address))


def response_of(controller: Controller | None) -> DescribeClusterResponse:
    image = replace(image_of(0), brokers={0: LIVE, 1: FENCED}, controller=controller)
    backend = SimpleNamespace(image=image, node_id=0, addresses=Addresses())
    context = KafkaContext(2, 1, "me", cast(Any, None), Caller("10.0.0.2", ""))
    return handler.handle(cast(Any, backend), DescribeClusterRequest(include_fenced_brokers=True), context)


def test_a_broker_of_ottla_says_all_that_it_knows_of_brokers_and_of_the_controller() -> None:
    broker = OneBroker(response_of(Controller(5, "c5:9660", 33)))
    found = describe_cluster(client_of(broker), timeout=1.0)
    assert broker.asked == [DescribeClusterRequest(include_fenced_brokers=True)]
    listeners = {"IN": "b0:9092", "OUT": "o0:9093"}
    live = DescribedBroker(0, "o0:9093", "r0", False, "b0:9092", listeners, epoch=7, is_read_only=True)
    fenced = DescribedBroker(1, "b1:9092", "", is_fenced=True, first_listener="b1:9092", epoch=8)
    assert found == DescribedCluster(image_of(0).cluster_id, [live, fenced], 5, "c5:9660", 33)


def test_no_controller_is_named_while_none_is_elected() -> None:
    found = describe_cluster(client_of(OneBroker(response_of(None))), timeout=1.0)
    assert found is not None
    assert (found.controller_id, found.controller_address, found.controller_epoch) == (-1, "", -1)


def test_a_broker_of_kafka_is_the_controller_that_it_names() -> None:
    response = response_of(Controller(5, "c5:9660", 33))
    found = describe_cluster(client_of(OneBroker(response, private=False)), timeout=1.0)
    live = DescribedBroker(0, "o0:9093", "r0", first_listener="o0:9093")
    fenced = DescribedBroker(1, "b1:9092", "", is_fenced=True, first_listener="b1:9092")
    assert found == DescribedCluster(image_of(0).cluster_id, [live, fenced], 0, "o0:9093", -1)


def test_a_broker_that_can_not_describe_the_cluster_is_no_error() -> None:
    unsupported = OttlaError(ErrorCode.UNSUPPORTED_VERSION, "too old")
    assert describe_cluster(client_of(OneBroker(unsupported)), timeout=1.0) is None


def test_an_error_of_the_broker_is_raised() -> None:
    response = DescribeClusterResponse(error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), error_message="go away")
    with pytest.raises(OttlaError, match="go away") as caught:
        describe_cluster(client_of(OneBroker(response)), timeout=1.0)
    assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Clock(SystemClock):
    """A clock that `now` sets."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


class EndlessBroker(OneBroker):
    """A broker that always names another page. Each takes 0.3 s."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(*[page("a", then=("a", 0))] * 20)
        self._clock: Final = clock

    def exchange(self, asked: Exchange[Any], *, timeout: float) -> Any:
        self._clock.now += 0.3
        return super().exchange(asked, timeout=timeout)


# ---- eligible leaders ------------------------------------------------------------------------------------------------


def page(topic: str, *partitions: _Partition, then: tuple[str, int] | None = None) -> DescribeTopicPartitionsResponse:
    cursor = None if then is None else _Cursor(topic_name=then[0], partition_index=then[1])
    return DescribeTopicPartitionsResponse(topics=[_Topic(name=topic, partitions=partitions)], next_cursor=cursor)


def test_all_pages_are_read() -> None:
    first = page(
        "a",
        _Partition(partition_index=0, eligible_leader_replicas=[], last_known_elr=[]),
        _Partition(partition_index=1, eligible_leader_replicas=[2, 0], last_known_elr=[]),
        then=("b", 3),
    )
    last = page("b", _Partition(partition_index=3, eligible_leader_replicas=None, last_known_elr=[1]))
    broker = OneBroker(first, last)
    assert eligible_leaders(client_of(broker), ["b", "a"], timeout=1.0) == {
        TopicPartition("a", 1): EligibleLeaders((2, 0), ()),
        TopicPartition("b", 3): EligibleLeaders((), (1,)),
    }
    assert [[topic.name for topic in request.topics] for request in broker.asked] == [["a", "b"]] * 2
    assert broker.asked[0].cursor is None
    assert (broker.asked[1].cursor.topic_name, broker.asked[1].cursor.partition_index) == ("b", 3)


def test_pages_without_end_are_read_until_the_timeout() -> None:
    clock = Clock()
    broker = EndlessBroker(clock)
    client = ClusterClient(["b0:1"], cast(Any, broker), clock=clock)
    with pytest.raises(ottla.TimeoutError, match="no more topics within 1 s"):
        eligible_leaders(client, ["a"], timeout=1.0)
    assert len(broker.asked) == 4


def test_a_broker_that_knows_no_eligible_leaders_is_no_error() -> None:
    unsupported = OttlaError(ErrorCode.UNSUPPORTED_VERSION, "too old")
    assert eligible_leaders(client_of(OneBroker(unsupported)), ["a"], timeout=1.0) == {}
