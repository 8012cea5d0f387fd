"""Offsets that are committed in a transaction, in every version that the clients know."""

from __future__ import annotations

import pytest
from exchanged import meaning, sent

from ottla.client.committed_offsets import Failures, Transaction, commit_in_transaction
from ottla.client.kafka.apis import TXN_OFFSET_COMMIT
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.offsets import OffsetAndMetadata, Offsets
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.membership import MemberIdentity
from ottla.machines.transaction import Assigned, ProducerEpoch
from ottla_core.kafka.messages import TxnOffsetCommitResponse
from ottla_core.model import TopicPartition

ID_A, ID_B = b"a" * 16, b"b" * 16
A0, B0, B1 = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("b", 1)
OFFSETS: Offsets = {
    B1: OffsetAndMetadata(5, "x", leader_epoch=0, topic_id=ID_B),
    A0: OffsetAndMetadata(6, topic_id=ID_A),
    B0: OffsetAndMetadata(7, topic_id=ID_B),
}
NEWEST = TXN_OFFSET_COMMIT.versions[-1]

_Topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
_Partition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


def commit(offsets: Offsets, instance_id: str | None = None) -> Exchange[Failures]:
    names = TopicNames()
    names.learn(ID_A, "a")
    names.learn(ID_B, "b")
    transaction = Transaction("tx", Assigned(ProducerEpoch(2**40, 7)))
    return commit_in_transaction("g", MemberIdentity("m", 4, instance_id), offsets, names, transaction)


def response(version: int, *codes: tuple[TopicPartition, int], message: str = "") -> TxnOffsetCommitResponse:
    ids = {"a": ID_A, "b": ID_B}
    topics = [
        _Topic(
            name="" if version >= 6 else at.topic,
            topic_id=ids[at.topic] if version >= 6 else bytes(16),
            partitions=[_Partition(partition_index=at.partition, error_code=code, error_message=message)],
        )
        for at, code in codes
    ]
    return TxnOffsetCommitResponse(topics=topics)


@pytest.mark.parametrize("version", TXN_OFFSET_COMMIT.versions)
@pytest.mark.parametrize("instance_id", [None, "me"])
def test_a_commit_names_producer_group_and_member(version: int, instance_id: str | None) -> None:
    request = sent(commit(OFFSETS, instance_id), version)
    assert (request.transactional_id, request.group_id) == ("tx", "g")
    assert (request.producer_id, request.producer_epoch) == (2**40, 7)
    member = request.member_id, request.generation_id_or_member_epoch, request.group_instance_id
    assert member == ("m", 4, instance_id)
    a, b = (ID_A, ID_B) if version >= 6 else ("a", "b")
    assert {
        (topic.topic_id if version >= 6 else topic.name, p.partition_index): (
            *(p.committed_offset, p.committed_leader_epoch, p.committed_metadata),
        )
        for topic in request.topics
        for p in topic.partitions
    } == {(b, 1): (5, 0, "x"), (a, 0): (6, -1, ""), (b, 0): (7, -1, "")}


@pytest.mark.parametrize("version", TXN_OFFSET_COMMIT.versions)
def test_offsets_that_were_not_committed_are_failures(version: int) -> None:
    too_large = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    failures = meaning(commit(OFFSETS), response(version, (B1, 0), (B0, too_large), message="why"), version)
    assert {at: error.code for at, error in failures.items()} == {B0: too_large, A0: ErrorCode.NETWORK_EXCEPTION}
    assert failures[B0].message == "why"
    assert "lacks a-0" in failures[A0].message


@pytest.mark.parametrize("code", [51, 90, 47, 120, 67])
def test_an_error_about_the_producer_is_a_failure_with_its_own_code(code: int) -> None:
    """A group's coordinator knows epochs only from the log, as a leader does. So it can't say who has raised one."""
    failures = meaning(commit(OFFSETS), response(NEWEST, *((at, code) for at in OFFSETS)), NEWEST)
    assert {at: error.code for at, error in failures.items()} == dict.fromkeys(OFFSETS, code)


@pytest.mark.parametrize("version", TXN_OFFSET_COMMIT.versions)
@pytest.mark.parametrize("code", [14, 15, 16, 22, 24, 25, 27, 69, 82])
def test_an_error_about_the_group_is_raised(version: int, code: int) -> None:
    with pytest.raises(OttlaError, match="why") as caught:
        meaning(commit(OFFSETS), response(version, *((at, code) for at in OFFSETS), message="why"), version)
    assert caught.value.code == code


@pytest.mark.parametrize(("topic_id", "newest"), [(ID_B, 6), (None, 5), (b"", 5)])
def test_topics_are_named_by_their_ids_if_all_ids_are_known(topic_id: bytes | None, newest: int) -> None:
    offsets = {A0: OffsetAndMetadata(6, topic_id=ID_A), B0: OffsetAndMetadata(7, topic_id=topic_id)}
    assert commit(offsets).api.versions[-1] == newest
