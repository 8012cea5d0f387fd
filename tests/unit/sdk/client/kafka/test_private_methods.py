"""Brokers serve each private call that clients make, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ottla_broker.kafka.private_methods import PRIVATE_METHODS
from ottla_proto import contracts
from ottla_proto.contracts import ClientCalls, Method

ROOT = Path(__file__).parents[5]
CLIENTS = (ROOT / "sdk/ottla", ROOT / "cli/ottla_cli", ROOT / "spark/pyspark_ottla", ROOT / "services/mirror")
CALL = re.compile(r"\b(Broker|ClientCalls|Controller|Group|Txn|Mirror)\.([A-Z][A-Z_]+)\b")

CALLED = {found for folder in CLIENTS for path in folder.rglob("*.py") for found in CALL.findall(path.read_text())}
METHODS: list[Method[Any, Any]] = [getattr(getattr(contracts, table), name) for table, name in sorted(CALLED)]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.service}.{method.name}")
def test_a_method_that_clients_call_is_served(method: Method[Any, Any]) -> None:
    assert PRIVATE_METHODS[method.path].method == method


def test_each_method_that_no_service_has_is_called_by_clients() -> None:
    assert {each for each in vars(ClientCalls).values() if isinstance(each, Method)} <= set(METHODS)


def test_the_private_api_has_only_methods_that_clients_call() -> None:
    assert {each.method for each in PRIVATE_METHODS.values()} <= set(METHODS)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.service}.{method.name}")
def test_a_response_has_an_error_of_its_own(method: Method[Any, Any]) -> None:
    field = method.response.DESCRIPTOR.fields_by_name["error"]
    assert field.message_type is not None
    assert field.message_type.full_name == "ottla.v1.Error"
