"""No address crowds out the others."""

from __future__ import annotations

import pytest

from ottla_broker.kafka.network.by_host import ByHost
from ottla_broker.kafka.network.limits import ConnectionLimits, configured
from ottla_core.configs.config_table import BROKER_CONFIGS
from ottla_core.configs.config_values import resolve_broker
from ottla_core.errors import ErrorCode, OttlaError


@pytest.mark.story("one-address-crowds-out-the-others")
def test_addresses_take_turns() -> None:
    items = ByHost[str]()
    for item in ("a1", "a2", "a3", "a4", "b1", "c1", "c2"):
        items.add(item[0], item)
    assert [items.next() for _ in range(7)] == ["a1", "b1", "c1", "a2", "c2", "a3", "a4"]
    assert not items


def test_an_item_that_is_dropped_has_no_turn() -> None:
    items = ByHost[str]()
    for item in ("a1", "a1", "b1"):
        items.add(item[0], item)
    items.drop("a", "a1")
    items.drop("a", "a1")
    assert (items.count("a"), items.count("b")) == (0, 1)
    assert items.next() == "b1"


def test_the_busiest_address_has_the_most_items() -> None:
    items = ByHost[str]()
    assert list(items.of_busiest()) == []
    for item in ("a1", "b1", "b2", "c1"):
        items.add(item[0], item)
    assert list(items.of_busiest()) == ["b1", "b2"]


def limits_with(**configs: str) -> ConnectionLimits:
    cluster = {name.replace("_", "."): BROKER_CONFIGS[name.replace("_", ".")].parse(v) for name, v in configs.items()}
    return configured(ConnectionLimits(), resolve_broker(cluster, {}, {}))


def test_the_limits_without_configs_are_those_of_kafka_or_what_memory_allows() -> None:
    assert limits_with() == ConnectionLimits()


def test_configs_set_the_limits() -> None:
    limits = limits_with(
        max_connections="7",
        max_connections_per_ip="0",
        max_connections_per_ip_overrides="10.0.0.1:3, [::0:1]:4,fe80::1:5",
        connections_max_idle_ms="1500",
        socket_request_max_bytes="1MiB",
    )
    assert (limits.max_connections, limits.idle_s, limits.max_produce) == (7, 1.5, 1 << 20)
    assert [limits.most_of(host) for host in ("10.0.0.1", "::1", "fe80::1", "10.0.0.2")] == [3, 4, 5, 0]


def test_a_broker_keeps_the_limits_that_protect_it_and_those_by_which_configs_are_mended() -> None:
    assert limits_with(max_connections="50000", socket_request_max_bytes="1GiB") == ConnectionLimits()
    assert limits_with(socket_request_max_bytes="1").max_produce == 64 * 1024
    assert limits_with(connections_max_idle_ms="-1").idle_s > 1e9


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max.connections", "0"),
        ("max.connections.per.ip", "-1"),
        ("max.connections.per.ip.overrides", "db-1:5"),
        ("max.connections.per.ip.overrides", "10.0.0.0/8:5"),
        ("max.connections.per.ip.overrides", "10.0.0.1"),
        ("max.connections.per.ip.overrides", "10.0.0.1:-5"),
        ("max.connections.per.ip.overrides", "10.0.0.1:x\x1b[2J"),
        ("socket.request.max.bytes", "0"),
    ],
)
def test_an_invalid_limit_is_refused(name: str, value: str) -> None:
    with pytest.raises(OttlaError) as refused:
        BROKER_CONFIGS[name].parse(value)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert refused.value.message.isprintable()
    assert refused.value.hint
