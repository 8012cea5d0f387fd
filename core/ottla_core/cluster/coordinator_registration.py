"""A coordinator's registration in the cluster: one key under a lease, whose create_revision is its incarnation.

A key of the same kind and id belongs to a former process, which may still run. The key is removed and put again, and
the former process ends itself once it sees that (`on_replaced`). So the newest process is registered, and each has its
own incarnation, to which shards are given. If a key is gone while its process runs, it is put again, also under another
incarnation: a process that was thought dead has to get its shards again. In this case it replaces no other key, because
another process that has registered by then is the newer one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode, encode
from ottla_core.cluster.image import ClusterImage, Coordinator
from ottla_core.cluster.leased_key import CALL_S, put_anew
from ottla_core.cluster.session import LeaseSession
from ottla_core.cluster.store import MetaStore
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.telemetry import Counter

_log = logging.getLogger(__name__)

_START_S: Final = 10.0


class CoordinatorRegistration:
    """A component. `describe()` returns the coordinator's description for its registration. Its `incarnation` is the
    process's.

    `on_image` is for the metadata follower. `on_replaced(error)` is called if another process has registered.
    """

    def __init__(
        self,
        store: MetaStore,
        cluster_id: str,
        ttl_s: int,
        describe: Callable[[], Coordinator],
        on_replaced: Callable[[OttlaError], None] = lambda error: None,
        leases_lost: Counter | None = None,
    ) -> None:
        self._store = store
        self._cluster_id: Final = cluster_id
        self._describe = describe
        self._on_replaced = on_replaced
        self._session = LeaseSession(store, ttl_s, self._register, on_lost=self._on_lost, losses=leases_lost)
        self._epoch: int | None = None
        self._put_at: int | None = None  # the revision since which the key has to exist
        self._was_registered = False

    @property
    def epoch(self) -> int | None:
        """This is the epoch of the present registration. It is None before the first one, and between a loss and the
        next."""
        return self._epoch if self._session.lease is not None else None

    async def start(self) -> None:
        await self._session.start(_START_S)

    async def stop(self) -> None:
        """End the registration, so that the shards go to other coordinators at once."""
        self._put_at = None
        await self._session.stop(CALL_S)

    async def kill(self) -> None:
        self._put_at = None
        await self._session.abandon()

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        if self._put_at is None or new.revision < self._put_at:
            return
        me = self._describe()
        registered = new.coordinators.get((me.kind, me.id))
        if registered is None:
            _log.warning("the registration of %s coordinator %d is gone; registering again", me.kind, me.id)
            self._on_lost()
            self._session.register_again()
        elif registered.incarnation != me.incarnation:
            self._on_replaced(_replaced(registered))

    def _on_lost(self) -> None:
        self._epoch = self._put_at = None

    async def _register(self, lease: int) -> None:
        me = self._describe()
        key = keys.coordinator(me.kind, me.id)
        text = keys.key_text(self._cluster_id, key)
        put = await put_anew(
            self._store, text, encode(key, me), lease, lambda entry: self._check_former(decode(key, entry))
        )
        self._was_registered = True
        self._epoch, self._put_at = put.create_revision, put.mod_revision
        _log.info("registered as %s coordinator %d, epoch %d, at %s", me.kind, me.id, put.create_revision, me.address)

    def _check_former(self, registered: Coordinator) -> None:
        if self._was_registered and registered.incarnation != self._describe().incarnation:
            error = _replaced(registered)
            self._on_replaced(error)
            raise error


def _replaced(registered: Coordinator) -> OttlaError:
    return OttlaError(
        ErrorCode.STALE_BROKER_EPOCH,
        f"another process, at {registered.address}, has registered as {registered.kind} coordinator {registered.id}",
        hint="give each coordinator of the same kind its own id",
    )
