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
        """`newest` is the newest life of this broker that the store knows; one later than that here says that the store
        is older than the data."""
        log_dir, incarnation = self._log_dir(), self._registration.incarnation
        identity = log_dir.identity
        life = None if newest is None else Incarnation(newest.incarnation, newest.epoch)
        if (life is None or life.incarnation != incarnation) and log_dir.compare(life):
            self._older_metadata.found(0 if life is None else life.epoch)
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
