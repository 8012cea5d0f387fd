"""This broker as it is to be registered, at the moment of each registration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla_broker.config import BrokerConfig
from ottla_broker.membership.restored_metadata import OlderMetadata
from ottla_broker.registration_view import RegistrationView
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.soundness import Incarnation
from ottla_core.cluster.image import Broker, LastIncarnation


class BrokerDescription:
    """`kafka_addresses`: by the listeners' names, the first one first."""

    def __init__(
        self,
        config: BrokerConfig,
        log_dir: Callable[[], LogDir],
        registration: RegistrationView,
        older_metadata: OlderMetadata,
        address: Callable[[], str],
        kafka_addresses: Callable[[], dict[str, str]],
    ) -> None:
        self._config: Final = config
        self._log_dir: Final = log_dir
        self._registration: Final = registration
        self._older_metadata: Final = older_metadata
        self._address: Final = address
        self._kafka_addresses: Final = kafka_addresses

    def __call__(self, newest: LastIncarnation | None) -> Broker:
        """`newest`: the newest incarnation of this broker that the store knows. A later one in the directory shows that
        the store is older than the data."""
        log_dir, incarnation = self._log_dir(), self._registration.incarnation
        identity = log_dir.identity
        known = None if newest is None else Incarnation(newest.incarnation, newest.epoch)
        if (known is None or known.incarnation != incarnation) and log_dir.compare(known):
            self._older_metadata.found(0 if known is None else known.epoch)
        kafka_addresses = self._kafka_addresses()
        return Broker(
            identity.node_id,
            0,
            identity.directory_id,
            self._address(),
            kafka_address=next(iter(kafka_addresses.values())),
            kafka_listeners=kafka_addresses,
            rack=self._config.rack,
            incarnation=incarnation,
            unclean=log_dir.may_have_lost_tail,
            read_only=bool(log_dir.disk.full),
            ahead_of=self._older_metadata.revision,
            secret=self._registration.secret,
        )
