"""The transports that producers and consumers may use."""

from __future__ import annotations

from collections.abc import Callable

from ottla.testing import Cluster

Addresses = Callable[[Cluster], str]
"""The addresses of a cluster for the transport that a test runs with (the fixture `addresses`)."""
