"""The view of the cluster: routes, leaders that moved, epochs that never go back."""

from ottla.machines.metadata import (
    BrokerView,
    ClusterView,
    LookupPace,
    PartitionView,
    TopicView,
    build_view,
    merge,
    with_leaders,
)
from ottla_core.errors import ErrorCode
from ottla_core.model import PartitionId, TopicId, TopicPartition

ID = TopicId(b"t" * 16)
BROKERS = [BrokerView(0, "a:1"), BrokerView(1, "b:1")]


def view(leader: int, epoch: int, topic_id: TopicId = ID) -> ClusterView:
    topic = TopicView("t", topic_id, (PartitionView(leader, epoch),))
    return build_view("c", (0, "a:2"), BROKERS, [topic])


def test_a_route_leads_to_a_leader_that_is_there() -> None:
    assert view(1, 3).routes[TopicPartition("t", 0)].address == "b:1"
    assert view(-1, 3).routes == {}
    assert view(7, 3).routes == {}
    assert view(1, 3).without_leader(["t"]) is False
    assert view(-1, 3).without_leader(["t"]) is True
    assert view(1, 3).without_leader(["t", "other"]) is True


def test_a_topic_with_an_error_is_known_and_not_routed() -> None:
    topic = TopicView("x", TopicId(b""), (), error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    built = build_view("c", (-1, ""), BROKERS, [topic])
    assert built.without_leader(["x"])
    assert built.name_of(PartitionId(TopicId(b""), 0)) is None


def test_an_older_answer_does_not_bring_an_older_leader_back() -> None:
    newer, older = view(1, 4), view(0, 3)
    assert merge(newer, older).routes[TopicPartition("t", 0)].address == "b:1"
    assert merge(older, newer).routes[TopicPartition("t", 0)].address == "b:1"
    recreated = view(0, 0, TopicId(b"u" * 16))
    assert merge(newer, recreated).routes[TopicPartition("t", 0)].address == "a:1"


def test_leaders_named_in_an_answer_are_taken_over_if_they_are_news() -> None:
    moved = with_leaders(view(0, 3), [(PartitionId(ID, 0), "b:1", 4)])
    assert moved.routes[TopicPartition("t", 0)].address == "b:1"
    known = [
        (PartitionId(ID, 0), "a:1", 3),
        (PartitionId(TopicId(b"?" * 16), 0), "a:1", 9),
        (PartitionId(ID, 0), "", 9),
    ]
    assert with_leaders(moved, known) is moved


def test_an_older_answer_does_not_take_a_leader_away_either() -> None:
    assert merge(view(1, 4), view(-1, 3)).routes[TopicPartition("t", 0)].address == "b:1"
    assert merge(view(1, 4), view(-1, 5)).routes == {}


def test_a_topic_that_a_broker_can_not_describe_stays_as_it_was_known() -> None:
    undescribed = build_view("c", (0, "a:2"), BROKERS, [TopicView("t", ID, (), error=ErrorCode.LEADER_NOT_AVAILABLE)])
    kept = merge(view(1, 4), undescribed)
    assert kept.topics["t"] == view(1, 4).topics["t"]
    assert kept.routes == view(1, 4).routes
    assert kept.name_of(PartitionId(ID, 0)) == TopicPartition("t", 0)
    deleted = build_view("c", (0, "a:2"), BROKERS, [TopicView("t", ID, (), error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
    assert merge(view(1, 4), deleted).routes == {}
    assert merge(undescribed, view(1, 4)).routes == view(1, 4).routes


def test_the_pace_of_asking() -> None:
    pace = LookupPace()
    assert pace.due(5.0, 0.5) == (True, 5.5)
    assert pace.due(5.4, 0.5) == (False, 5.5)
    assert pace.due(5.4, 0.1) == (True, 5.5)
