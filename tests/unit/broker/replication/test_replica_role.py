"""The table of a replica's roles is what images make of it: no more, and no less."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from replicas import Brokers

from ottla_broker.machines.replica_role import NEXT_ROLE, ReplicaRole, RoleEvent
from ottla_broker.replication.replica import Replica
from ottla_core.cluster.image import Partition
from ottla_core.model import NO_LEADER

pytestmark = [pytest.mark.rule(4), pytest.mark.rule(10)]

ME, OTHER = 1, 2
STEPS = ("me", "other", "none", "again", "stale", "close", "disk fails")
"""The leader in the next image, or what happens instead of one. `disk fails`: this broker is to lead, and the start of
its epoch could not be written."""


class Story:
    """One replica, and the images that it gets."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.brokers = Brokers(directory, ids=(ME,))
        self.replica = self.brokers.replicas[ME]
        self.partition = Partition((ME, OTHER), leader_epoch=0, isr=(ME, OTHER))

    def take(self, step: str) -> None:
        leader = {"me": ME, "disk fails": ME, "other": OTHER, "none": NO_LEADER}.get(step)
        if leader is not None:
            self.partition = Partition(
                (ME, OTHER), leader=leader, leader_epoch=self.partition.leader_epoch + 1, isr=(ME, OTHER)
            )
        if step == "close":
            self.replica.close()
        elif step == "disk fails":
            self.replica.step_back()
        elif step == "stale":
            old = Partition((ME, OTHER), leader=OTHER, leader_epoch=self.partition.leader_epoch - 1, isr=(ME, OTHER))
            self.replica.on_partition(old)
        else:
            self.brokers.apply(self.partition)


def test_each_change_of_role_is_a_row_and_each_row_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: set[tuple[ReplicaRole, RoleEvent, ReplicaRole]] = set()
    moving: list[RoleEvent] = []
    plain_move, plain_set = Replica._move, object.__setattr__

    def set_attribute(replica: Replica, name: str, value: Any) -> None:
        if name == "role" and hasattr(replica, "role"):
            assert moving, "a role is changed by the table alone"
            rows.add((replica.role, moving[-1], value))
        plain_set(replica, name, value)

    def move(replica: Replica, event: RoleEvent) -> None:
        moving.append(event)
        plain_move(replica, event)
        moving.pop()

    monkeypatch.setattr(Replica, "__setattr__", set_attribute)
    monkeypatch.setattr(Replica, "_move", move)
    for n, steps in enumerate(product(STEPS, repeat=3)):
        story = Story(tmp_path / str(n))
        for step in steps:
            story.take(step)
            replica = story.replica
            assert (replica.role is ReplicaRole.LEADER) is replica.leads
            assert (replica.role is ReplicaRole.FOLLOWER) is (replica.following is not None)
            assert (replica.role is ReplicaRole.FOLLOWER) is (replica.leader_id is not None)
    assert rows == {(role, event, after) for (role, event), after in NEXT_ROLE.items()}
