"""The clients of the matrix: a line each in CLIENTS, those from PyPI as modules here, others as drivers in peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from peers import kcat
from peers.client import Client
from peers.go.driver import franz_go, sarama, sarama_for_2_1
from peers.java.driver import java_client
from peers.kafkajs.driver import kafkajs
from peers.librdkafka_2_3.driver import librdkafka_2_3
from tests.compat.clients.aio import Aiokafka
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.pure import KafkaPython


class Listed(NamedTuple):
    """A client of the matrix."""

    name: str
    open: Callable[[], Client]
    """Installs it where it is missing. Raises PeerError where it can't be had: its cells are red then."""
    always: bool = False
    """Runs in every `make test`, not only in `make compat`."""
    lacks: frozenset[str] = frozenset()
    """Capabilities (of cells.py) that the client itself doesn't have, with any broker: no cells, and a word in
    docs/use/compatibility.md. Of what it can read nothing is taken off by what it can't write."""
    has_848: bool = False
    """Has the consumer protocol of groups (KIP-848), which is compared with Apache Kafka: not in every `make test`."""


CLIENTS = (
    Listed("confluent-kafka", Confluent, always=True, has_848=True),
    Listed("kafka-python", KafkaPython, always=True, lacks=frozenset({"null headers"})),
    Listed("aiokafka", Aiokafka, always=True, lacks=frozenset({"cooperative"})),
    Listed("kcat", kcat.Kcat, always=True, lacks=kcat.LACKS),
    Listed("java", java_client, has_848=True),
    Listed("confluent-kafka-2.3.0", librdkafka_2_3),
    # Without its instance id, which Kafka refuses, it leaves its place in a group.
    Listed("franz-go", franz_go, lacks=frozenset({"848 static"}), has_848=True),
    Listed("sarama", sarama, lacks=frozenset({"cooperative", "seek"})),
    Listed("sarama-for-2.1", sarama_for_2_1, lacks=frozenset({"cooperative", "seek", "static"})),
    Listed("kafkajs", kafkajs, lacks=frozenset({"null headers", "cooperative", "static"})),
)
