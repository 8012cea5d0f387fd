"""admin.partitions.elect_leaders: what is asked of the controller, and when it returns."""

from __future__ import annotations

import pytest
from answering import AnsweringBrokers

import ottla
from ottla.client.kafka.apis import ELECT_LEADERS
from ottla.errors import ErrorCode
from ottla_core.kafka.messages import ElectLeadersRequest, ElectLeadersResponse, MetadataResponse

_Result = ElectLeadersResponse.PartitionResult


class Elections(AnsweringBrokers):
    """Brokers b0:1 and b1:1. b1 hears of an election only after `lag` more questions."""

    def __init__(self, *results: tuple[str, _Result], lag: int = 0) -> None:
        super().__init__({ELECT_LEADERS.name: self._elect}, brokers=2)
        self.lag = lag
        self._epoch = 4
        self._results = results

    def metadata(self, address: str) -> MetadataResponse:
        epoch = self._epoch
        if address == "b1:1" and self.requests(ElectLeadersRequest) and self.lag:
            self.lag -= 1
            epoch -= 1
        found = super().metadata(address)
        partition = MetadataResponse.MetadataResponsePartition(
            partition_index=0, leader_id=1, leader_epoch=epoch, replica_nodes=[1, 0], isr_nodes=[0, 1]
        )
        found.topics = [MetadataResponse.MetadataResponseTopic(name="t", topic_id=b"t" * 16, partitions=[partition])]
        return found

    def _elect(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        self._epoch += 1
        of_topic = ElectLeadersResponse.ReplicaElectionResult
        return ElectLeadersResponse(
            replica_election_results=[of_topic(topic=topic, partition_result=[each]) for topic, each in self._results]
        )


def result(partition: int, code: int = 0, *, topic: str = "t") -> tuple[str, _Result]:
    message = "why" if code else None
    return topic, _Result(partition_id=partition, error_code=code, error_message=message)


def admin(cluster: Elections) -> ottla.Admin:
    return ottla.Admin("b0:1", request_timeout=1, _transport=cluster.connect)


@pytest.mark.feature(114)
def test_it_returns_when_every_broker_knows_the_leaders() -> None:
    cluster = Elections(result(0), lag=5)
    assert admin(cluster).partitions.elect_leaders([("t", 0)]) == (ottla.Election("t", 0, 1),)
    assert cluster.lag == 0
    (request,) = cluster.requests(ElectLeadersRequest)
    assert request.election_type == 0
    assert [(topic.topic, topic.partitions) for topic in request.topic_partitions] == [("t", [0])]


def test_brokers_that_do_not_hear_of_it_are_named_at_the_deadline() -> None:
    cluster = Elections(result(0), lag=1_000_000)
    with pytest.raises(
        ottla.TimeoutError, match=r"leaders are elected, but some brokers had not learned of it after 0\.1 s"
    ):
        admin(cluster).partitions.elect_leaders([("t", 0)], timeout=0.1)


@pytest.mark.feature(114)
def test_of_all_partitions_unclean_and_what_went_wrong() -> None:
    results = result(0, ErrorCode.ELECTION_NOT_NEEDED), result(1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    cluster = Elections(*results, lag=1_000_000)
    first, second = admin(cluster).partitions.elect_leaders(unclean=True)
    (request,) = cluster.requests(ElectLeadersRequest)
    assert (request.election_type, request.topic_partitions) == (1, None)
    assert (first.was_needed, second.was_needed, second.leader) == (False, True, -1)
    assert second.error is not None
    assert (second.error.code, second.error.message) == (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "t-1: why")
    assert cluster.lag == 1_000_000, "nobody was elected, so there is nothing to wait for"


def test_a_partition_that_is_gone_meanwhile_is_not_waited_for() -> None:
    cluster = Elections(result(7), result(0, topic="deleted"))
    assert len(admin(cluster).partitions.elect_leaders()) == 2


def test_the_elected_leader_is_looked_up_since_the_response_does_not_name_it() -> None:
    cluster = Elections(result(0), result(0, ErrorCode.ELECTION_NOT_NEEDED))
    first, second = admin(cluster).partitions.elect_leaders()
    assert (first, second.leader) == (ottla.Election("t", 0, 1), -1)
