"""Which Kafka address a client is told."""

from __future__ import annotations

import pytest

from ottla_broker.kafka.addresses import KafkaAddresses, controller_for
from ottla_broker.kafka.wire.frames import Caller
from ottla_broker.listener_settings import KafkaListener
from ottla_core.cluster.image import Broker
from ottla_core.host_port import HostPort

INTERNAL = KafkaListener("INTERNAL", HostPort("0.0.0.0", 19092), HostPort("broker-0", 19092))
EXTERNAL = KafkaListener("EXTERNAL", HostPort("0.0.0.0", 9092), HostPort("localhost", 0))


def broker(kafka_address: str, **listeners: str) -> Broker:
    return Broker(1, 1, "d", "x:9650", kafka_address=kafka_address, kafka_listeners=listeners)


def simple(host: str, advertised: HostPort | None = None) -> KafkaAddresses:
    return KafkaAddresses(host, "", [KafkaListener("PLAINTEXT", HostPort(host, 9092), advertised)])


@pytest.mark.parametrize("old", [True, False])
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
    kafka_address: str, dialled: str, told: tuple[str, int] | None, old: bool
) -> None:
    addresses = simple("host-a")
    assert addresses.own({"PLAINTEXT": 9092}) == {"PLAINTEXT": "host-a:9092"}
    listeners = {} if old or not kafka_address else {"PLAINTEXT": kafka_address}
    assert addresses.advertised(broker(kafka_address, **listeners), Caller("", dialled)) == told


def test_what_is_configured_is_told_to_everybody() -> None:
    addresses = simple("host-a", HostPort("kafka.example", 19092))
    assert addresses.own({"PLAINTEXT": 9092}) == {"PLAINTEXT": "kafka.example:19092"}
    assert addresses.advertised(broker("host-a:9092"), Caller("", "10.0.0.7")) == ("host-a", 9092)


def test_an_ipv6_address_is_told_whole() -> None:
    assert simple("::1").advertised(broker("::1:9092"), Caller("", "::1")) == ("::1", 9092)


@pytest.mark.feature(135)
def test_each_listener_has_an_address_and_its_clients_are_told_that_of_the_same_name() -> None:
    addresses = KafkaAddresses("0.0.0.0", "broker-0", [INTERNAL, EXTERNAL])
    assert addresses.own({"INTERNAL": 19092, "EXTERNAL": 9092}) == {
        "INTERNAL": "broker-0:19092",
        "EXTERNAL": "localhost:9092",
    }
    other = broker("broker-1:19092", INTERNAL="broker-1:19092", EXTERNAL="localhost:9093")
    assert addresses.advertised(other, Caller("", "172.18.0.2", "INTERNAL")) == ("broker-1", 19092)
    assert addresses.advertised(other, Caller("", "172.18.0.2", "EXTERNAL")) == ("localhost", 9093)


def test_a_broker_without_that_listener_can_not_be_reached_by_it() -> None:
    addresses = KafkaAddresses("0.0.0.0", "broker-0", [INTERNAL, EXTERNAL])
    lacking = broker("broker-1:19092", INTERNAL="broker-1:19092")
    assert addresses.advertised(lacking, Caller("", "172.18.0.2", "EXTERNAL")) is None
    of_older_release = broker("broker-1:9092")
    assert addresses.advertised(of_older_release, Caller("", "172.18.0.2", "EXTERNAL")) == ("broker-1", 9092)


def test_a_listener_that_advertises_nothing_is_told_as_it_was_dialled_beside_one_that_does() -> None:
    listeners = [INTERNAL, KafkaListener("LAN", HostPort("0.0.0.0", 9092))]
    addresses = KafkaAddresses("0.0.0.0", "broker-0", listeners)
    ports = {"INTERNAL": 19092, "LAN": 9092}
    assert addresses.own(ports)["LAN"] == "broker-0:9092"
    same_host = broker("", INTERNAL="broker-0:19093", LAN="broker-0:9093")
    assert addresses.advertised(same_host, Caller("", "10.0.0.7", "LAN")) == ("10.0.0.7", 9093)
    assert addresses.advertised(same_host, Caller("", "172.18.0.2", "INTERNAL")) == ("broker-0", 19093)


def test_a_listener_with_an_interface_for_itself_registers_that_one() -> None:
    own = KafkaListener("LAN", HostPort("192.168.1.7", 9092))
    assert KafkaAddresses("0.0.0.0", "broker-0", [own]).own({"LAN": 9092}) == {"LAN": "192.168.1.7:9092"}


def test_the_named_controller_is_one_of_the_brokers_that_are_told() -> None:
    assert controller_for(1, [0, 1, 2]) == 1
    assert controller_for(1, [2, 0]) == 0, (
        "this one is not unfenced yet, and clients look for the address of whoever is"
    )
    assert controller_for(1, []) == -1
