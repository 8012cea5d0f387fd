"""Apache Kafka's settings as its nodes get them; tests/system/test_kafka_server.py runs it."""

from __future__ import annotations

from pathlib import Path

from peers.kafka.server import KafkaServer, free_ports


def settings(server: KafkaServer, node: int) -> dict[str, str]:
    return {name: str(value) for name, value in server._settings(node).items()}


def test_one_node_is_broker_and_controller_alone(tmp_path: Path) -> None:
    server = KafkaServer(tmp_path)
    found = settings(server, 0)
    assert found["process.roles"] == "broker,controller"
    assert found["advertised.listeners"] == f"PLAINTEXT://{server.bootstrap}"
    assert found["controller.quorum.voters"].startswith("0@127.0.0.1:")
    assert server.bootstrap not in found["controller.quorum.voters"]
    assert found["offsets.topic.replication.factor"] == "1"
    assert server.pids == []


def test_three_nodes_know_each_other_and_share_nothing(tmp_path: Path) -> None:
    server = KafkaServer(tmp_path, nodes=3)
    each = [settings(server, node) for node in range(3)]
    assert {found["controller.quorum.voters"] for found in each} == {each[0]["controller.quorum.voters"]}
    assert len(each[0]["controller.quorum.voters"].split(",")) == 3
    assert len({found["listeners"] for found in each}) == len({found["log.dirs"] for found in each}) == 3
    assert [found["node.id"] for found in each] == ["0", "1", "2"]
    assert {found["transaction.state.log.min.isr"] for found in each} == {"2"}
    assert len(server.bootstrap.split(",")) == 3


def test_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20
