"""Heartbeats of Kafka clients: a broker passes them on together, and each member hears what concerns it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.fuzz.kafka_wire import KafkaWire
from waiting import wait_until

from ottla_core.errors import ErrorCode
from ottla_stack.cluster import Cluster

GROUPS = 20
"""Whose shards both coordinators have."""


class WireMember:
    """The only member of its group, on a connection of its own."""

    def __init__(self, address: str, group: str) -> None:
        self.group = group
        self._wire = KafkaWire(address)
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        asked = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=120_000,
            rebalance_timeout_ms=30_000,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined = self._wire.ask(asked, 2, JoinGroupResponse)
        assert joined.error_code == ErrorCode.NONE
        self.member_id, self.generation = joined.member_id, joined.generation_id
        own = SyncGroupRequest.SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"all")
        synced = SyncGroupRequest(
            group_id=group, generation_id=self.generation, member_id=self.member_id, assignments=[own]
        )
        assert self._wire.ask(synced, 2, SyncGroupResponse).error_code == ErrorCode.NONE

    def send(self, *, generation: int | None = None, member_id: str = "") -> None:
        beat = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=member_id or self.member_id,
        )
        self._wire.send(beat, 2)

    def told(self) -> int:
        _, answer = self._wire.answer(2, HeartbeatResponse)
        return int(answer.error_code)

    def close(self) -> None:
        self._wire.__exit__(None, None, None)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(group_coordinators=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def members(cluster: Cluster) -> Iterator[list[WireMember]]:
    with ExitStack() as stack:
        members = [WireMember(cluster.bootstrap, f"beats-{n}") for n in range(GROUPS)]
        for member in members:
            stack.callback(member.close)
        yield members


def beat_all(members: list[WireMember]) -> set[int]:
    for member in members:
        member.send()
    return {member.told() for member in members}


@pytest.mark.feature(74)
def test_each_member_hears_what_concerns_it(members: list[WireMember]) -> None:
    assert beat_all(members) == {ErrorCode.NONE}
    former, stranger, *others = members
    former.send(generation=former.generation - 1)
    stranger.send(member_id="somebody")
    for member in others:
        member.send()
    assert former.told() == ErrorCode.ILLEGAL_GENERATION
    assert stranger.told() == ErrorCode.UNKNOWN_MEMBER_ID
    assert {member.told() for member in others} == {ErrorCode.NONE}


def test_they_follow_their_groups_to_the_next_coordinator(cluster: Cluster, members: list[WireMember]) -> None:
    """Nobody is put out: who is known and in its generation stays so."""
    heard: set[int] = set()

    def all_are_well() -> bool:
        told = beat_all(members)
        heard.update(told)
        return told == {ErrorCode.NONE}

    for coordinator in cluster.group_coordinators:
        coordinator.kill()
        wait_until(all_are_well)
        coordinator.restart()
        wait_until(all_are_well)
    assert not heard & {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
