"""What the leading member does: what members say of themselves, and what an assignor must not do."""

from collections.abc import Iterable, Mapping

import pytest

from ottla.machines.assignors import ASSIGNORS, Assignments, Assignor, Subscriber
from ottla.machines.leading import changed_topics, lead, left_out, offered, subscribed_topics
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import Subscription, decode_subscription
from ottla_core.model import TopicPartition

T = [TopicPartition("t", n) for n in range(4)]
A, B = Subscriber("a", Subscription(("t",))), Subscriber("b", Subscription(("t", "u")))


class Fixed(Assignor):
    """Gives out what a test says."""

    name = "fixed"

    def __init__(self, made: Assignments) -> None:
        self.made = made

    def assign(self, partitions_of: Mapping[str, int], members: Iterable[Subscriber]) -> Assignments:
        return self.made


@pytest.mark.feature(80)
@pytest.mark.rule(45)
def test_a_member_that_holds_nothing_says_the_same_after_a_restart() -> None:
    assignors = [ASSIGNORS["range"]]
    first = offered(assignors, {"t", "u"}, (), (), -1)
    again = offered(assignors, {"u", "t"}, (), T, 9)
    assert first == again


@pytest.mark.feature(70)
def test_a_member_says_what_it_holds_and_since_when() -> None:
    offers = offered(ASSIGNORS.values(), {"t"}, [T[1], T[0]], [T[0], T[1]], 5, "rack-1")
    said = decode_subscription(offers["cooperative-sticky"])
    assert (said.owned, said.generation, said.rack, said.topics) == ((T[0], T[1]), 5, "rack-1", ("t",))
    assert list(offers) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert decode_subscription(offered(ASSIGNORS.values(), {"t"}, [], T, 5)["sticky"]).user_data, "what it had before"


@pytest.mark.feature(72)
def test_everybody_gets_something_if_only_nothing() -> None:
    made = lead(Fixed({"a": [T[0]]}), {"t": 1}, [A, B])
    assert made == {"a": [T[0]], "b": []}
    assert subscribed_topics([A, B]) == ["t", "u"]


@pytest.mark.feature(72)
@pytest.mark.feature(63)
@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"a": [T[0]], "b": [T[0]]}, "assigned t-0 to both 'a' and 'b'"),
        ({"a": [T[3]]}, "t-3, which does not exist"),
        ({"a": [TopicPartition("u", 0)]}, "which does not subscribe to that topic"),
        ({"c": [T[0]]}, "a member 'c'"),
    ],
)
def test_an_assignor_that_gives_out_what_it_must_not_is_told_so(made: Assignments, words: str) -> None:
    with pytest.raises(OttlaError, match=words) as caught:
        lead(Fixed(made), {"t": 3, "u": 1}, [A, B])
    assert caught.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_what_an_assignor_leaves_out_is_seen_unless_somebody_gives_it_up_first() -> None:
    assert left_out({"a": [T[0]]}, [], {"t": 3}) == [T[1], T[2]]
    assert left_out({"a": [T[0]]}, [T[1]], {"t": 3}) == [T[2]]


@pytest.mark.feature(68)
def test_a_leader_sees_that_its_topics_have_grown() -> None:
    assert changed_topics({"t": 3}, {"t": 3}) == ""
    assert "4 partitions" in changed_topics({"t": 3}, {"t": 4})
    assert changed_topics({"t": 3, "u": 1}, {"t": 3}) == "", "a topic that a broker does not know yet"
