"""Who copies what, by load: what is where, what moves, and what stays where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect import Subscriber
from ottla_core.kafka_formats.consumer_protocol import Subscription
from ottla_core.model import TopicPartition
from ottla_mirror.clusters.load_assignor import LoadAssignor
from ottla_mirror.machines.load_plan import RateMeter, read_rates, spread, write_rates

P = [TopicPartition("t", number) for number in range(8)]


def shared(
    owned: Mapping[str, Sequence[TopicPartition]], rates: Mapping[TopicPartition, float], count: int = 8
) -> dict[str, list[TopicPartition]]:
    return {m: sorted(own) for m, own in spread(P[:count], owned, {"t": list(owned)}, rates).items()}


def test_what_has_no_load_is_spread_evenly() -> None:
    assert sorted(map(len, shared({"a": [], "b": [], "c": []}, {}).values())) == [2, 3, 3]


def test_two_that_are_busy_part() -> None:
    rates = {P[0]: 100.0, P[1]: 90.0}
    made = shared({"a": P[:4], "b": P[4:]}, rates)
    assert len({P[0], P[1]}.intersection(made["a"])) == 1


def test_one_that_is_busy_has_a_mirror_to_itself_and_does_not_move() -> None:
    assert shared({"a": P[:4], "b": P[4:]}, {P[0]: 1e6})["a"] == [P[0]]


@pytest.mark.parametrize(("count", "members"), [(24, "ab"), (100, "ab"), (90, "abc")])
@pytest.mark.parametrize("rate", [0.0, 7.0])
def test_one_that_joins_gets_its_share_of_many(count: int, members: str, rate: float) -> None:
    many = [TopicPartition("t", number) for number in range(count)]
    former = members[:-1]
    owned = {name: many[n :: len(former)] for n, name in enumerate(former)} | {members[-1]: list[TopicPartition]()}
    made = spread(many, owned, {"t": list(members)}, dict.fromkeys(many, rate))
    assert max(map(len, made.values())) - min(map(len, made.values())) <= count / len(members) / 4


@pytest.mark.parametrize("rates", [{P[0]: 100.0, P[7]: 95.0}, dict.fromkeys(P, 5.0), {}])
def test_what_is_about_even_stays(rates: Mapping[TopicPartition, float]) -> None:
    owned = {"a": P[:4], "b": P[4:]}
    assert shared(owned, rates) == owned


def test_the_best_claim_counts_and_what_is_not_subscribed_to_is_not_given() -> None:
    made = spread([*P[:2], TopicPartition("u", 0)], {"a": P[:2], "b": P[:2]}, {"t": ["a", "b"], "u": ["b"]}, {})
    assert TopicPartition("u", 0) in made["b"]
    assert sorted(p for own in made.values() for p in own) == [*P[:2], TopicPartition("u", 0)]


@given(
    st.lists(st.integers(0, 2), min_size=8, max_size=8),
    st.lists(st.floats(0, 1e6), min_size=8, max_size=8),
)
def test_each_partition_has_one_mirror_and_a_second_look_moves_nothing(held: list[int], loads: list[float]) -> None:
    owned = {name: [p for p, at in zip(P, held, strict=True) if at == n] for n, name in enumerate("ab")}
    rates = dict(zip(P, loads, strict=True))
    made = shared(owned, rates)
    assert sorted(p for own in made.values() for p in own) == P
    assert shared(made, rates) == made


def test_rates_are_smooth_and_begin_anew_with_a_partition() -> None:
    meter = RateMeter()
    for now, copied in ((0.0, 0), (10.0, 1000), (20.0, 4000)):
        meter.observe(now, {P[0]: copied})
    assert meter.rates == {P[0]: 175.0}, "half of 300, and half of what it was: 50 after the first look"
    meter.observe(30.0, {P[1]: 7})
    assert meter.rates == {P[1]: 0.0}


def test_rates_travel_in_a_member_s_subscription() -> None:
    rates = {P[0]: 12.0, P[3]: 5e9}
    assert read_rates(write_rates(rates)) == rates
    assert [dict(read_rates(data)) for data in (b"", b"\\x00\\x01", write_rates(rates)[:-3])] == [{}, {}, {}]


def test_what_moves_has_no_owner_first_and_its_load_is_known_after_it() -> None:
    assignor = LoadAssignor(dict)

    def member(name: str, own: Sequence[TopicPartition], rates: Mapping[TopicPartition, float]) -> Subscriber:
        said = Subscription(("t",), user_data=write_rates(rates), owned=tuple(own), generation=3)
        return Subscriber(name, said)

    busy = {P[0]: 100.0, P[1]: 100.0, P[2]: 100.0, P[3]: 100.0}
    first = assignor.assign({"t": 8}, [member("a", P[:4], busy), member("b", P[4:], {})])
    moving = set(P) - {p for own in first.values() for p in own}
    assert len(moving & set(P[:4])) == 2
    second = assignor.assign({"t": 8}, [member(name, own, {}) for name, own in first.items()])
    assert sorted(len(set(own) & set(P[:4])) for own in second.values()) == [2, 2]
    assert sorted(p for own in second.values() for p in own) == P
