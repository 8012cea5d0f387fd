"""The description of this broker for its registration, made at each registration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla_broker.config import BrokerConfig
from ottla_broker.membership.restored_metadata import OlderMetadata
from ottla_broker.peers.registration_view import RegistrationView
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.soundness import Incarnation
from ottla_core.cluster.image import Broker, LastIncarnation


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """Describes this broker. `kafka_addresses` are by the listeners' names, the first one first."""

    config: BrokerConfig
    log_dir: Callable[[], LogDir]
    registration: RegistrationView
    older_metadata: OlderMetadata
    address: Callable[[], str]
    kafka_addresses: Callable[[], dict[str, str]]

    def __call__(self, newest: LastIncarnation | None) -> Broker:
        """Return the description. `newest` is the newest incarnation of this broker that the store knows. If the
        directory has a later one, the store is older than the data."""
        log_dir, incarnation = self.log_dir(), self.registration.incarnation
        identity = log_dir.identity
        known = None if newest is None else Incarnation(newest.incarnation, newest.epoch)
        renewals = 0 if newest is None else newest.renewals
        if (known is None or known.incarnation != incarnation) and log_dir.compare(known, renewals):
            self.older_metadata.found(0 if known is None else known.epoch)
        kafka_addresses = self.kafka_addresses()
        return Broker(
            identity.node_id,
            0,
            identity.directory_id,
            self.address(),
            kafka_address=next(iter(kafka_addresses.values())),
            kafka_listeners=kafka_addresses,
            rack=self.config.rack,
            incarnation=incarnation,
            unclean=log_dir.may_have_lost_tail,
            read_only=bool(log_dir.disk.full),
            ahead_of=self.older_metadata.revision,
            secret=self.registration.secret,
        )
