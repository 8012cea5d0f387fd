"""What groups are committed for in the target, and back: forward where they have been by themselves."""

from ottla_core.model import TopicPartition
from ottla_mirror.machines.flows import ClusterSettings, FlowSettings, MirrorSettings
from ottla_mirror.machines.group_plan import PositionMoved, brought_back, checkpoints_of, to_commit
from ottla_mirror.machines.mirror_records import Checkpoint
from ottla_mirror.machines.topic_names import TopicNames

FLOW = FlowSettings("east", "west", topics=("orders",))
CLUSTERS = (ClusterSettings("east", ("e:1",)), ClusterSettings("west", ("w:1",)))
NAMES = TopicNames(FLOW, MirrorSettings(CLUSTERS, (FLOW,)))
ORDERS, COPY = TopicPartition("orders", 3), TopicPartition("east.orders", 3)


def checkpoint(offset: int) -> Checkpoint:
    return Checkpoint("g", COPY, offset + 3, offset)


def test_what_is_not_copied_or_not_known_has_no_checkpoint() -> None:
    committed = {ORDERS: 40, TopicPartition("other", 0): 7, TopicPartition("orders", 4): 9}
    known = {ORDERS: 37}
    found = checkpoints_of("g", committed, NAMES, lambda source, offset: known.get(source))
    assert list(found) == [Checkpoint("g", COPY, 40, 37)]


def test_a_group_that_is_not_there_gets_its_offsets() -> None:
    assert to_commit([checkpoint(37)], {}, {}) == {COPY: 37}


def test_what_the_mirror_put_there_follows_the_source_back_and_forth() -> None:
    assert to_commit([checkpoint(50)], {COPY: 37}, {COPY: 37}) == {COPY: 50}
    assert to_commit([checkpoint(20)], {COPY: 37}, {COPY: 37}) == {COPY: 20}
    assert to_commit([checkpoint(37)], {COPY: 37}, {COPY: 37}) == {}


def test_a_group_that_has_gone_on_is_not_led_back() -> None:
    assert to_commit([checkpoint(50)], {COPY: 60}, {COPY: 37}) == {}
    assert to_commit([checkpoint(70)], {COPY: 60}, {COPY: 37}) == {COPY: 70}


def test_failback_is_about_copies_alone() -> None:
    committed = {COPY: 37, TopicPartition("local", 0): 5, TopicPartition("east.orders", 4): 2}
    known = {ORDERS: 40}
    found = brought_back(committed, NAMES, lambda source, offset: known.get(source))
    assert list(found) == [PositionMoved(COPY, 37, ORDERS, 40)]


def test_a_mirrors_own_groups_and_those_that_are_excluded_are_left_alone() -> None:
    flow = FlowSettings("east", "west", groups=("app.*", "ottla.*", "connect-x"))
    groups = ("app-1", "other", "ottla-mirror.east.west", "connect-x", "ottla-tools")
    assert [group for group in groups if flow.takes_group(group)] == ["app-1", "ottla-tools"]
