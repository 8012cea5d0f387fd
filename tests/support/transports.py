"""The transports that clients may use."""

from __future__ import annotations

from collections.abc import Callable

from ottla.testing import Cluster

Addresses = Callable[[Cluster], str]
"""The addresses of a cluster for the transport that a test runs with (the fixture `addresses`)."""

OLDER_TRANSACTIONS = "kafka with transactions of version 1"
"""A parameter of the fixture `transaction_addresses`."""
