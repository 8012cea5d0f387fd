"""Kafka's clients at a secured cluster, in short: those that run in every `make test`, in two of the four ways."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.security.clients import CERTIFICATE, try_all

_IN_PYTHON = ("confluent-kafka", "kafka-python", "aiokafka")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("names", "way"), [((*_IN_PYTHON, "kcat"), "SCRAM-SHA-512"), (("aiokafka", "kcat"), CERTIFICATE)]
)
def test_clients_go_on_while_passwords_certificates_and_brokers_change(
    tmp_path: Path, names: tuple[str, ...], way: str
) -> None:
    outcome = try_all(tmp_path, names, [way])
    assert outcome.wrong == []
    assert outcome.cells == len(names)
    assert sorted(outcome.told) == sorted(f"{name} by {way}" for name in names)
