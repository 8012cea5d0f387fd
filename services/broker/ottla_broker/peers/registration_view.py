"""The way in which this broker identifies itself to the controller and to other brokers: its id and its incarnation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.producer_ids import Registered

UNREGISTERED = -1


class BrokerEpoch(NamedTuple):
    """`epoch` is that of the registration (KIP-631), or UNREGISTERED before the first one."""

    broker_id: int
    epoch: int


class RegistrationView:
    """The broker's registration, as the metadata shows it to the broker itself."""

    def __init__(
        self, metadata: MetadataFollower, incarnation: str, node_id: Callable[[], int], secret: bytes = b""
    ) -> None:
        self.secret: Final = secret  # it is in the registration, and in each request as this broker
        self._metadata = metadata
        self.incarnation: Final = incarnation
        self._node_id = node_id
        self._epoch = UNREGISTERED

    def current(self) -> BrokerEpoch:
        """Return the last registration of this process. It is used until there is another, even once it has lapsed."""
        broker_id = self._node_id()
        registered = self._metadata.image.brokers.get(broker_id)
        if registered is not None and registered.incarnation == self.incarnation:
            self._epoch = registered.epoch
        return BrokerEpoch(broker_id, self._epoch)

    def registered(self) -> Registered | None:
        """Return the registration for calls to the controller, or None before the first one."""
        broker_id, epoch = self.current()
        return None if epoch == UNREGISTERED else Registered(broker_id, epoch, self.secret)
