"""Looking up offsets: the request, and responses that have other partitions than the request."""

from __future__ import annotations

from typing import Any, cast

import pytest
from exchanged import TIMEOUT_MS, meaning, sent

from ottla.client.kafka.apis import LIST_OFFSETS
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.list_offsets import OffsetAndTimestamp, list_offsets, search
from ottla.errors import ConnectError, ErrorCode, OttlaError
from ottla.machines.metadata import BrokerView, ClusterView, PartitionView, Route, TopicView, build_view
from ottla_core.clock import ManualClock
from ottla_core.kafka.messages import ListOffsetsResponse
from ottla_core.model import PartitionId, TopicId, TopicPartition

ID, ID_B = TopicId(b"t" * 16), TopicId(b"b" * 16)
PARTITION = TopicPartition("t", 0)
ERROR_WORDS_FROM = 6
"""From this version on a broker of ottla can add the message of an error."""

Topic = ListOffsetsResponse.ListOffsetsTopicResponse
Partition = ListOffsetsResponse.ListOffsetsPartitionResponse


def known() -> TopicNames:
    names = TopicNames()
    names.learn(ID, "t")
    names.learn(ID_B, "b")
    return names


# ---- one leader ------------------------------------------------------------------------------------------------------


def asked_of_one_leader(names: TopicNames, *, read_committed: bool = True) -> Exchange[Any]:
    timestamps = {PARTITION: -1, TopicPartition("b", 1): 1700, TopicPartition("t", 2): -2, TopicPartition("b", 3): -4}
    ids = {"t": ID, "b": ID_B}
    routes = {
        at: Route(PartitionId(ids[at.topic], at.partition), "a:1", epoch)
        for epoch, at in enumerate(timestamps, start=3)
    }
    return search(names, routes, timestamps, read_committed=read_committed)


@pytest.mark.parametrize("version", LIST_OFFSETS.versions)
@pytest.mark.parametrize("read_committed", [True, False])
def test_each_topic_is_named_once_with_its_timestamps_and_epochs(version: int, read_committed: bool) -> None:
    request = sent(asked_of_one_leader(known(), read_committed=read_committed), version)
    assert (request.replica_id, request.isolation_level) == (-1, int(read_committed))
    assert request.timeout_ms == (TIMEOUT_MS if version >= 10 else 0)
    parts = {topic.name: [(p.partition_index, p.timestamp) for p in topic.partitions] for topic in request.topics}
    assert parts == {"t": [(0, -1), (2, -2)], "b": [(1, 1700), (3, -4 if version >= 8 else -2)]}
    epochs = [part.current_leader_epoch for topic in request.topics for part in topic.partitions]
    assert epochs == ([3, 5, 4, 6] if version >= 4 else [-1] * 4)


@pytest.mark.parametrize("version", LIST_OFFSETS.versions)
def test_each_partition_has_an_offset_none_or_an_error_whatever_the_client_knows_by_then(version: int) -> None:
    names = known()
    asked = asked_of_one_leader(names)
    names.forget("b")
    words = "moved" if version >= ERROR_WORDS_FROM else ""
    parts = [
        ("t", Partition(partition_index=0, offset=9, timestamp=5)),
        ("b", Partition(partition_index=1, offset=-1, timestamp=-1)),
        ("b", Partition(partition_index=3, error_code=6, error_message="moved")),
        ("unasked", Partition(partition_index=0, offset=9)),
        ("t", Partition(partition_index=3, offset=9)),
    ]
    response = ListOffsetsResponse(topics=[Topic(name=name, partitions=[part]) for name, part in parts])
    found = meaning(asked, response, version)
    errors = {at: (each.code, each.message) for at, each in found.items() if isinstance(each, OttlaError)}
    lacking = (ErrorCode.NETWORK_EXCEPTION, "the response to ListOffsets lacks it")
    assert errors == {TopicPartition("b", 3): (6, words), TopicPartition("t", 2): lacking}
    offsets = {at: each for at, each in found.items() if at not in errors}
    assert offsets == {PARTITION: OffsetAndTimestamp(9, 5), TopicPartition("b", 1): None}


def test_a_topic_that_was_recreated_while_the_request_waited_does_not_answer_for_the_former_one() -> None:
    names = known()
    asked = asked_of_one_leader(names)
    names.learn(b"n" * 16, "b")
    with pytest.raises(OttlaError) as caught:
        sent(asked, 10)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_topic_whose_name_is_unknown_can_not_be_looked_up() -> None:
    names = known()
    names.forget("b")
    with pytest.raises(OttlaError) as caught:
        sent(asked_of_one_leader(names), 10)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID


# ---- all leaders -----------------------------------------------------------------------------------------------------


def offset(topic: str = "t", partition: int = 0) -> Topic:
    return Topic(name=topic, partitions=[Partition(partition_index=partition, offset=7, timestamp=9)])


class Cluster:
    """Answers with each of the responses in turn, and then with the last one."""

    def __init__(self, *responses: list[Topic]) -> None:
        self.clock = ManualClock()
        self.names = known()
        self.responses = list(responses)
        self.calls = 0

    def fetch_metadata(self, *_: Any, **__: Any) -> ClusterView:
        topic = TopicView("t", ID, (PartitionView(0, 3),))
        return build_view("c", (-1, ""), [BrokerView(0, "a:1")], [topic])

    def exchange(self, address: str, asked: Exchange[Any], *, timeout: float) -> Any:
        self.calls += 1
        assert self.calls < 1000, "it asks for ever"
        response = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        return meaning(asked, ListOffsetsResponse(topics=response), LIST_OFFSETS.versions[-1])

    def wait(self, timeout: float) -> None:
        self.clock.advance(timeout)


def looked_up(cluster: Cluster) -> OffsetAndTimestamp | None:
    return list_offsets(cast(Any, cluster), {PARTITION: -1}, timeout=5.0)[PARTITION]


@pytest.mark.story("deleted-topic-stops-a-member")
def test_partitions_that_do_not_exist_keep_no_other_from_being_found() -> None:
    cluster = Cluster([offset()])
    missing = {TopicPartition("deleted", 0), TopicPartition("t", 1)}
    offline: set[TopicPartition] = set()
    wanted = dict.fromkeys({PARTITION, *missing}, -1)
    found = list_offsets(cast(Any, cluster), wanted, timeout=5.0, offline=offline, skips_missing=True)
    assert (list(found), offline) == ([PARTITION], missing)
    assert cluster.clock.monotonic() == Cluster().clock.monotonic(), "nothing was waited for"
    with pytest.raises(OttlaError, match=r"does not exist|has no partition"):
        list_offsets(cast(Any, cluster), wanted, timeout=5.0, offline=set())


def test_partitions_that_nobody_has_asked_for_are_ignored() -> None:
    cluster = Cluster([offset(partition=-1), offset(topic="u"), offset(), offset(partition=1)])
    assert looked_up(cluster) == OffsetAndTimestamp(7, 9)
    assert (cluster.calls, cluster.clock.monotonic()) == (1, 0)


def test_a_partition_that_a_response_lacks_is_asked_for_again_after_a_pause() -> None:
    cluster = Cluster([], [offset()])
    assert looked_up(cluster) == OffsetAndTimestamp(7, 9)
    assert (cluster.calls, cluster.clock.monotonic() > 0) == (2, True)


def test_a_partition_that_every_response_lacks_is_an_error_in_time() -> None:
    cluster = Cluster([offset(partition=1)])
    with pytest.raises(ConnectError, match="t-0: the response to ListOffsets lacks it"):
        looked_up(cluster)
    assert cluster.clock.monotonic() <= 5.0
