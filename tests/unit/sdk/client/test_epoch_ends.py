"""The request for the offsets at which leader epochs end, and what its response means."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from exchanged import meaning, sent

from ottla.client.epoch_ends import EpochEnd, search
from ottla.client.kafka.apis import OFFSET_FOR_LEADER_EPOCH
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.topic_names import TopicNames
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.metadata import Route
from ottla_core.kafka.messages import OffsetForLeaderEpochResponse
from ottla_core.model import PartitionId, TopicId

ID_A, ID_B = TopicId(b"a" * 16), TopicId(b"b" * 16)
A0, A1, B1 = PartitionId(ID_A, 0), PartitionId(ID_A, 1), PartitionId(ID_B, 1)
REPLICA_FROM = 3


def known() -> TopicNames:
    names = TopicNames()
    names.learn(ID_A, "a")
    names.learn(ID_B, "b")
    return names


def asked_of_one_leader(names: TopicNames) -> Exchange[Mapping[PartitionId, EpochEnd]]:
    return search(names, [(Route(A0, "l:1", 5), 4), (Route(B1, "l:1", 8), 6), (Route(A1, "l:1", 7), 2)])


@pytest.mark.parametrize("version", OFFSET_FOR_LEADER_EPOCH.versions)
def test_each_topic_is_named_once_with_the_epochs_of_its_partitions(version: int) -> None:
    request = sent(asked_of_one_leader(known()), version)
    parts = {
        topic.topic: [(p.partition, p.leader_epoch, p.current_leader_epoch) for p in topic.partitions]
        for topic in request.topics
    }
    assert parts == {"a": [(0, 4, 5), (1, 2, 7)], "b": [(1, 6, 8)]}
    assert version < REPLICA_FROM or request.replica_id == -1


@pytest.mark.parametrize("version", OFFSET_FOR_LEADER_EPOCH.versions)
def test_each_partition_has_an_end_or_an_error_whatever_the_client_knows_by_then(version: int) -> None:
    names = known()
    asked = asked_of_one_leader(names)
    sent(asked, version)
    names.forget("a")
    end, topic = OffsetForLeaderEpochResponse.EpochEndOffset, OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    parts = [
        ("b", end(partition=1, error_code=6, leader_epoch=-1, end_offset=-1)),
        ("a", end(partition=0, leader_epoch=4, end_offset=8)),
        ("unasked", end(partition=1, leader_epoch=4, end_offset=9)),
        ("a", end(partition=2, leader_epoch=4, end_offset=9)),
    ]
    response = OffsetForLeaderEpochResponse(topics=[topic(topic=name, partitions=[part]) for name, part in parts])
    found = meaning(asked, response, version)
    assert list(found) == [A0, B1, A1]
    assert found[A0] == EpochEnd(4, 8)
    errors = {at: each.error.code for at, each in found.items() if each.error is not None}
    assert errors == {B1: 6, A1: ErrorCode.NETWORK_EXCEPTION}, "the response lacks the last one"


def test_a_topic_whose_name_is_unknown_can_not_be_looked_up() -> None:
    names = known()
    names.forget("b")
    with pytest.raises(OttlaError) as caught:
        sent(asked_of_one_leader(names), 4)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID
