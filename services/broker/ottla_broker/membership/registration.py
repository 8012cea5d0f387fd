"""The broker's registration in the cluster: one key under a lease, whose create_revision is the broker epoch (KIP-631).

A key of the same data directory is this broker's former incarnation: it is removed and put again, which is a death and
a birth with a larger epoch. A key of another directory means that the id is taken, and the broker does not start. It
registers fenced, and is unfenced once it has applied metadata up to its own registration (rules C8 and 22). If its logs
may lack acknowledged records, it says so, and is unfenced only after it has left every ISR and ELR (rule C15).

Later, a key that is gone is put again. If another process has the registration, it keeps it, and this process ends.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode, encode
from ottla_core.cluster.image import Broker, ClusterImage, LastIncarnation
from ottla_core.cluster.leased_key import CALL_S, alter, put_anew, read_key
from ottla_core.cluster.session import LeaseSession
from ottla_core.cluster.store import Compare, KeyValue, MetaStore, Put, StoreUnavailableError
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.telemetry import Counter

_log = logging.getLogger(__name__)

_START_S: Final = 10.0


class Registration:
    """A component that registers this broker. `describe(newest)` returns its description, at the moment of each
    registration. `newest` is its newest incarnation, which the store keeps after the registration is gone (rule C17).
    `applied(revision, epoch)` returns once that revision of the metadata is applied here.

    `on_replaced(error)` is called, after the start, if another process has its registration, or its id.
    """

    def __init__(
        self,
        store: MetaStore,
        cluster_id: str,
        broker_id: Callable[[], int],
        ttl_s: int,
        describe: Callable[[LastIncarnation | None], Broker],
        applied: Callable[[int, int], Awaitable[None]],
        on_replaced: Callable[[OttlaError], None] = lambda error: None,
        leases_lost: Counter | None = None,
    ) -> None:
        self._store = store
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._describe = describe
        self._applied = applied
        self._on_replaced = on_replaced
        self._session = LeaseSession(store, ttl_s, self._register, losses=leases_lost)
        self._started = False
        self._put_at: int | None = None  # the revision since which the key has to exist
        self._me: tuple[int, str] | None = None  # id and incarnation, as they were put

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        """Register again if this broker's key was deleted. If another process has the registration and the data, or a
        copy of it, end this process: one must go, and the other has the registration (rule 22)."""
        if self._put_at is None or new.revision < self._put_at:
            return
        assert self._me is not None, "it was put"
        broker_id, incarnation = self._me
        seated = new.brokers.get(broker_id)
        if seated is None:
            _log.warning("the registration of broker %d is gone; registering again", broker_id)
            self._put_at = None
            self._session.register_again()
        elif seated.incarnation != incarnation:
            self._on_replaced(
                OttlaError(
                    ErrorCode.STALE_BROKER_EPOCH,
                    f"another process, at {seated.address}, has registered as broker {broker_id}",
                    hint="only one process may run on a broker's data directory, or on a copy of it",
                )
            )

    @property
    def registered(self) -> bool:
        return self._session.lease is not None

    async def start(self) -> None:
        await self._session.start(_START_S)
        self._started = True

    async def stop(self) -> None:
        self._put_at = None
        await self._session.stop(CALL_S)

    async def kill(self) -> None:
        self._put_at = None
        await self._session.abandon()

    async def _register(self, lease: int) -> None:
        incarnation_key, entry = await self._newest_incarnation()
        newest = None if entry is None else decode(incarnation_key, entry)
        broker = self._describe(newest)
        # A later registration of this incarnation keeps what it has reported. Another directory counts from the start.
        renewals = newest.renewals if newest is not None and newest.incarnation == broker.incarnation else 0
        last = LastIncarnation(broker.incarnation, broker.directory_id, renewals=renewals)
        try:
            put = await self._put_fenced(replace(broker, fenced=True), incarnation_key, entry, last, lease)
        except OttlaError as error:
            if self._started and error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                self._on_replaced(error)
            raise
        self._me, self._put_at = (broker.id, broker.incarnation), put.mod_revision
        await self._applied(put.mod_revision, put.create_revision)
        await self._unfence(keys.broker(broker.id), put)
        _log.info("registered as broker %d, epoch %d, at %s", broker.id, put.create_revision, broker.address)

    async def _newest_incarnation(self) -> tuple[keys.Key, KeyValue | None]:
        key = keys.last_incarnation(self._broker_id())
        return key, await read_key(self._store, keys.key_text(self._cluster_id, key))

    async def _put_fenced(
        self, broker: Broker, incarnation_key: keys.Key, newest: KeyValue | None, last: LastIncarnation, lease: int
    ) -> KeyValue:
        """Put the registration, fenced, and in the same transaction the broker's newest incarnation (rule C17)."""
        key = keys.broker(broker.id)
        text, incarnation_text = (keys.key_text(self._cluster_id, k) for k in (key, incarnation_key))
        return await put_anew(
            self._store,
            text,
            encode(key, broker),
            lease,
            lambda entry: self._check_own(decode(key, entry), broker),
            seen=(Compare(incarnation_text, mod_revision=0 if newest is None else newest.mod_revision),),
            also=(Put(incarnation_text, encode(incarnation_key, last)),),
        )

    async def _unfence(self, key: keys.Key, put: KeyValue) -> None:
        """Unfence the registration. What the controller has changed in it since stays."""

        def unfenced(entry: KeyValue) -> bytes | None:
            ours = entry.create_revision == put.create_revision
            return encode(key, replace(decode(key, entry), fenced=False, unclean=False)) if ours else None

        if not await alter(self._store, put.key, unfenced):
            raise StoreUnavailableError(
                "the registration was gone or had changed before the broker was unfenced", indefinite=False
            )

    def _check_own(self, registered: Broker, broker: Broker) -> None:
        if registered.directory_id != broker.directory_id:
            raise OttlaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"broker id {broker.id} is in use by {registered.address}, which has another data directory",
                hint="give this broker another node id, or wait until the other broker's registration has expired",
            )
