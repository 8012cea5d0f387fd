"""What a member does with committed offsets where Kafka's protocol differs from our own contract."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.condition import Condition
from ottla.client.offsets import OffsetAndMetadata
from ottla.consumer.group.commits import Commits
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.membership import MemberIdentity
from ottla_core.clock import SystemClock
from ottla_core.model import TopicPartition
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Group, Method

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Coordinator:
    """A coordinator with a committed offset for one partition. Its first answers to FetchOffsets have these errors.
    Like Kafka's, it may be unable to commit only where nothing is committed."""

    group = "g"

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.compares = True
        self.commits: list[pb.CommitOffsetsRequest] = []

    def call(self, method: Method[Any, Any], request: Any, *, timeout: float = 5.0) -> Any:
        if method is Group.FETCH_OFFSETS and self.errors:
            error = Error(code=self.errors.pop(0))
            return pb.FetchOffsetsResponse(offsets=[pb.CommittedOffset(topic="a", error=error)])
        if method is Group.FETCH_OFFSETS:
            return pb.FetchOffsetsResponse(
                offsets=[
                    pb.CommittedOffset(topic=p.topic, partition=p.partition, offset=7 if p.partition == 1 else -1)
                    for p in request.partitions
                ]
            )
        if request.only_first and not self.compares:
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, "the broker does not serve it")
        self.commits.append(request)
        return pb.CommitOffsetsResponse()


@pytest.mark.parametrize(("compares", "expected"), [(True, [(0, 20), (1, 30)]), (False, [(0, 20)])])
def test_where_a_group_begins_is_committed_only_where_nothing_is(
    compares: bool, expected: list[tuple[int, int]]
) -> None:
    member: Any = SimpleNamespace(commits_as=MemberIdentity("m", 3, None))
    cluster: Any = SimpleNamespace(clock=SystemClock())
    coordinator: Any = Coordinator()
    coordinator.compares = compares
    commits = Commits(member, coordinator, cluster, Condition(), nothing, lambda _: {})
    commits.commit_first({A0: OffsetAndMetadata(20), A1: OffsetAndMetadata(30)})
    (request,) = coordinator.commits
    assert (request.only_first, [(o.partition, o.offset) for o in request.offsets]) == (compares, expected)
    assert (request.member.member_id, request.generation) == ("m", 3)


def test_a_topic_id_that_the_coordinator_does_not_know_is_looked_up_again() -> None:
    looked_up: list[set[str]] = []
    cluster: Any = SimpleNamespace(
        clock=SystemClock(), wait=nothing, fetch_metadata=lambda names, timeout: looked_up.append(set(names))
    )
    coordinator: Any = Coordinator(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_ID)
    member: Any = None
    commits = Commits(member, coordinator, cluster, Condition(), nothing, lambda _: {})
    assert commits.fetch([A0, A1], 5.0) == {A1: OffsetAndMetadata(7)}
    assert looked_up == [{"a"}]
    coordinator.errors = [ErrorCode.UNKNOWN_TOPIC_ID]
    with pytest.raises(OttlaError) as raised:
        commits.fetch([A0, A1], 0.0)
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_ID


def nothing(*_: object) -> None: ...
