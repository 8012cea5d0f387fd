"""A process's session with the cluster: one lease, which is kept alive as long as the event loop runs, and replaced
when it is lost.

The keep-alive runs in the loop that serves the log (rule C7): a session that outlives a hung loop would be worse than
none. A starved loop takes many turns to send a renewal and to hear of it. So each renewal is sent when its time has
come, and its answer may come at any time, because only its arrival at etcd counts (docs/adr/0012). Only etcd says that
a lease is lost. While the store does not answer, the session goes on renewing the lease that it has, and no service
fences itself (rule C12). A lost lease is replaced, and the owner registers again under the new one (rule C6).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla_core.cluster.store import LeaseLostError, MetaStore, StoreUnavailableError
from ottla_core.errors import OttlaError
from ottla_core.event_loop.tasks import end_task
from ottla_core.rpc.retry import Backoff
from ottla_core.telemetry import Counter

RETRY_S: Final = 0.5  # well inside a lease of 3 s
RENEWALS: Final = 6
"""The number of renewals in a lease's time. The lease outlives a loop that stands still for nearly five sixths of
it."""

_log = logging.getLogger(__name__)


class LeaseSession:
    """Keeps one lease of `ttl_s` seconds.

    `register(lease)` puts the owner's keys under a new lease. It is awaited once per lease, and again if it raised or
    `register_again` was called. It must read back what a failed put has left (rule C4). The lease is kept alive during
    that. `on_lost()` is called when a lease turned out to be gone, and its keys with it, before the next lease is
    requested. `losses` counts these losses.
    """

    def __init__(
        self,
        store: MetaStore,
        ttl_s: int,
        register: Callable[[int], Awaitable[None]],
        *,
        on_lost: Callable[[], None] = lambda: None,
        losses: Counter | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._ttl_s: Final = ttl_s
        self._keep_alive_s: Final = ttl_s / RENEWALS
        self._register = register
        self._on_lost = on_lost
        self._losses: Final = losses or Counter()
        self._sleep = sleep
        self._lease: int | None = None
        self._registered = False
        self._again = False
        self._renewals: Final[dict[asyncio.Future[int], None]] = {}  # those without an answer yet
        self._renewed = True  # what the last answer said
        self._resting: asyncio.Future[None] | None = None
        self._trouble = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def lease(self) -> int | None:
        """This is the lease under which the owner is registered. It is None between a loss and the next
        registration."""
        return self._lease if self._registered else None

    async def start(self, timeout: float) -> None:
        """Get a lease and register, then keep it alive in the background.

        Raises what the first registration raised (such as "id in use"), or StoreUnavailableError if the store did not
        grant a lease, or has ended it by then. The start has to fail in these cases.
        """
        self._lease = await self._store.grant_lease(self._ttl_s, timeout=timeout)
        try:
            await self._register_under(self._lease)
        except LeaseLostError as error:
            await self.stop(timeout)
            message = (
                f"the session ended before this process was registered, which took too long: {error}; start it again"
            )
            raise StoreUnavailableError(message, indefinite=True) from None
        except BaseException:
            await self.stop(timeout)
            raise
        self._task = asyncio.create_task(self._run(), name="lease-session")

    def register_again(self) -> None:
        """Put the owner's keys again at once, because they are gone although the lease may hold: they were deleted by
        hand."""
        self._registered, self._again = False, True
        if self._resting is not None:
            self._resting.cancel()

    async def stop(self, timeout: float) -> None:
        """Revoke the lease, so that the registration goes at once. If the store is away, the lease runs out instead."""
        await self.abandon()
        if self._lease is not None:
            with contextlib.suppress(StoreUnavailableError):
                await self._store.revoke_lease(self._lease, timeout=timeout)
        self._lose()

    async def abandon(self) -> None:
        """Keep the lease alive no longer, and let it run out, as the end of the process would."""
        await end_task(self._task)
        self._task = None
        for renewal in self._renewals:
            renewal.cancel()
        await asyncio.gather(*self._renewals, return_exceptions=True)

    async def _run(self) -> None:
        """Keep the lease alive, and recover from any failure, because without a session this process is unknown to the
        cluster.

        A process that lost its lease, or can't register, waits, so that no crowd comes at once. One that can't renew
        hurries, because the lease runs out.
        """
        backoff = Backoff(first_s=RETRY_S, most_s=self._ttl_s / 3)
        succeeded = True
        while True:
            if not self._registered:
                await self._rest(backoff.next())
            elif succeeded:
                backoff.reset()
                await self._rest(self._keep_alive_s if self._renewed else RETRY_S)
            if self._registered and self._lease is not None:
                succeeded = await self._renew(self._lease)
            else:
                succeeded = True
                await self._come_back()

    async def _rest(self, seconds: float) -> None:
        """Sleep this long, or until `register_again`."""
        self._resting = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait({self._resting})
        finally:
            self._resting.cancel()

    def _report(self, error: Exception) -> None:
        """Log what prevents a session, once for each cause. An unforeseen error is logged with its traceback."""
        trouble = repr(error)
        if trouble != self._trouble:
            known = isinstance(error, OttlaError | StoreUnavailableError)
            level = logging.WARNING if known else logging.ERROR
            _log.log(level, "can't keep the session, retrying: %s", error, exc_info=None if known else error)
        self._trouble = trouble

    async def _renew(self, lease: int) -> bool:
        """Renew the lease. Return whether the answer came before the next renewal is due. The answer is used whenever
        it comes."""
        renewal = asyncio.ensure_future(self._store.keep_alive(lease, timeout=self._ttl_s))
        self._renewals[renewal] = None
        renewal.add_done_callback(lambda _: self._on_renewal(lease, renewal))
        return bool((await asyncio.wait({renewal}, timeout=self._keep_alive_s))[0])

    def _on_renewal(self, lease: int, renewal: asyncio.Future[int]) -> None:
        self._renewals.pop(renewal, None)
        if renewal.cancelled():
            return
        error = renewal.exception()  # retrieved, or asyncio would log it
        if lease != self._lease:
            return  # another answer has said that it is lost
        self._renewed = error is None
        if isinstance(error, LeaseLostError):
            self._on_lease_lost(lease, error)
        elif isinstance(error, Exception):
            self._report(error)
        else:
            self._trouble = ""

    async def _come_back(self) -> None:
        """Take one step towards a registered lease: get one or keep it alive, and register under it."""
        lease = self._lease
        try:
            if lease is None:
                lease = self._lease = await self._store.grant_lease(self._ttl_s, timeout=self._ttl_s / 3)
            else:
                await self._store.keep_alive(lease, timeout=self._ttl_s / 3)
            await self._register_under(lease)
            self._renewed, self._trouble = True, ""
        except LeaseLostError as error:
            self._on_lease_lost(lease, error)
        except Exception as error:
            self._report(error)

    def _on_lease_lost(self, lease: int | None, error: LeaseLostError) -> None:
        if lease != self._lease:
            return  # an answer to another renewal has said so before
        _log.warning("lost the session: %s; registering again", error)
        self._losses.value += 1
        self._lose()
        self._on_lost()

    async def _register_under(self, lease: int) -> None:
        """Register, and keep the lease alive during that, because it may take longer than the lease lasts."""
        self._again = False
        registration = asyncio.ensure_future(self._register(lease))
        try:
            while not (await asyncio.wait({registration}, timeout=self._keep_alive_s))[0]:
                with contextlib.suppress(StoreUnavailableError):
                    await self._store.keep_alive(lease, timeout=self._ttl_s / 3)
            registration.result()
        finally:
            registration.cancel()
            await asyncio.gather(registration, return_exceptions=True)
        # Otherwise what was put is gone already: it was deleted, or an older renewal has reported that the lease is
        # lost.
        self._registered = not self._again and lease == self._lease

    def _lose(self) -> None:
        self._lease, self._registered = None, False
