"""Subscriptions and assignments are Kafka's own bytes, both ways."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla_core.model import TopicPartition

OWNED = (TopicPartition("b", 2), TopicPartition("a", 0), TopicPartition("b", 5))
SAID = Subscription(("b", "a"), b"mine", OWNED, generation=7, rack="r1")


def test_what_is_written_is_read() -> None:
    assert decode_subscription(encode_subscription(SAID))._replace(owned=()) == SAID._replace(owned=())
    assert set(decode_subscription(encode_subscription(SAID)).owned) == set(OWNED)
    assert decode_subscription(encode_subscription(Subscription(()))) == Subscription(())
    made = MemberAssignment((TopicPartition("a", 0), TopicPartition("a", 3)), b"data")
    assert decode_assignment(encode_assignment(made)) == made
    assert decode_assignment(b"") == MemberAssignment()


def test_another_clients_codec_reads_the_same() -> None:
    read = ConsumerProtocolSubscription.decode(encode_subscription(SAID))
    assert (read.topics, read.user_data, read.generation_id, read.rack_id) == (["b", "a"], b"mine", 7, "r1")
    assert [(o.topic, o.partitions) for o in read.owned_partitions] == [("b", [2, 5]), ("a", [0])]
    given = ConsumerProtocolAssignment.decode(encode_assignment(MemberAssignment(OWNED)))
    assert [(a.topic, a.partitions) for a in given.assigned_partitions] == [("b", [2, 5]), ("a", [0])]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_every_version_of_another_client_is_read(version: int) -> None:
    owned = ConsumerProtocolSubscription.TopicPartition(topic="a", partitions=[1, 2])
    said = ConsumerProtocolSubscription(
        version=version, topics=["a"], user_data=None, owned_partitions=[owned], generation_id=4, rack_id="r"
    )
    read = decode_subscription(said.encode())
    assert read.topics == ("a",)
    assert read.user_data == b""
    assert read.owned == ((TopicPartition("a", 1), TopicPartition("a", 2)) if version >= 1 else ())
    assert read.generation == (4 if version >= 2 else -1)
    assert read.rack == ("r" if version >= 3 else None)


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    newer = b"\x00\x09" + encode_subscription(SAID)[2:] + b"what only it knows"
    assert decode_subscription(newer).topics == SAID.topics


@pytest.mark.parametrize("cut", range(len(encode_subscription(SAID))))
def test_a_subscription_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(OttlaError) as refused:
        decode_subscription(encode_subscription(SAID)[:cut])
    assert refused.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("data", [b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\x01\xff\xff\0\0\0\0", b"\0"])
def test_lying_lengths_are_refused(data: bytes) -> None:
    with pytest.raises(OttlaError):
        decode_assignment(data)
