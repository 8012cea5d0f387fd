"""What becomes of a failover whose source goes away in the midst of it, or whose map is not all there."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

import ottla
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_mirror.clusters.admin import Committed
from ottla_mirror.failover import Moved, fail_back, fail_over
from ottla_mirror.machines.group_plan import Move

MOVE = Move(TopicPartition("t", 0), 9, TopicPartition("east.t", 0), 7, None)


class Groups:
    """Both clusters' `GroupOffsets`; the source answers for its first group alone."""

    def __init__(self) -> None:
        self.source = self.target = self
        self.checkpointed = self.present = ["a", "b", "c"]
        self.questions: list[str] = []
        self.plans: list[tuple[str, str]] = []
        self.commits: list[str] = []

    def load(self) -> None: ...
    def close(self) -> None: ...

    def in_source(self, *, timeout: float) -> list[str]:
        return self.present

    def look_at_topics(self, *, with_source: bool) -> None: ...

    def in_target(self, *, timeout: float) -> list[str]:
        return self.present

    def back(self, group: str) -> list[Move]:
        return [] if group == "c" else [MOVE]

    def committed(self, group: str) -> Committed:
        self.questions.append(group)
        if group != "a":
            raise ottla.ConnectError(ErrorCode.BROKER_NOT_AVAILABLE, "the source is away")
        return {}

    def forward_from_last(self, group: str, committed: Committed) -> list[Move]:
        self.plans.append((group, "now"))
        return [MOVE]

    def forward_by_checkpoints(self, group: str) -> list[Move]:
        self.plans.append((group, "last known"))
        return [MOVE]

    def commit(self, group: str, offsets: Committed) -> None:
        self.commits.append(group)


class Flow:
    """A flow whose groups are these. It says what it was ordered, and what is known of its syncs."""

    def __init__(self, groups: Groups, catch_up: Callable[[float], None] = lambda timeout: None) -> None:
        self.copier, self.orders = None, list[bool]()
        self.state = SimpleNamespace(order=lambda paused: self.orders.append(paused))
        self.syncs = SimpleNamespace(catch_up=catch_up)
        self.group_offsets = lambda: groups


def test_a_source_that_goes_away_meanwhile_is_waited_for_once_and_no_group_is_left_out() -> None:
    groups = Groups()
    moved = fail_over(cast("Any", Flow(groups)), [])
    assert groups.questions == ["a", "b"]
    assert groups.plans == [("a", "now"), ("b", "last known"), ("c", "last known")]
    assert [(group.group, group.error, group.positions) for group in moved.groups] == [
        (name, None, [MOVE]) for name in groups.commits
    ]
    assert (groups.commits, moved.source_reached) == (["a", "b", "c"], False)


def test_a_plan_changes_nothing() -> None:
    flow, groups = Flow(groups := Groups()), groups
    moved = fail_over(cast("Any", flow), ["a"], dry_run=True)
    assert (flow.orders, groups.commits) == ([], [])
    assert [group.positions for group in moved.groups] == [[MOVE]]


def test_groups_of_which_only_checkpoints_are_left_are_moved_where_these_say_something() -> None:
    flow, groups = Flow(groups := Groups()), groups
    groups.present = ["a"]
    assert [moved.group for moved in fail_over(cast("Any", flow), []).groups] == ["a", "b", "c"]
    assert [moved.group for moved in fail_back(cast("Any", flow), []).groups] == ["a", "b"]
    assert [moved.group for moved in fail_back(cast("Any", flow), ["a"]).groups] == ["a"]
    assert [moved.group for moved in fail_back(cast("Any", flow), ["c"]).groups] == ["c"], "it was asked for"


@pytest.mark.story("failover-by-a-map-read-by-half")
@pytest.mark.parametrize("move", [fail_over, fail_back])
def test_a_map_that_is_not_read_to_its_end_in_time_is_an_error(move: Callable[..., Moved]) -> None:
    def half_read(timeout: float) -> None:
        raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, "the syncs were read as far as 7, of 9")

    groups = Groups()
    with pytest.raises(OttlaError, match="as far as 7, of 9"):
        move(cast("Any", Flow(groups, half_read)), [])
    assert groups.commits == []
