"""How a member commits where its group begins, without moving what another member has committed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.condition import Condition
from ottla.client.door import GRPC, KAFKA, Door
from ottla.client.offsets import OffsetAndMetadata
from ottla.consumer.group.commits import Commits
from ottla.machines.membership import MemberIdentity
from ottla_core.clock import SystemClock
from ottla_core.model import TopicPartition
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group, Method

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Coordinator:
    """It has an offset of one partition."""

    group = "g"

    def __init__(self) -> None:
        self.commits: list[pb.CommitOffsetsRequest] = []

    def call(self, method: Method[Any, Any], request: Any, *, timeout: float = 5.0) -> Any:
        if method is Group.FETCH_OFFSETS:
            return pb.FetchOffsetsResponse(
                offsets=[
                    pb.CommittedOffset(topic=p.topic, partition=p.partition, offset=7 if p.partition == 1 else -1)
                    for p in request.partitions
                ]
            )
        self.commits.append(request)
        return pb.CommitOffsetsResponse()


@pytest.mark.parametrize(
    ("door", "expected"), [(GRPC, (True, [(0, 20), (1, 30)])), (KAFKA, (False, [(0, 20)]))], ids=["gRPC", "Kafka"]
)
def test_where_a_group_begins_is_committed_only_where_nothing_is(
    door: Door, expected: tuple[bool, list[tuple[int, int]]]
) -> None:
    member: Any = SimpleNamespace(commits_as=MemberIdentity("m", 3, None))
    cluster: Any = SimpleNamespace(door=door, clock=SystemClock())
    coordinator: Any = Coordinator()
    commits = Commits(member, coordinator, cluster, Condition(), lambda: None, lambda _: {})
    commits.commit_first({A0: OffsetAndMetadata(20), A1: OffsetAndMetadata(30)})
    (request,) = coordinator.commits
    assert (request.only_first, [(o.partition, o.offset) for o in request.offsets]) == expected
    assert (request.member.member_id, request.generation) == ("m", 3)
