"""What groups are committed for in the other cluster: forward, and never back."""

import pytest

from ottla_core.model import TopicPartition
from ottla_mirror.machines.flows import ClusterSettings, FlowSettings, MirrorSettings
from ottla_mirror.machines.group_plan import Move, Ways, by_checkpoints, further, to_source, to_target
from ottla_mirror.machines.mirror_records import Checkpoint
from ottla_mirror.machines.topic_names import TopicNames

FLOW = FlowSettings("east", "west", topics=("orders",))
CLUSTERS = (ClusterSettings("east", ("e:1",)), ClusterSettings("west", ("w:1",)))
NAMES = TopicNames(FLOW, MirrorSettings(CLUSTERS, (FLOW,)))
ORDERS, COPY = TopicPartition("orders", 3), TopicPartition("east.orders", 3)


THINNED = Ways(
    lambda source, offset: 20 if offset < 60 else offset - 10, lambda source, offset: 25 if offset < 50 else offset + 10
)
"""From 60 on the copy has each record ten offsets before; of what is older, only offset 25 is known, at 20."""


def nowhere(source: TopicPartition, offset: int) -> int | None:
    """Nothing is known of it."""
    return None


def move(after: int | None, had: int | None) -> Move:
    return Move(ORDERS, 40, COPY, after, had)


def test_what_is_not_copied_is_left_out_and_what_is_not_known_is_named() -> None:
    committed = {ORDERS: 40, TopicPartition("other", 0): 7, TopicPartition("orders", 4): 9}
    known = {ORDERS: 37}
    found = list(to_target(committed, {COPY: 5}, NAMES, Ways(lambda source, offset: known.get(source), nowhere), {}))
    fourth = Move(TopicPartition("orders", 4), 9, TopicPartition("east.orders", 4), None, None)
    assert found == [Move(ORDERS, 40, COPY, 37, 5), fourth]
    assert (fourth.is_due, fourth.obstacle) == (False, "the counterpart of offset 9 there is not known")


@pytest.mark.story("planned-failover-that-moved-nothing")
@pytest.mark.parametrize(("source_offset", "after"), [(40, 37), (30, 37), (41, None)])
def test_where_syncs_do_not_reach_a_checkpoint_does_unless_it_is_ahead(source_offset: int, after: int | None) -> None:
    known = {COPY: Checkpoint("g", COPY, source_offset, 37)}
    (found,) = to_target({ORDERS: 40}, {}, NAMES, Ways(nowhere, nowhere), known)
    assert found.after == after


@pytest.mark.story("resting-group-led-by-thinned-syncs")
@pytest.mark.parametrize(("at", "after"), [(40, 37), (45, 37), (60, 50), (39, 20)])
def test_where_syncs_are_thinned_a_group_that_rests_keeps_its_position(at: int, after: int) -> None:
    """They are compacted. Where they lead to what is before its last checkpoint, that counts."""
    known = {COPY: Checkpoint("g", COPY, 40, 37)}
    (found,) = to_target({ORDERS: at}, {}, NAMES, THINNED, known)
    assert found.after == after


@pytest.mark.parametrize(("at", "after"), [(37, 40), (45, 40), (50, 60), (36, 25)])
def test_so_it_does_on_its_way_back(at: int, after: int) -> None:
    known = {COPY: Checkpoint("g", COPY, 40, 37)}
    (found,) = to_source({COPY: at}, {}, NAMES, THINNED, known)
    assert found.after == after


@pytest.mark.parametrize(("source_offset", "offset"), [(40, 55), (40, 15)])
def test_a_checkpoint_of_a_copy_that_was_deleted_does_not_count(source_offset: int, offset: int) -> None:
    """By what is known of the copy that is there now, its one offset would be ahead of the other."""
    known = {COPY: Checkpoint("g", COPY, source_offset, offset)}
    (found,) = to_target({ORDERS: 40}, {}, NAMES, THINNED, known)
    assert found.after == 20


def test_checkpoints_follow_a_group_that_works_in_the_target() -> None:
    known = {COPY: Checkpoint("g", COPY, 40, 37)}
    at = {COPY: 51, TopicPartition("local", 0): 5}
    assert list(further("g", at, NAMES, THINNED, known)) == [Checkpoint("g", COPY, 61, 51)]
    assert list(further("g", {COPY: 37}, NAMES, THINNED, known)) == []


def test_a_group_that_is_not_there_gets_its_offsets_and_one_that_has_expired_gets_them_again() -> None:
    assert move(37, None).is_due


@pytest.mark.story("failback-that-led-a-group-back")
def test_a_group_goes_forward_and_is_never_led_back() -> None:
    assert (move(50, 37).is_due, move(50, 37).obstacle) == (True, "")
    assert (move(37, 37).is_due, move(37, 37).obstacle) == (False, "")
    assert not move(20, 37).is_due
    assert move(20, 37).obstacle == "it is further ahead there, at 37 instead of 20, and is not moved back"


def test_failback_is_about_copies_alone_and_looks_at_the_source() -> None:
    committed = {COPY: 37, TopicPartition("local", 0): 5, TopicPartition("east.orders", 4): 2}
    known = {ORDERS: 40}
    ways = Ways(nowhere, lambda source, offset: known.get(source))
    found = list(to_source(committed, {ORDERS: 90}, NAMES, ways, {}))
    unknown = Move(TopicPartition("east.orders", 4), 2, TopicPartition("orders", 4), None, None)
    assert found == [Move(COPY, 37, ORDERS, 40, 90), unknown]
    assert [each.is_due for each in found] == [False, False]


def test_without_the_source_the_last_checkpoints_are_the_plan() -> None:
    assert list(by_checkpoints([Checkpoint("g", COPY, 40, 37)], {COPY: 30}, NAMES, {})) == [move(37, 30)]


def test_a_mirrors_own_groups_and_those_that_are_excluded_are_left_alone() -> None:
    flow = FlowSettings("east", "west", groups=("app.*", "ottla.*", "connect-x"))
    groups = ("app-1", "other", "ottla-mirror.east.west", "connect-x", "ottla-tools")
    assert [group for group in groups if flow.takes_group(group)] == ["app-1", "ottla-tools"]
