"""The names and ids of topics that a client has learned."""

from __future__ import annotations

import pytest

from ottla.client.kafka import topic_names
from ottla.client.kafka.topic_names import TopicNames
from ottla.errors import ErrorCode, OttlaError

ID_A, ID_B, ID_C = b"a" * 16, b"b" * 16, b"c" * 16


def names() -> TopicNames:
    known = TopicNames()
    known.learn(ID_A, "a")
    known.learn(ID_B, "b")
    return known


def test_the_name_of_a_recreated_topic_is_no_longer_that_of_the_topic_before_it() -> None:
    known = names()
    known.learn(ID_C, "a")
    assert (known.name_of(ID_C), known.id_of("a")) == ("a", ID_C)
    with pytest.raises(OttlaError) as caught:
        known.name_of(ID_A)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_forgetting_a_name_that_is_unknown_changes_nothing() -> None:
    known = names()
    known.forget("unknown")
    assert (known.id_of("a"), known.id_of("unknown")) == (ID_A, bytes(16))


def test_of_too_many_names_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_names, "_MOST", 3)
    names = TopicNames()
    for number in range(1, 6):
        names.learn(bytes([number]) * 16, f"t{number}")
    assert [names.id_of(f"t{number}")[0] for number in range(1, 6)] == [0, 0, 3, 4, 5]
    assert names.name_of(bytes([3]) * 16) == "t3"
    with pytest.raises(OttlaError, match="no topic with the id"):
        names.name_of(bytes([2]) * 16)


@pytest.mark.story("former-topic-that-came-back")
def test_a_former_topic_is_doubted_until_many_responses_in_a_row_name_it() -> None:
    known = names()
    assert known.learn(ID_C, "a")
    for _ in range(topic_names._MOST_DOUBTS - 1):
        assert not known.learn(ID_A, "a")
    assert known.learn(ID_C, "a"), "a response with the new topic ends the doubts"
    for _ in range(topic_names._MOST_DOUBTS - 1):
        assert not known.learn(ID_A, "a")
        assert (known.id_of("a"), known.name_of(ID_C)) == (ID_C, "a")
    assert known.learn(ID_A, "a"), "perhaps the broker that named the other topic was the one that lagged"
    assert known.id_of("a") == ID_A
    assert not known.learn(ID_C, "a")


def test_a_topic_that_was_deleted_before_its_name_was_taken_is_doubted_too() -> None:
    known = names()
    known.forget("a")
    assert known.learn(ID_C, "a")
    assert not known.learn(ID_A, "a")


def test_a_topic_that_was_replaced_twice_is_doubted_although_the_name_was_forgotten_meanwhile() -> None:
    known = names()
    assert known.learn(ID_C, "a")
    known.forget("a")
    assert not known.learn(ID_A, "a")
    assert known.learn(ID_C, "a")


def test_a_topic_that_some_broker_did_not_know_yet_is_not_doubted() -> None:
    known = names()
    known.forget("a")
    assert known.learn(ID_A, "a")


def test_former_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_names, "_MOST", 3)
    known = TopicNames()
    for number in range(1, 100):
        known.learn(bytes([number]) * 16, "often")
        known.learn(bytes([number]) * 16, f"t{number}")
    assert len(known._former) == 3
    assert max(map(len, known._former.values())) <= topic_names._MOST_FORMER
