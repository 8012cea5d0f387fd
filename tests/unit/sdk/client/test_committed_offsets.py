"""Commits and fetches of offsets in Kafka's messages, in every version that the clients know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from exchanged import meaning, sent

from ottla.client import committed_offsets
from ottla.client.committed_offsets import Failures, Transaction
from ottla.client.kafka.apis import OFFSET_COMMIT, OFFSET_FETCH, OTTLA_CALL, TXN_OFFSET_COMMIT
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.offsets import OffsetAndMetadata, Offsets
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.membership import MemberIdentity
from ottla.machines.transaction import Assigned, ProducerEpoch
from ottla_core.kafka.messages import OffsetCommitResponse, OffsetFetchResponse, TxnOffsetCommitResponse
from ottla_core.kafka.private_messages import OttlaCallResponse
from ottla_core.model import TopicPartition
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Group

ID_A, ID_B = b"a" * 16, b"b" * 16
NO_ID = bytes(16)
A0, A2, B0 = TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 0)
STATIC = MemberIdentity("m2", 4, "i2")
OFFSETS = {
    A0: OffsetAndMetadata(5, "note", 0, ID_A),
    B0: OffsetAndMetadata(6, topic_id=ID_B),
    A2: OffsetAndMetadata(7, "", 3, ID_A),
}
PRODUCER = ProducerEpoch(2**40, 7)

Commit = Callable[[Offsets, TopicNames], Exchange[Failures]]


def names_of(**ids: bytes) -> TopicNames:
    names = TopicNames()
    for name, topic_id in ids.items():
        names.learn(topic_id, name)
    return names


def commit(offsets: Offsets, names: TopicNames, member: MemberIdentity = STATIC) -> Exchange[Failures]:
    return committed_offsets.commit("g", member, offsets, names)


def commit_in_transaction(
    offsets: Offsets, names: TopicNames, member: MemberIdentity = STATIC, version: int = TRANSACTIONS_V2
) -> Exchange[Failures]:
    transaction = Transaction("tx", Assigned(PRODUCER, version))
    return committed_offsets.commit_in_transaction("g", member, offsets, names, transaction)


IN_EVERY_VERSION = pytest.mark.parametrize(
    ("committed", "version", "by_id"),
    [(commit, version, version >= 10) for version in OFFSET_COMMIT.versions]
    + [(commit_in_transaction, version, version >= 6) for version in TXN_OFFSET_COMMIT.versions],
)
BOTH = pytest.mark.parametrize("committed", [commit, commit_in_transaction])


def responded(asked: Exchange[Failures], by_id: bool, *codes: tuple[TopicPartition, int]) -> Any:
    """Return a response with these codes."""
    response: Any = OffsetCommitResponse if asked.api.name == OFFSET_COMMIT.name else TxnOffsetCommitResponse
    topic = getattr(response, f"{response.__name__}Topic")
    partition = getattr(response, f"{response.__name__}Partition")
    topics = []
    for at, code in codes:
        named = {"topic_id": at.topic.encode() * 16} if by_id else {"name": at.topic}
        topics.append(topic(**named, partitions=[partition(partition_index=at.partition, error_code=code)]))
    return response(topics=topics)


# ---- commits -----------------------------------------------------------------------------------------------------


@IN_EVERY_VERSION
@pytest.mark.parametrize("member", [STATIC, MemberIdentity("m1", 5)])
def test_a_commit_names_topics_by_their_ids_if_the_version_has_them(
    committed: Any, version: int, by_id: bool, member: MemberIdentity
) -> None:
    request = sent(committed(OFFSETS, TopicNames(), member), version)
    assert (request.group_id, request.member_id) == ("g", member.member_id)
    assert (request.group_instance_id, request.generation_id_or_member_epoch) == (member.instance_id, member.generation)
    names = [(topic.name, topic.topic_id) for topic in request.topics]
    assert names == ([("", ID_A), ("", ID_B)] if by_id else [("a", NO_ID), ("b", NO_ID)])
    assert [
        [(p.partition_index, p.committed_offset, p.committed_leader_epoch, p.committed_metadata) for p in t.partitions]
        for t in request.topics
    ] == [[(0, 5, 0, "note"), (2, 7, 3, "")], [(0, 6, -1, "")]]


@pytest.mark.parametrize("version", OFFSET_COMMIT.versions)
def test_a_commit_leaves_its_retention_to_the_cluster(version: int) -> None:
    assert sent(commit(OFFSETS, TopicNames()), version).retention_time_ms == -1


@pytest.mark.parametrize("version", TXN_OFFSET_COMMIT.versions)
def test_a_commit_in_a_transaction_names_its_producer(version: int) -> None:
    request = sent(commit_in_transaction(OFFSETS, TopicNames()), version)
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("tx", 2**40, 7)


@pytest.mark.parametrize(("version", "first", "last"), [(TRANSACTIONS_V1, 3, 4), (TRANSACTIONS_V2, 3, 6)])
def test_a_commit_in_a_transaction_has_the_versions_that_suit_it(version: int, first: int, last: int) -> None:
    versions = commit_in_transaction(OFFSETS, TopicNames(), version=version).api.versions
    assert (versions[0], versions[-1]) == (first, last)


@pytest.mark.parametrize(("committed", "last"), [(commit, 9), (commit_in_transaction, 5)])
@pytest.mark.parametrize("unknown", [None, b""])
def test_a_topic_without_a_known_id_is_named(committed: Commit, last: int, unknown: bytes | None) -> None:
    asked = committed(OFFSETS | {B0: OffsetAndMetadata(6, topic_id=unknown)}, names_of(a=ID_A, b=ID_B))
    assert asked.api.versions[-1] == last
    assert [topic.name for topic in sent(asked, last).topics] == ["a", "b"]


@IN_EVERY_VERSION
def test_each_offset_that_was_not_committed_has_an_error(committed: Commit, version: int, by_id: bool) -> None:
    asked = committed(OFFSETS, TopicNames())
    never_asked = TopicPartition("a", 9), 3
    failures = meaning(asked, responded(asked, by_id, (A0, 0), (A2, 12), never_asked, (B0, 29)), version)
    assert {at: error.code for at, error in failures.items()} == {
        A2: ErrorCode.OFFSET_METADATA_TOO_LARGE,
        B0: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }


@IN_EVERY_VERSION
def test_an_offset_that_the_response_lacks_is_not_committed(committed: Commit, version: int, by_id: bool) -> None:
    asked = committed(OFFSETS, names_of(a=ID_A))
    ((at, error),) = meaning(asked, responded(asked, by_id, (A0, 0), (B0, 0)), version).items()
    assert (at, error.code) == (A2, ErrorCode.NETWORK_EXCEPTION)
    assert f"the response to {asked.api.name} lacks a-2" in error.message


@IN_EVERY_VERSION
def test_a_response_without_any_of_the_offsets_is_an_error(committed: Commit, version: int, by_id: bool) -> None:
    asked = committed(OFFSETS, names_of(a=ID_A))
    with pytest.raises(OttlaError, match="lacks a-0") as raised:
        meaning(asked, responded(asked, by_id), version)
    assert raised.value.code == ErrorCode.NETWORK_EXCEPTION


@BOTH
@pytest.mark.parametrize("code", [14, 15, 16, 22, 24, 25, 27, 69, 82])
def test_an_error_about_the_group_is_raised(committed: Commit, code: int) -> None:
    asked = committed(OFFSETS, TopicNames())
    with pytest.raises(OttlaError) as raised:
        meaning(asked, responded(asked, True, (A0, 3), (A2, code), (B0, 0)), asked.api.versions[-1])
    assert raised.value.code == code


@pytest.mark.parametrize("code", [47, 51, 67, 90, 120])
def test_an_error_about_the_producer_keeps_its_code(code: int) -> None:
    """A group's coordinator knows epochs only from the log, as a leader does. So it can't say who has raised one."""
    asked = commit_in_transaction(OFFSETS, TopicNames())
    failures = meaning(asked, responded(asked, True, (A0, code), (A2, code), (B0, code)), 6)
    assert {at: error.code for at, error in failures.items()} == dict.fromkeys(OFFSETS, code)


@pytest.mark.story("commit-into-a-recreated-topic")
@IN_EVERY_VERSION
def test_a_commit_by_name_leaves_out_offsets_of_a_topic_that_was_replaced(
    committed: Commit, version: int, by_id: bool
) -> None:
    asked = committed(OFFSETS, names_of(a=b"n" * 16, b=ID_B))
    request = sent(asked, version)
    if by_id:
        assert [topic.topic_id for topic in request.topics] == [ID_A, ID_B]
        return
    assert [topic.name for topic in request.topics] == ["b"]
    failures = meaning(asked, responded(asked, by_id, (B0, 0)), version)
    assert {at: error.code for at, error in failures.items()} == dict.fromkeys((A0, A2), ErrorCode.UNKNOWN_TOPIC_ID)
    assert "for a former topic named a" in failures[A0].message


def test_a_first_commit_goes_through_the_private_api() -> None:
    asked = committed_offsets.commit_first("g", STATIC, OFFSETS | {B0: OffsetAndMetadata(6)})
    request = sent(asked, 0)
    assert (asked.api.key, request.method) == (OTTLA_CALL.key, Group.COMMIT_OFFSETS.path)
    member = pb.Member(member_id="m2", instance_id="i2")
    assert pb.CommitOffsetsRequest.FromString(request.body) == pb.CommitOffsetsRequest(
        group="g",
        member=member,
        generation=4,
        only_first=True,
        offsets=[
            pb.OffsetToCommit(topic="a", partition=0, offset=5, leader_epoch=0, metadata="note", topic_id=ID_A),
            pb.OffsetToCommit(topic="b", partition=0, offset=6),
            pb.OffsetToCommit(topic="a", partition=2, offset=7, leader_epoch=3, topic_id=ID_A),
        ],
    )
    outcomes = [
        pb.PartitionOutcome(topic="a", partition=0),
        pb.PartitionOutcome(topic="a", partition=2, error=Error(code=12, message="a long note")),
    ]
    response = pb.CommitOffsetsResponse(partitions=outcomes)
    failures = meaning(asked, OttlaCallResponse(body=response.SerializeToString()), 0)
    assert {at: (error.code, error.message) for at, error in failures.items()} == {A2: (12, "a long note")}
    moved = pb.CommitOffsetsResponse(error=Error(code=16, message="moved"))
    with pytest.raises(OttlaError, match="moved"):
        meaning(asked, OttlaCallResponse(body=moved.SerializeToString()), 0)


# ---- fetches -----------------------------------------------------------------------------------------------------


def fetch(*topics: str, names: TopicNames | None = None) -> Exchange[Offsets]:
    known = names_of(a=ID_A, b=ID_B) if names is None else names
    partitions = [TopicPartition(topic, n) for n in (0, 2) for topic in topics]
    return committed_offsets.fetch("g", partitions, known, require_stable=True)


def of_group(request: Any) -> Any:
    return request.groups[0] if request.groups else request


@pytest.mark.parametrize("version", OFFSET_FETCH.versions)
def test_a_fetch_names_topics_by_their_ids_if_the_version_has_them(version: int) -> None:
    asked = fetch("a", "b")
    assert asked.api == OFFSET_FETCH
    request = sent(asked, version)
    assert (request.require_stable, of_group(request).group_id) == (True, "g")
    topics = of_group(request).topics
    named = [topic.topic_id if version >= 10 else topic.name for topic in topics]
    assert named == ([ID_A, ID_B] if version >= 10 else ["a", "b"])
    assert [list(topic.partition_indexes) for topic in topics] == [[0, 2], [0, 2]]


@pytest.mark.parametrize("version", [7, 8, 9])
def test_topics_with_an_unknown_id_and_all_topics_are_fetched_by_name(version: int) -> None:
    unknown = fetch("a", "new")
    of_all = committed_offsets.fetch("g", None, names_of(a=ID_A))
    assert (unknown.api.versions, of_all.api.versions) == (range(7, 10), range(7, 10))
    assert [topic.name for topic in of_group(sent(unknown, version)).topics] == ["a", "new"]
    request = sent(of_all, version)
    assert (of_group(request).group_id, of_group(request).topics, request.require_stable) == ("g", None, False)


def fetched(version: int, *partitions: dict[str, Any], code: int = 0) -> OffsetFetchResponse:
    """Return a response about partitions of the topic a, or one with an error of the group."""
    m = OffsetFetchResponse
    if version < 8:
        old = m.OffsetFetchResponseTopic(name="a", partitions=[m.OffsetFetchResponsePartition(**p) for p in partitions])
        return OffsetFetchResponse(topics=[old] if partitions else [], error_code=code)
    named: dict[str, Any] = {"topic_id": ID_A} if version >= 10 else {"name": "a"}
    topic = m.OffsetFetchResponseTopics(**named, partitions=[m.OffsetFetchResponsePartitions(**p) for p in partitions])
    group = m.OffsetFetchResponseGroup(group_id="g", topics=[topic] if partitions else [], error_code=code)
    return OffsetFetchResponse(groups=[group])


@pytest.mark.parametrize("version", OFFSET_FETCH.versions)
def test_committed_offsets_come_with_their_epoch_and_metadata(version: int) -> None:
    response = fetched(
        version,
        {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 0, "metadata": "note"},
        {"partition_index": 1, "committed_offset": -1, "metadata": None},
        {"partition_index": 2, "committed_offset": 0, "metadata": None},
    )
    topic_id = ID_A if version >= 10 else None
    assert meaning(fetch("a"), response, version) == {
        A0: OffsetAndMetadata(5, "note", 0, topic_id),
        A2: OffsetAndMetadata(0, "", None, topic_id),
    }


@pytest.mark.parametrize("version", OFFSET_FETCH.versions)
def test_an_error_of_a_partition_or_of_the_group_is_raised(version: int) -> None:
    committed = {"partition_index": 0, "committed_offset": 5}
    unstable = {"partition_index": 2, "committed_offset": -1, "error_code": ErrorCode.UNSTABLE_OFFSET_COMMIT}
    for response, code in (
        (fetched(version, committed, unstable), ErrorCode.UNSTABLE_OFFSET_COMMIT),
        (fetched(version, code=16), ErrorCode.NOT_COORDINATOR),
    ):
        with pytest.raises(OttlaError) as raised:
            meaning(fetch("a"), response, version)
        assert raised.value.code == code
