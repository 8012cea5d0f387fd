"""Whoever stops something gives it the time that it takes by its own limit: a service, its supervisor, a stack."""

from __future__ import annotations

import pytest

from ottla_broker.kafka.network import listener
from ottla_broker.membership import controlled_shutdown
from ottla_core.process import lifecycle
from ottla_stack import child, commands, running, supervisor


def test_a_service_ends_before_its_supervisor_kills_it() -> None:
    assert lifecycle.STOP_LIMIT_S < supervisor._SERVICE_STOP_LIMIT_S


def test_brokers_controllers_and_etcd_end_one_after_the_other_before_the_supervisor_is_given_up() -> None:
    longest_s = 3 * (supervisor._SERVICE_STOP_LIMIT_S + child.KILL_LIMIT_S)
    assert longest_s <= supervisor.STACK_STOP_LIMIT_S
    assert supervisor.STACK_STOP_LIMIT_S < commands._DOWN_LIMIT_S
    assert supervisor.STACK_STOP_LIMIT_S < running.STOP_LIMIT_S


@pytest.mark.story("listener-drains-as-long-as-it-may")
def test_a_listener_drains_within_what_the_longest_controlled_shutdown_leaves_it() -> None:
    left_s = (lifecycle.STOP_LIMIT_S - controlled_shutdown._LIMIT_S) / 2
    assert left_s > listener._DRAIN_S
