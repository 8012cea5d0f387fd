"""The transports that clients may use."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.testing import Cluster

Addresses = Callable[[Cluster], str]
"""The addresses of a cluster for the transport that a test runs with (the fixture `addresses`)."""


def use_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the SDK's clients use gRPC, and let them find every cluster by its gRPC addresses."""
    monkeypatch.setenv("_OTTLA_TRANSPORT", "grpc")
    monkeypatch.setattr(Cluster, "bootstrap", Cluster.grpc_bootstrap)


OLDER_TRANSACTIONS = "kafka with transactions of version 1"
"""A parameter of the fixture `transaction_addresses`."""
