"""Which values the configs of consumer groups may have together, and which hold for one group."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ottla_core.configs.config_table import BROKER_CONFIGS, GROUP_CONFIGS
from ottla_core.configs.config_values import EffectiveConfigs, check_broker_conflicts, resolve_broker
from ottla_core.configs.consumer_groups import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    capped,
    check_group,
    effective,
)
from ottla_core.errors import ErrorCode, OttlaError

SESSION, HEARTBEAT, ASSIGNMENT = (config.own for config in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL))


ENDINGS = {
    "session": ".session.timeout.ms",
    "heartbeat": ".heartbeat.interval.ms",
    "assignment": ".assignment.interval.ms",
}


def configs(**altered: int) -> EffectiveConfigs:
    """The cluster's configs: `min_session=1` is group.consumer.min.session.timeout.ms=1."""
    values = {}
    for short, value in altered.items():
        bound, _, name = short.rpartition("_")
        values[f"group.consumer{'.' if bound else ''}{bound}{ENDINGS[name]}"] = str(value)
    return resolve_broker(values, {}, {})


def cluster(**altered: int) -> Callable[[str], int]:
    return configs(**altered).integer


@pytest.mark.parametrize(
    ("altered", "said"),
    [
        ({"min_session": 60_001, "session": 60_001}, "is above group.consumer.max.session.timeout.ms=60000"),
        ({"session": 10_000}, "group.consumer.session.timeout.ms=10000 is not between"),
        ({"session": 60_001}, "group.consumer.session.timeout.ms=60001 is not between"),
        ({"heartbeat": 4_999}, "group.consumer.heartbeat.interval.ms=4999 is not between"),
        ({"max_assignment": 999}, "group.consumer.assignment.interval.ms=1000 is not between"),
        ({"min_session": 1, "session": 5_000}, "group.consumer.session.timeout.ms=5000 is not above"),
    ],
)
def test_values_of_the_cluster_that_exclude_each_other_are_refused(altered: Mapping[str, int], said: str) -> None:
    with pytest.raises(OttlaError, match=said) as refused:
        check_broker_conflicts(configs(**altered))
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_a_shorter_session_needs_another_bound_in_the_same_request() -> None:
    check_broker_conflicts(configs(min_session=6_000, session=6_000))


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({SESSION: "44999"}, "is not between the cluster's group.consumer.min.session.timeout.ms=45000"),
        ({SESSION: "60001"}, "and group.consumer.max.session.timeout.ms=60000"),
        ({HEARTBEAT: "4999"}, "group.consumer.min.heartbeat.interval.ms=5000"),
        ({ASSIGNMENT: "15001"}, "group.consumer.max.assignment.interval.ms=15000"),
    ],
)
def test_a_groups_value_beyond_the_clusters_bounds_is_refused(own: Mapping[str, str], said: str) -> None:
    with pytest.raises(OttlaError, match=said) as refused:
        check_group(own, cluster())
    assert refused.value.code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("own", [{SESSION: "9000"}, {HEARTBEAT: "50000"}, {SESSION: "9000", HEARTBEAT: "9000"}])
def test_a_groups_session_is_longer_than_the_time_between_its_heartbeats(own: Mapping[str, str]) -> None:
    wide = cluster(min_session=1, max_heartbeat=60_000, heartbeat=10_000)
    with pytest.raises(OttlaError, match=r"consumer\.session\.timeout\.ms=\d+ is not above"):
        check_group(own, wide)
    check_group({SESSION: "9000", HEARTBEAT: "8999"}, cluster(min_session=1))


def test_the_bounds_themselves_are_allowed() -> None:
    for session, heartbeat, assignment in (("45000", "5000", "0"), ("60000", "15000", "15000")):
        check_group({SESSION: session, HEARTBEAT: heartbeat, ASSIGNMENT: assignment}, cluster())


def test_a_group_has_its_own_value_or_the_clusters() -> None:
    assert effective(SESSION_TIMEOUT, {}, cluster(session=50_000)) == 50_000
    assert effective(SESSION_TIMEOUT, {SESSION: "55000"}, cluster(session=50_000)) == 55_000
    assert capped({SESSION: "55000"}, cluster()) == []


@pytest.mark.parametrize(("stored", "held"), [("70000", 60_000), ("10000", 45_000)])
def test_a_value_that_the_cluster_no_longer_allows_is_capped(stored: str, held: int) -> None:
    assert effective(SESSION_TIMEOUT, {SESSION: stored}, cluster()) == held
    assert capped({SESSION: stored}, cluster()) == [
        f"{SESSION}={stored} is outside the cluster's bounds; {held} holds instead"
    ]


def test_what_a_group_may_set_is_named_as_the_clusters_default() -> None:
    for config in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL):
        assert config.default == f"group.{config.own}"
        assert GROUP_CONFIGS[config.own].default == BROKER_CONFIGS[config.default].default
    assert {SESSION, HEARTBEAT, ASSIGNMENT} == set(GROUP_CONFIGS)
