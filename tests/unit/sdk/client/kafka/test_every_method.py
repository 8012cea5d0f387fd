"""Each method that clients call is served over Kafka's protocol: by a message of Kafka's, or by the private API."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.client.kafka.translations.private import PrivateTranslation
from ottla.client.kafka.translations.table import translation_of
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla_broker.kafka.private_methods import PRIVATE_METHODS
from ottla_proto import contracts
from ottla_proto.client_calls import Client
from ottla_proto.contracts import Method

ROOT = Path(__file__).parents[5]
CLIENTS = (ROOT / "sdk/ottla", ROOT / "cli/ottla_cli", ROOT / "spark/pyspark_ottla", ROOT / "services/mirror")
CALL = re.compile(r"\b(Broker|Client|Controller|Group|Txn|Mirror)\.([A-Z][A-Z_]+)\b")

CALLED = {found for folder in CLIENTS for path in folder.rglob("*.py") for found in CALL.findall(path.read_text())}
TABLES = {**vars(contracts), "Client": Client}
METHODS: list[Method[object, object]] = [getattr(TABLES[table], name) for table, name in sorted(CALLED)]  # type: ignore[type-var]  # of any messages


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.service}.{method.name}")
def test_a_method_of_the_clients_is_served(method: Method[object, object]) -> None:  # type: ignore[type-var]  # as above
    translation = translation_of(method, method.request(), TopicNames())
    if isinstance(translation, PrivateTranslation):
        assert method.path in PRIVATE_METHODS


def test_each_call_that_only_clients_make_is_made() -> None:
    assert {each for each in vars(Client).values() if isinstance(each, Method)} <= set(METHODS)


def test_the_private_api_has_only_what_clients_call() -> None:
    assert {each.method for each in PRIVATE_METHODS.values()} <= set(METHODS)
