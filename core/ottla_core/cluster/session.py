"""A process's session with the cluster: one lease, kept alive as long as the event loop runs, granted anew when lost.

The keep-alive runs in the loop that serves the log (rule C7): a session that outlives a hung loop would be worse than
none. Only etcd says that a lease is lost (rules C6 and C12): while the store does not answer, the session asks on for
the lease it has, and nobody fences itself. A lost lease is replaced, and the owner registers again under the new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla_core.cluster.store import LeaseLostError, MetaStore, StoreUnavailableError
from ottla_core.errors import OttlaError
from ottla_core.rpc.retry import Backoff
from ottla_core.tasks import end_task

RETRY_S: Final = 0.5  # well inside a lease of 3 s

_log = logging.getLogger(__name__)


class LeaseSession:
    """Keeps one lease of `ttl_s` seconds.

    `register(lease)` puts the owner's keys under a new lease. It is awaited once a lease, again where it raised or
    `register_again` was called, and must read back what a failed put has left (rule C4); the lease is kept alive
    meanwhile. `on_lost()` is called when a lease turned out to be gone, and its keys with it, before the next one is
    asked for.
    """

    def __init__(
        self,
        store: MetaStore,
        ttl_s: int,
        register: Callable[[int], Awaitable[None]],
        *,
        on_lost: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._ttl_s: Final = ttl_s
        self._keep_alive_s: Final = ttl_s / 3
        self._register = register
        self._on_lost = on_lost
        self._sleep = sleep
        self._lease: int | None = None
        self._registered = False
        self._again = False
        self._resting: asyncio.Future[None] | None = None
        self._trouble = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def lease(self) -> int | None:
        """The lease under which the owner is registered; None between a loss and the next registration."""
        return self._lease if self._registered else None

    async def start(self, timeout: float) -> None:
        """Get a lease and register, then keep it alive in the background.

        Raises what the first registration raised (such as "id in use"), or StoreUnavailableError where the store did
        not grant a lease: whoever starts wants to know.
        """
        self._lease = await self._store.grant_lease(self._ttl_s, timeout=timeout)
        try:
            await self._register_under(self._lease)
        except BaseException:
            await self.stop(timeout)
            raise
        self._task = asyncio.create_task(self._run(), name="lease-session")

    def register_again(self) -> None:
        """The owner's keys are gone, though the lease may hold: somebody deleted them. They are put again at once."""
        self._registered, self._again = False, True
        if self._resting is not None:
            self._resting.cancel()

    async def stop(self, timeout: float) -> None:
        """Revoke the lease: the registration goes at once. A store that is away lets it run out instead."""
        await self.abandon()
        if self._lease is not None:
            with contextlib.suppress(StoreUnavailableError):
                await self._store.revoke_lease(self._lease, timeout=timeout)
        self._lose()

    async def abandon(self) -> None:
        """Keep the lease alive no longer, and let it run out, as the end of the process would."""
        await end_task(self._task)
        self._task = None

    async def _run(self) -> None:
        """Keep alive, and come back from whatever happens; without a session this process is nobody.

        Who has lost its lease, or can't register, is in no hurry to be one of a crowd. Who can't renew is: the lease
        runs out.
        """
        backoff = Backoff(first_s=RETRY_S, most_s=self._keep_alive_s)
        renewed = True
        while True:
            if renewed:
                backoff.reset()
                await self._rest(self._keep_alive_s)
            else:
                await self._rest(RETRY_S if self._registered else backoff.next())
            try:
                await self._renew()
                renewed, self._trouble = self._registered, ""
            except Exception as error:
                renewed = False
                self._tell(error)

    async def _rest(self, seconds: float) -> None:
        """Sleep, until `register_again` at most."""
        self._resting = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait({self._resting})
        finally:
            self._resting.cancel()

    def _tell(self, error: Exception) -> None:
        """Log what keeps us from a session, once while it stays the same; what nobody has foreseen with its origin."""
        trouble = repr(error)
        if trouble != self._trouble:
            known = isinstance(error, OttlaError | StoreUnavailableError)
            level = logging.WARNING if known else logging.ERROR
            _log.log(level, "can't keep the session, trying on: %s", error, exc_info=None if known else error)
        self._trouble = trouble

    async def _renew(self) -> None:
        """One step towards a registered lease: ask for one or keep it alive, register under it, or find it lost."""
        try:
            if self._lease is None:
                self._lease = await self._store.grant_lease(self._ttl_s, timeout=self._keep_alive_s)
            else:
                await self._store.keep_alive(self._lease, timeout=self._keep_alive_s)
            if not self._registered:
                await self._register_under(self._lease)
        except LeaseLostError as lost:
            _log.warning("lost the session: %s; registering again", lost)
            self._lose()
            self._on_lost()

    async def _register_under(self, lease: int) -> None:
        """Register, which may take longer than the lease lives, and keep it alive meanwhile."""
        self._again = False
        registration = asyncio.ensure_future(self._register(lease))
        try:
            while not (await asyncio.wait({registration}, timeout=self._keep_alive_s))[0]:
                with contextlib.suppress(StoreUnavailableError):
                    await self._store.keep_alive(lease, timeout=self._keep_alive_s)
            registration.result()
        finally:
            registration.cancel()
            await asyncio.gather(registration, return_exceptions=True)
        self._registered = not self._again  # else what was put is gone already

    def _lose(self) -> None:
        self._lease, self._registered = None, False
