"""Admin: topics, partitions, configs, groups, transactions, ACLs, users and the cluster.

Methods return when their effect is visible.

    admin = ottla.Admin()
    admin.topics.create("orders", partitions=12, config={"retention.ms": "7d"}, if_exists="ok")

Changes go to the controller, which any broker can name; if it moves meanwhile, the call follows it until its deadline.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Never, Self

from ottla.admin.acls import Acls
from ottla.admin.configs import Configs
from ottla.admin.controller_channel import ControllerChannel, Deadline
from ottla.admin.groups import Groups
from ottla.admin.partitions import Partitions
from ottla.admin.topics import Topics
from ottla.admin.transactions import Transactions
from ottla.admin.users import Users
from ottla.client.cluster import ClusterClient
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.kafka_descriptions import DescribedBroker, DescribedCluster, describe_cluster
from ottla.client.log_dirs import LogDirInfo, described_log_dirs
from ottla.client.security.logins import Login
from ottla.client.security.security import security_of
from ottla.client.security.tls import Tls
from ottla.client.settings import ADMIN_NAMES, bootstrap_addresses, merge_config, reject_unknown
from ottla.client.transport import Transport
from ottla.client.units import Duration, seconds
from ottla.errors import ErrorCode, error_from_code

_client_numbers = itertools.count(1)


class Admin:
    """Manages a cluster. Thread-safe.

    Its parts are `topics`, `partitions`, `configs`, `groups`, `transactions`, `acls`, `users` and `cluster`.

    Args:
        bootstrap: addresses of brokers, "host:port,…" or a list; by default OTTLA_BOOTSTRAP, then localhost:9092.
        request_timeout: seconds that a method may take, unless you pass `timeout` to it.
        connect_timeout: seconds that the client waits at startup for a first response from any broker; increase it if
            brokers may start after the client. After that first response, the other timeouts limit how long the client
            waits in an outage.
        login: how the client logs in (SASL): an ottla.Scram, ottla.Plain or ottla.OAuthBearer.
        tls: True, or an ottla.Tls, if brokers expect TLS.
        client_id: the name of this client in logs and quotas.
        config: settings under Kafka's names.

    Every method raises ConnectError or ottla.TimeoutError if no broker answers in time. It also raises any error that
    the controller returns.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        request_timeout: Duration = 30.0,
        connect_timeout: Duration = 5.0,
        login: Login | None = None,
        tls: Tls | bool | None = None,
        client_id: str | None = None,
        config: Mapping[str, Any] | None = None,
        _transport: Transport | None = None,
        **unknown: Never,
    ) -> None:
        reject_unknown("Admin", unknown, ADMIN_NAMES)
        defaults = {"bootstrap": None, "request_timeout": 30.0, "connect_timeout": 5.0, "client_id": None}
        arguments = {
            "login": login,
            "tls": tls,
            "bootstrap": bootstrap,
            "request_timeout": request_timeout,
            "connect_timeout": connect_timeout,
            "client_id": client_id,
        }
        settings = merge_config(ADMIN_NAMES, arguments, defaults, config or {})
        self.client_id: Final[str] = settings["client_id"] or f"ottla-admin-{next(_client_numbers)}"
        addresses = bootstrap_addresses(settings["bootstrap"])
        connect_s = seconds(settings["connect_timeout"], "connect_timeout")
        security = security_of(settings["login"], settings["tls"])
        transport = _transport or KafkaTransport(self.client_id, security)
        cluster = ClusterClient(addresses, transport, connect_timeout=connect_s)
        channel = ControllerChannel(cluster, seconds(settings["request_timeout"], "request_timeout"))
        self._cluster: Final = cluster
        self.topics: Final = Topics(channel)
        self.partitions: Final = Partitions(channel)
        self.configs: Final = Configs(channel)
        self.groups: Final = Groups(channel)
        self.transactions: Final = Transactions(channel)
        self.acls: Final = Acls(channel)
        self.users: Final = Users(channel)
        self.cluster: Final = ClusterOverview(channel)

    def __repr__(self) -> str:
        return f"Admin(client_id={self.client_id!r})"

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One registered broker.

    `kafka_address` is the address of the broker's first Kafka listener, or "" if it has no Kafka listener.
    `kafka_listeners` maps the name of each listener to its address; it is empty if the broker runs an older release.

    `epoch` increases with each registration of the broker. A `fenced` broker has just started or stopped, and can't
    lead partitions. A `read_only` broker can't write to its disk, so it leads only partitions that no other broker can
    lead. Kafka's clusters do not report `epoch` (then -1), `kafka_listeners` (empty) and `read_only` (False).
    """

    id: int
    address: str
    kafka_address: str
    rack: str
    fenced: bool
    epoch: int = -1
    kafka_listeners: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster.

    If no controller is elected, `controller_id` and `controller_epoch` are -1 and `controller_address` is "". In one of
    Kafka's clusters, the controller is the broker that takes requests for it, and `controller_epoch` is -1.
    """

    cluster_id: str
    controller_id: int
    controller_address: str
    brokers: tuple[BrokerInfo, ...]
    controller_epoch: int = -1


class ClusterOverview:
    """The cluster as a whole."""

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel = channel

    def describe(self, *, timeout: Duration | None = None) -> ClusterInfo:
        """Return the cluster's id, its controller, and its brokers by id."""
        deadline = self._channel.deadline(timeout)
        described = self._described(deadline)
        brokers = (
            BrokerInfo(
                b.id, b.address, b.first_listener, b.rack, b.is_fenced, b.epoch, dict(b.listeners), b.is_read_only
            )
            for b in sorted(described.brokers, key=lambda b: b.id)
        )
        return ClusterInfo(
            described.cluster_id,
            described.controller_id,
            described.controller_address,
            tuple(brokers),
            described.controller_epoch,
        )

    def _described(self, deadline: Deadline) -> DescribedCluster:
        cluster = self._channel.cluster
        if (described := describe_cluster(cluster, timeout=deadline.left())) is not None:
            return described
        view = cluster.fetch_metadata(timeout=deadline.left())
        brokers = [DescribedBroker(b.id, b.address, b.rack) for b in view.brokers.values()]
        return DescribedCluster(view.cluster_id, brokers, view.controller_id, view.controller)

    def declare_restored(self, *, timeout: Duration | None = None) -> int:
        """Declare that etcd was restored from a backup, so its leaders and ISRs are older than the logs.

        Leaders are then elected by what the logs hold, once enough brokers are up to know which replicas have every
        acknowledged record. Returns how many times the metadata has been restored so far. Raises ConnectError,
        ottla.TimeoutError.
        """
        from ottla.admin.private_calls import restoration

        return self._channel.exchange(restoration(), self._channel.deadline(timeout)).response

    def log_dirs(self, broker: int, *, timeout: Duration | None = None) -> tuple[LogDirInfo, ...]:
        """Return a broker's data directories, as it describes them. Raises FatalError if it is not registered."""
        deadline = self._channel.deadline(timeout)
        known = self._channel.cluster.fetch_metadata(timeout=deadline.left()).brokers.get(broker)
        if known is None:
            raise error_from_code(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
        found = self._channel.cluster.exchange(known.address, described_log_dirs(), timeout=deadline.left())
        for directory in found:
            if directory.error is not None:
                raise directory.error
        return found
