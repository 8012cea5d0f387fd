"""The Kafka clients that are there wherever the tests run, for tests outside of tests/compat."""

from __future__ import annotations

from peers.client import Client, Rec
from tests.compat.clients.aio import Aiokafka
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.pure import KafkaPython

__all__ = ["CLIENTS", "Aiokafka", "Client", "Confluent", "KafkaPython", "Rec"]

CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), Aiokafka())
