"""Topics that a request names in Kafka's messages, and whose ids its response gets."""

from __future__ import annotations

import pytest

from ottla.client.kafka.translations import topic_names
from ottla.client.kafka.translations.named_topics import NamedTopics
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.errors import ErrorCode, OttlaError
from ottla_proto.broker_pb2 import PartitionOfLog

ID_A, ID_B = b"a" * 16, b"b" * 16


def names() -> TopicNames:
    known = TopicNames()
    known.learn(ID_A, "a")
    known.learn(ID_B, "b")
    return known


def test_parts_are_grouped_by_names_and_found_again_by_ids() -> None:
    topics = NamedTopics()
    parts = [PartitionOfLog(topic_id=topic_id, partition=n) for topic_id, n in ((ID_A, 0), (ID_B, 1), (ID_A, 2))]
    assert topics.group(parts, lambda part: part.partition, names()) == {"a": [0, 2], "b": [1]}
    response = [("b", [1]), ("not requested", [7]), ("a", [2, 0])]
    assert list(topics.with_ids(response)) == [(ID_B, 1), (ID_A, 2), (ID_A, 0)]


def test_a_topic_without_a_known_name_is_an_error() -> None:
    with pytest.raises(OttlaError) as caught:
        NamedTopics().group([PartitionOfLog(topic_id=b"x" * 16)], lambda part: part.partition, names())
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_of_too_many_names_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_names, "_MOST", 3)
    names = TopicNames()
    for number in range(1, 6):
        names.learn(bytes([number]) * 16, f"t{number}")
    assert [names.id_of(f"t{number}")[0] for number in range(1, 6)] == [0, 0, 3, 4, 5]
    assert names.name_of(bytes([3]) * 16) == "t3"
    with pytest.raises(OttlaError, match="no topic with the id"):
        names.name_of(bytes([2]) * 16)
