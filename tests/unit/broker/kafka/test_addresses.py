"""Which Kafka address a client is told."""

from __future__ import annotations

import pytest

from ottla_broker.kafka.addresses import KafkaAddresses
from ottla_core.cluster.image import Broker


def broker(kafka_address: str) -> Broker:
    return Broker(1, 1, "d", "x:9650", kafka_address=kafka_address)


@pytest.mark.parametrize(
    ("kafka_address", "dialled", "told"),
    [
        ("host-a:9093", "10.0.0.7", ("10.0.0.7", 9093)),
        ("host-a:9093", "", ("host-a", 9093)),
        ("host-b:9092", "10.0.0.7", ("host-b", 9092)),
        ("", "10.0.0.7", None),
    ],
)
def test_who_comes_by_another_address_is_told_it_for_this_host(
    kafka_address: str, dialled: str, told: tuple[str, int] | None
) -> None:
    addresses = KafkaAddresses("host-a", "")
    assert addresses.own(9092) == "host-a:9092"
    assert addresses.told(broker(kafka_address), dialled) == told


def test_what_is_configured_is_told_to_everybody() -> None:
    addresses = KafkaAddresses("host-a", "kafka.example:19092")
    assert addresses.own(9092) == "kafka.example:19092"
    assert addresses.told(broker("host-a:9092"), "10.0.0.7") == ("host-a", 9092)


def test_an_ipv6_address_is_told_whole() -> None:
    assert KafkaAddresses("::1", "").told(broker("::1:9092"), "::1") == ("::1", 9092)
