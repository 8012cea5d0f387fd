"""Admin: topics, configs and the cluster. Every method is one or two calls and returns when its effect can be seen.

    admin = ottla.Admin()
    admin.topics.create("orders", partitions=12, config={"retention.ms": "7d"}, if_exists="ok")

Changes go to the controller, which any broker names; where it moves meanwhile, the call follows it until its deadline.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from ottla.access import Access
from ottla.cluster import Cluster
from ottla.configs import Configs
from ottla.settings import ADMIN_NAMES, bootstrap_addresses, merge_config
from ottla.topics import Topics
from ottla.transport import Transport, grpc_transport
from ottla.units import Duration, seconds

_client_numbers = itertools.count(1)


class Admin:
    """`topics`, `configs` and `cluster` of one cluster. Thread-safe.

    Args:
        bootstrap: gRPC addresses of brokers, "host:port,…" or a list; by default OTTLA_BOOTSTRAP, then localhost:9650.
        request_timeout: seconds that each method has, unless it is given a `timeout`.
        client_id: names this client in logs and quotas.
        config: the same settings under Kafka's names.

    Every method raises ConnectError or ottla.TimeoutError where nobody answered in time, and what the controller says.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        request_timeout: Duration = 30.0,
        client_id: str | None = None,
        config: Mapping[str, Any] | None = None,
        _transport: Transport | None = None,
    ) -> None:
        arguments = {"bootstrap": bootstrap, "request_timeout": request_timeout, "client_id": client_id}
        defaults = {"bootstrap": None, "request_timeout": 30.0, "client_id": None}
        settings = merge_config(ADMIN_NAMES, arguments, defaults, config or {})
        self.client_id: Final[str] = settings["client_id"] or f"ottla-admin-{next(_client_numbers)}"
        addresses = bootstrap_addresses(settings["bootstrap"])
        cluster = Cluster(addresses, _transport or grpc_transport(self.client_id))
        access = Access(cluster, seconds(settings["request_timeout"], "request_timeout"))
        self._cluster: Final = cluster
        self.topics: Final = Topics(access)
        self.configs: Final = Configs(access)
        self.cluster: Final = ClusterOverview(access)

    def close(self) -> None:
        """Let go of the connections."""
        self._cluster.close()

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One registered broker; `kafka_address` is "" while it serves no Kafka listener."""

    id: int
    address: str
    kafka_address: str
    rack: str
    fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster: `controller_id` is -1 and `controller_address` "" while none is elected."""

    cluster_id: str
    controller_id: int
    controller_address: str
    brokers: tuple[BrokerInfo, ...]


class ClusterOverview:
    """The cluster as a whole."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def describe(self, *, timeout: Duration | None = None) -> ClusterInfo:
        """Its id, its controller and its brokers by id."""
        deadline = self._access.deadline(timeout)
        view = self._access.cluster.fetch_metadata(timeout=deadline.left())
        brokers = (
            BrokerInfo(b.id, b.address, b.kafka_address, b.rack, b.fenced) for _, b in sorted(view.brokers.items())
        )
        return ClusterInfo(view.cluster_id, view.controller_id, view.controller, tuple(brokers))
