"""All services on ::1, the IPv6 address of loopback: how they reach each other, and how clients reach them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka_clients import CLIENTS, Client, Rec

import ottla
from ottla_core.host_port import HostPort
from ottla_stack.running import RunningStack, wait_for

HOST = "::1"
MIRROR = """
[clusters]
here = "{bootstrap}"
there = "{bootstrap}"

[[flows]]
source = "here"
target = "there"
topics = ["nothing"]
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    folder = tmp_path_factory.mktemp("ipv6")
    mirror = folder / "mirror.toml"
    running = RunningStack(folder / "s", brokers=1, group_coordinators=1, txn_coordinators=1, mirror=mirror, host=HOST)
    mirror.write_text(MIRROR.format(bootstrap=running.bootstrap))
    with running:
        yield running


def test_a_transaction_and_a_group_need_all_services(stack: RunningStack) -> None:
    assert stack.bootstrap.startswith("[::1]:")
    with ottla.Admin(stack.bootstrap) as admin:
        admin.topics.create("orders", partitions=1)
    with ottla.Producer(stack.bootstrap, transactional_id="t") as producer, producer.transaction():
        for n in range(3):
            producer.send(f"{n}", topic="orders")
    with ottla.Consumer(
        "orders", bootstrap=stack.bootstrap, group="g", auto_offset_reset="earliest", stop="end"
    ) as consumer:
        assert [record.value for record in consumer] == ["0", "1", "2"]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: type(client).__name__)
def test_clients_of_kafka_reach_the_broker(stack: RunningStack, client: Client) -> None:
    topic = f"of-{type(client).__name__}"
    assert client.produce(stack.bootstrap, topic, [Rec(None, b"v")]) == [0]
    assert [record.value for record in client.consume(stack.bootstrap, topic, 1)] == [b"v"]


def test_addresses_have_brackets_wherever_they_are_shown(stack: RunningStack) -> None:
    with ottla.Admin(stack.bootstrap) as admin:
        described = admin.cluster.describe()
        assert [broker.address for broker in described.brokers] == [stack.bootstrap]
        assert [broker.kafka_address for broker in described.brokers] == [stack.bootstrap]
        assert admin.configs.get(broker=0)["listeners"].value == f"PLAINTEXT://{stack.bootstrap}"
        controller = next(service for service in stack.plan.services() if service.name == "controller-0")
        assert described.controller_address == str(HostPort(HOST, controller.port))


def test_brokers_forward_to_the_mirror(stack: RunningStack) -> None:
    with ottla.MirrorClient(bootstrap=stack.bootstrap, request_timeout=10) as client:
        assert wait_for(lambda: [flow.name for flow in client.flows()], "the flow") == ["here->there"]
