"""An election under a lease decides which controller is the active one (feature 116).

The elected controller has put the `controller` key under its lease. The revision at which the key was created is its
epoch, and every write compares it. So two controllers that both think they are elected do no harm, because a deposed
one can't write (rule C1, feature 121). A standby waits for the key to go. A term ends with the lease, with a write
whose result can't be settled, or at the stop, which gives the key back at once; Then this process stands for election
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from ottla_controller.health import HealthWatch
from ottla_controller.journal import Journal
from ottla_controller.machines.decision import Decision
from ottla_core.clock import Clock
from ottla_core.cluster import keys
from ottla_core.cluster.codec import encode
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage, Controller
from ottla_core.cluster.session import LeaseSession
from ottla_core.cluster.store import Compare, Delete, LeaseLostError, MetaStore, Put, StoreUnavailableError
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.tasks import end_task, end_tasks
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.retry import Backoff

_STORE_TIMEOUT_S: Final = 2.0
_STANDBY_LOOK_S: Final = 60.0
_CLOSE_TIMEOUT_S: Final = 3.0

_log = logging.getLogger(__name__)


class Duty(Protocol):
    """Work that the active controller does by itself."""

    async def run(self, journal: Journal) -> None:
        """Do the work until the task is cancelled, at the end of the term. It survives any failure."""
        ...


class Leadership:
    """A component that stands for election from `start` to `stop`. `address` is what clients get: gRPC host:port.

    `prepare` is decided and written before a term serves any request. The `duties` run from then to its end.
    """

    def __init__(
        self,
        store: MetaStore,
        follower: MetadataFollower,
        cluster_id: str,
        node_id: int,
        address: Callable[[], str],
        *,
        lease_ttl_s: int,
        duties: Sequence[Duty] = (),
        prepare: Callable[[ClusterImage], Decision[None]] = lambda image: Decision(None),
        clock: Clock | None = None,
        tls: InternalTls | None = None,
    ) -> None:
        self._store = store
        self._tls = tls
        self._follower = follower
        self._cluster_id: Final = cluster_id
        self._key: Final = keys.key_text(cluster_id, keys.CONTROLLER)
        self._node_id: Final = node_id
        self._address = address
        self._lease_ttl_s: Final = lease_ttl_s
        self._duties: Final = duties
        self._prepare: Final = prepare
        self._clock = clock
        self._journal: Journal | None = None
        self._watch: HealthWatch | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def active(self) -> bool:
        """It tells whether this process serves a term."""
        return self._journal is not None

    @property
    def watches_active(self) -> bool:
        """It tells whether this standby would see at once that the active controller dies."""
        return self._watch is not None and self._watch.held

    def journal(self) -> Journal:
        """Return the journal of the current term. Raises NOT_CONTROLLER, which names the active controller if it is
        known."""
        if self._journal is None:
            raise _not_controller(self._follower.image, self._node_id)
        return self._journal

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="leadership")

    async def stop(self) -> None:
        """Finish what is being written and give the key back, so that a standby takes over at once."""
        await end_task(self._task)
        self._task = None

    async def _run(self) -> None:
        backoff = Backoff(first_s=0.1)
        while True:
            try:
                await self._stand()
                backoff.reset()
            except (StoreUnavailableError, LeaseLostError, TimeoutError, OttlaError) as error:
                if not backoff.attempts:
                    _log.warning("can't serve as the controller, retrying: %s", error)
            except Exception:
                _log.exception("the election failed, retrying")
            await asyncio.sleep(backoff.next())

    async def _stand(self) -> None:
        """Stand for election once: wait until no controller is elected, get a lease, put the key under it, and serve
        until the term is over.

        Raises if the result of the election stays unknown. Revoking the lease then removes a late key, too (rule C4).
        """
        await self._until_vacant()
        over = asyncio.Event()
        session = LeaseSession(self._store, self._lease_ttl_s, _nothing_else, on_lost=over.set)
        await session.start(timeout=_STORE_TIMEOUT_S)
        try:
            assert session.lease is not None, "it has just been granted"
            result = await self._store.txn(
                [Compare(self._key, create_revision=0)],
                [Put(self._key, self._value(), lease=session.lease)],
                timeout=_STORE_TIMEOUT_S,
            )
            if result.succeeded:
                await self._serve(result.revision, over)
        finally:
            await session.stop(timeout=_STORE_TIMEOUT_S)

    async def _until_vacant(self) -> None:
        """Wait for the key to go, and remove it as soon as the process that put it is proven dead (rule C7)."""
        while not _is_vacant(self._follower.image):
            active = self._follower.image.controller
            watch = asyncio.create_task(self._vacate_when_dead(active)) if active is not None else None
            try:
                with contextlib.suppress(TimeoutError):
                    await self._follower.wait_for(partial(_is_another, active), timeout=_STANDBY_LOOK_S)
            finally:
                await end_task(watch)

    async def _vacate_when_dead(self, active: Controller) -> None:
        """Remove the key of this very election, so that a later one is never hit. If that fails, its lease ends it."""
        self._watch = HealthWatch(active.address, self._tls)
        await self._watch.until_dead()
        _log.warning("controller %d is dead: its connection broke, and its port refuses new ones", active.id)
        mine = Compare(self._key, create_revision=active.epoch)
        with contextlib.suppress(StoreUnavailableError):
            await self._store.txn([mine], [Delete(self._key)], timeout=_STORE_TIMEOUT_S)

    def _value(self) -> bytes:
        return encode(keys.CONTROLLER, Controller(id=self._node_id, address=self._address(), epoch=0))

    async def _serve(self, epoch: int, over: asyncio.Event) -> None:
        journal = Journal(self._store, self._follower, self._cluster_id, epoch, end_term=over.set, clock=self._clock)
        duties: list[asyncio.Task[None]] = []
        try:
            await journal.open()
            await journal.commit(self._prepare)
            self._journal = journal
            _log.info("controller %d is active, epoch %d", self._node_id, epoch)
            duties = [asyncio.create_task(duty.run(journal), name=type(duty).__name__) for duty in self._duties]
            await over.wait()
        finally:
            self._journal = None
            await end_tasks(duties)
            await journal.close(_CLOSE_TIMEOUT_S)
            _log.info("controller %d is no longer active, epoch %d", self._node_id, epoch)


async def _nothing_else(lease: int) -> None:
    """Do nothing: the election registers what belongs under a candidate's lease."""


def _is_vacant(image: ClusterImage) -> bool:
    return image.revision > 0 and image.controller is None


def _is_another(active: Controller | None, image: ClusterImage) -> bool:
    """Return whether another controller leads now, or none. At the start, return whether there is an image at all."""
    return (image.revision > 0 and image.controller != active) or _is_vacant(image)


def _not_controller(image: ClusterImage, node_id: int) -> OttlaError:
    active = image.controller
    if active is None:
        return OttlaError(ErrorCode.NOT_CONTROLLER, "no controller is currently elected", hint="try again")
    if active.id == node_id:
        return OttlaError(
            ErrorCode.NOT_CONTROLLER, f"controller {node_id} is just starting or ending its term", hint="try again"
        )
    return OttlaError(
        ErrorCode.NOT_CONTROLLER,
        f"controller {node_id} is a standby; the active controller is {active.id}",
        hint=f"send the request to {active.address}",
    )
