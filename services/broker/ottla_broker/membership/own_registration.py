"""A broker's reports between its registrations, written to its own key by compare and set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode, encode
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.leased_key import alter
from ottla_core.cluster.store import KeyValue, MetaStore


class OwnRegistration:
    """The registration of this process, whose `incarnation` it has. The registration of another incarnation is not
    changed."""

    def __init__(
        self, store: MetaStore, metadata: MetadataFollower, broker_id: Callable[[], int], incarnation: str
    ) -> None:
        self._store: Final = store
        self._metadata: Final = metadata
        self._broker_id: Final = broker_id
        self._incarnation: Final = incarnation

    async def tell(self, **fields: Any) -> bool:
        """Set these fields of the registration. Return whether it has them; if not, a later call tries again. Raises
        StoreUnavailableError."""
        broker_id = self._broker_id()
        seen = self._metadata.image.brokers.get(broker_id)
        if seen is None or seen.fenced or seen.incarnation != self._incarnation:
            return False
        if seen == replace(seen, **fields):
            return True
        key = keys.broker(broker_id)

        def reported(entry: KeyValue) -> bytes | None:
            registered = decode(key, entry)
            mine = registered.incarnation == self._incarnation
            return encode(key, replace(registered, **fields)) if mine else None

        return await alter(self._store, keys.key_text(self._metadata.image.cluster_id, key), reported)
