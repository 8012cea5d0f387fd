"""OffsetCommit, OffsetFetch and OffsetDelete in every version, by topic names and by topic ids."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from group_backend import TOPIC_ID, GroupBackend, versions
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest

from ottla_broker.kafka.forwarding import coordinator_calls
from ottla_core.errors import ErrorCode
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error

COMMIT, FETCH, DELETE = 8, 9, 47
KNOWN, UNKNOWN = uuid.UUID(bytes=TOPIC_ID), uuid.UUID(int=99)
UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 0.0)


def told_of(answer: Any) -> dict[Any, int]:
    """The errors, by topic name or id and partition."""
    return {(_named(topic), p.partition_index): p.error_code for topic in answer.topics for p in topic.partitions}


def _named(topic: Any) -> Any:
    return topic.topic_id if hasattr(topic, "topic_id") else topic.name


# ---- commit ----------------------------------------------------------------------------------------------------


def commit() -> Any:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    part = topic.OffsetCommitRequestPartition

    def parts(*numbers: int) -> list[Any]:
        return [
            part(partition_index=n, committed_offset=10 + n, committed_leader_epoch=n - 1, committed_metadata="m" * n)
            for n in numbers
        ]

    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=7,
        member_id="m-1",
        group_instance_id="i-1",
        topics=[
            topic(name="t", topic_id=KNOWN, partitions=parts(0, 2, 9)),
            topic(name="u", topic_id=UNKNOWN, partitions=parts(1)),
        ],
    )


def committed(*codes: ErrorCode) -> pb.CommitOffsetsResponse:
    parts = zip((0, 2), codes, strict=True)
    outcomes = [pb.PartitionOutcome(topic="t", partition=n, error=Error(code=code)) for n, code in parts]
    return pb.CommitOffsetsResponse(partitions=outcomes)


@pytest.mark.parametrize("version", versions(COMMIT))
async def test_a_commit_is_passed_on_for_partitions_that_are_there(version: int) -> None:
    backend = GroupBackend(committed(ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE))
    told = await backend.answer(commit(), version)
    (asked,) = backend.asked
    assert asked.group == "g"
    assert asked.generation == 7
    assert asked.member == pb.Member(member_id="m-1", instance_id="i-1" if version >= 7 else None)
    offsets = [(o.topic, o.partition, o.offset, o.metadata) for o in asked.offsets]
    assert offsets == [("t", 0, 10, ""), ("t", 2, 12, "mm")]
    epochs = [o.leader_epoch if o.HasField("leader_epoch") else None for o in asked.offsets]
    assert epochs == ([None, 1] if version >= 6 else [None, None])
    t, u, unknown = (KNOWN, UNKNOWN, ErrorCode.UNKNOWN_TOPIC_ID) if version >= 10 else ("t", "u", UNKNOWN_PARTITION)
    assert told_of(told) == {
        (t, 0): 0,
        (t, 2): ErrorCode.OFFSET_METADATA_TOO_LARGE,
        (t, 9): UNKNOWN_PARTITION,
        (u, 1): unknown,
    }


@pytest.mark.parametrize("version", versions(COMMIT))
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
async def test_what_is_refused_as_a_whole_is_told_of_each_partition(
    version: int, code: ErrorCode, expected: ErrorCode
) -> None:
    told = await GroupBackend(pb.CommitOffsetsResponse(error=Error(code=code))).answer(commit(), version)
    codes = list(told_of(told).values())
    assert codes[:2] == [expected, expected]
    assert len(codes) == 4


@pytest.mark.story("long-metadata-cuts-the-connection")
@pytest.mark.parametrize("version", versions(COMMIT, since=8))
async def test_metadata_that_is_longer_than_any_other_string_is_the_coordinators_to_refuse(version: int) -> None:
    """Whoever is cut off for it sends it again, and hears of no error."""
    asked = commit()
    asked.topics[0].partitions[1].committed_metadata = "m" * 40_000
    backend = GroupBackend(committed(ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE))
    told = await backend.answer(asked, version)
    assert [len(offset.metadata) for offset in backend.asked[0].offsets] == [0, 40_000]
    assert list(told_of(told).values())[:2] == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]


# ---- fetch -----------------------------------------------------------------------------------------------------


def fetch(version: int, **fields: Any) -> Any:
    """Make a fetch of t 0 and 2 and u 1 by default, for one group; from version 8 on, for the groups g and h."""
    if version < 8:
        topic = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [topic(name="t", partition_indexes=[0, 2]), topic(name="u", partition_indexes=[1])]
        return OffsetFetchRequest(**{"group_id": "g", "topics": topics, "require_stable": True, "groups": []} | fields)
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = group.OffsetFetchRequestTopics
    given: Any = {
        "member_id": "m-1",
        "member_epoch": 3,
        "topics": [
            topic(name="t", topic_id=KNOWN, partition_indexes=[0, 2]),
            topic(name="u", topic_id=UNKNOWN, partition_indexes=[1]),
        ],
    } | fields
    return OffsetFetchRequest(groups=[group(group_id=g, **given) for g in "gh"], require_stable=True)


FOUND = pb.FetchOffsetsResponse(
    offsets=[
        pb.CommittedOffset(topic="t", partition=0, offset=12, leader_epoch=3, metadata="here"),
        pb.CommittedOffset(topic="t", partition=2, offset=-1),
        pb.CommittedOffset(topic="u", partition=1, error=Error(code=UNKNOWN_PARTITION), offset=-1),
    ]
)


def groups_of(answer: Any, version: int) -> list[Any]:
    return list(answer.groups) if version >= 8 else [answer]


def offsets_of(group: Any) -> dict[Any, tuple[int, int, str | None]]:
    return {
        (_named(t), p.partition_index): (p.committed_offset, getattr(p, "committed_leader_epoch", -1), p.metadata)
        for t in group.topics
        for p in t.partitions
    }


@pytest.mark.parametrize("version", versions(FETCH))
async def test_offsets_are_fetched(version: int) -> None:
    backend = GroupBackend(FOUND)
    told = groups_of(await backend.answer(fetch(version), version), version)
    assert sorted(asked.group for asked in backend.asked) == (["g", "h"] if version >= 8 else ["g"])
    by_id = version >= 10
    for asked in backend.asked:
        wanted = [(p.topic, p.partition) for p in asked.partitions]
        assert wanted == [("t", 0), ("t", 2), *([] if by_id else [("u", 1)])]
        assert asked.require_stable is (version >= 7)
        assert asked.all is False
        named = (asked.member.member_id, asked.generation) if asked.HasField("member") else None
        assert named == (("m-1", 3) if version >= 9 else None)
    assert [getattr(group, "group_id", "g") for group in told] == (["g", "h"] if version >= 8 else ["g"])
    for group in told:
        offsets, codes = offsets_of(group), told_of(group)
        t, u = (KNOWN, UNKNOWN) if by_id else ("t", "u")
        assert offsets[t, 0] == (12, 3 if version >= 5 else -1, "here")
        assert offsets[t, 2] == (-1, -1, "")
        assert codes[u, 1] == (ErrorCode.UNKNOWN_TOPIC_ID if by_id else UNKNOWN_PARTITION)
        assert (codes[t, 0], codes[t, 2]) == (0, 0)
        assert len(codes) == 3


@pytest.mark.parametrize("version", versions(FETCH, since=2))
async def test_no_topics_are_all_topics(version: int) -> None:
    """From version 10 on a topic that is gone has no name: its offsets are left out."""
    backend = GroupBackend(FOUND)
    told = groups_of(await backend.answer(fetch(version, topics=None), version), version)
    assert all(asked.all and not asked.partitions for asked in backend.asked)
    expected = {(KNOWN, 0), (KNOWN, 2)} if version >= 10 else {("t", 0), ("t", 2), ("u", 1)}
    assert [set(offsets_of(group)) for group in told] == [expected] * len(told)


@pytest.mark.parametrize("version", versions(FETCH, since=2))
async def test_empty_topics_are_none(version: int) -> None:
    backend = GroupBackend(pb.FetchOffsetsResponse())
    told = groups_of(await backend.answer(fetch(version, topics=[]), version), version)
    assert not any(asked.all for asked in backend.asked)
    assert [group.topics for group in told] == [()] * len(told)


@pytest.mark.parametrize("version", versions(FETCH))
async def test_a_group_that_cannot_be_asked_has_an_error(version: int) -> None:
    """Version 1 has a place for it in the partitions alone."""
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    backend = GroupBackend(pb.FetchOffsetsResponse(error=Error(code=code)))
    told = groups_of(await backend.answer(fetch(version), version), version)
    if version == 1:
        assert told_of(told[0]) == {("t", 0): code, ("t", 2): code, ("u", 1): code}
        assert set(offsets_of(told[0]).values()) == {(-1, -1, "")}
    else:
        assert [(group.error_code, group.topics) for group in told] == [(code, ())] * len(told)


@pytest.mark.parametrize("version", versions(FETCH, since=8))
async def test_each_group_has_its_own_outcome(version: int) -> None:
    refused = pb.FetchOffsetsResponse(error=Error(code=ErrorCode.INVALID_GROUP_ID))
    backend = GroupBackend(lambda _, asked: refused if asked.group == "g" else FOUND)
    told = await backend.answer(fetch(version), version)
    assert [(g.group_id, g.error_code) for g in told.groups] == [("g", ErrorCode.INVALID_GROUP_ID), ("h", 0)]


@pytest.mark.story("group-asked-a-thousand-times")
@pytest.mark.parametrize("version", versions(FETCH, since=8))
async def test_a_group_that_is_named_twice_is_asked_for_by_nobody(version: int) -> None:
    """A frame of 300 KB has room for some thousand of them; each is a call, and a large answer."""
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [group(group_id=name, topics=None) for name in ("g", "h", *["g"] * 100)]
    backend = GroupBackend(pb.FetchOffsetsResponse())
    told = await backend.answer(OffsetFetchRequest(groups=groups, require_stable=False), version)
    assert {each.group_id: each.error_code for each in told.groups} == {"g": ErrorCode.INVALID_REQUEST, "h": 0}
    assert [asked.group for asked in backend.asked] == ["h"]


# ---- delete ----------------------------------------------------------------------------------------------------


def delete() -> Any:
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    part = topic.OffsetDeleteRequestPartition
    return OffsetDeleteRequest(
        group_id="g", topics=[topic(name="t", partitions=[part(partition_index=n) for n in (0, 1)])]
    )


async def test_offsets_are_deleted_each_with_its_outcome() -> None:
    subscribed = pb.PartitionOutcome(topic="t", partition=1, error=Error(code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
    done = pb.PartitionOutcome(topic="t", partition=0)
    backend = GroupBackend(pb.DeleteOffsetsResponse(partitions=[done, subscribed]))
    told = await backend.answer(delete(), 0)
    assert told.error_code == 0
    assert told_of(told) == {("t", 0): 0, ("t", 1): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    wanted = [pb.GroupPartition(topic="t", partition=n) for n in (0, 1)]
    assert backend.asked == [pb.DeleteOffsetsRequest(group="g", partitions=wanted)]


@pytest.mark.story("offset-of-nothing-is-deleted")
async def test_an_offset_of_a_partition_that_is_not_there_can_not_be_deleted() -> None:
    """It was told as done. The coordinator is asked still: the group may not be there either."""
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    parts = [topic.OffsetDeleteRequestPartition(partition_index=n) for n in (0, 3, -1)]
    asked = OffsetDeleteRequest(
        group_id="g", topics=[topic(name="t", partitions=parts), topic(name="u", partitions=parts[:1])]
    )
    backend = GroupBackend(pb.DeleteOffsetsResponse(partitions=[pb.PartitionOutcome(topic="t", partition=0)]))
    unknown = dict.fromkeys([("t", 3), ("t", -1), ("u", 0)], UNKNOWN_PARTITION)
    assert told_of(await backend.answer(asked, 0)) == {("t", 0): 0, **unknown}
    assert backend.asked == [pb.DeleteOffsetsRequest(group="g", partitions=[pb.GroupPartition(topic="t", partition=0)])]


async def test_offsets_of_a_group_that_is_not_there() -> None:
    told = await GroupBackend(pb.DeleteOffsetsResponse(error=Error(code=ErrorCode.GROUP_ID_NOT_FOUND))).answer(
        delete(), 0
    )
    assert (told.error_code, told.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, ())
