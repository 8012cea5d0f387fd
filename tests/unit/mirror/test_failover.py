"""What becomes of a failover whose source goes away in the midst of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import ottla
from ottla_core.errors import ErrorCode
from ottla_mirror.clusters.cluster import Committed
from ottla_mirror.failover import fail_over


class Groups:
    """Both clusters' `GroupOffsets`; the source answers for its first group alone."""

    def __init__(self) -> None:
        self.source, self.last_known = self, ["a", "b", "c"]
        self.questions: list[str] = []
        self.moves: list[tuple[str, str]] = []

    def load(self) -> None: ...
    def close(self) -> None: ...

    def in_source(self, *, timeout: float) -> list[str]:
        return self.last_known

    def committed(self, group: str) -> Committed:
        self.questions.append(group)
        if group != "a":
            raise ottla.ConnectError(ErrorCode.BROKER_NOT_AVAILABLE, "the source is away")
        return {}

    def carry(self, group: str, committed: Committed, *, everything: bool) -> list[Any]:
        self.moves.append((group, "now"))
        return []

    def carry_last_known(self, group: str) -> list[Any]:
        self.moves.append((group, "last known"))
        return []


def test_a_source_that_goes_away_meanwhile_is_waited_for_once_and_no_group_is_left_out() -> None:
    groups = Groups()
    state = SimpleNamespace(order=lambda paused: None)
    syncs = SimpleNamespace(catch_up=lambda timeout: None)
    flow = SimpleNamespace(state=state, group_offsets=lambda: groups, copier=None, syncs=syncs)
    moved = fail_over(cast("Any", flow), [])
    assert groups.questions == ["a", "b"]
    assert groups.moves == [("a", "now"), ("b", "last known"), ("c", "last known")]
    assert [(group.group, group.error) for group in moved.groups] == [("a", None), ("b", None), ("c", None)]
    assert not moved.source_reached
