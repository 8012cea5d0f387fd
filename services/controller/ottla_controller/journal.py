"""The journal makes decisions durable: it is the one way in which this process writes cluster state.

Two things may go wrong when an elected controller writes. It may have been replaced without knowing it, and a call to
the store may fail after the store has carried it out. A journal belongs to one term and rules out both.

*The fence.* Each transaction compares the controller's own key (I7). Once another controller is elected, no write of
this term succeeds, however late it arrives.

*One at a time.* Each transaction also compares `seq`, and bumps it. So at most one transaction follows another,
whatever was delayed on the way. That makes an unknown result simple. The same transaction is sent again. Either it is
rejected, because its first sending had succeeded, which reading back shows, or it is carried out now. If that can't be
settled in time the term ends, and the fence with it.

Each decision is made from an image that holds all decisions before it, and the transaction compares what it relied on.
The caller gets its response when this process's image holds the change too, so it can read what was written.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from ottla_controller.machines.decision import Decision, DecisionBatch, ReliedOn, Write, batches
from ottla_controller.machines.topics import decide_remove_orphans
from ottla_controller.turns import Turns
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode, encode
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.history import MAX_TERMS, Term
from ottla_core.cluster.image import Broker, Change, ClusterImage
from ottla_core.cluster.store import Compare, Delete, KeyValue, LeaseLostError, MetaStore, Put, StoreUnavailableError
from ottla_core.errors import ErrorCode, OttlaError

STORE_TIMEOUT_S: Final = 2.0
# The term ends if an unknown result can't be settled for this long. Nothing is decided in the meantime, and another
# controller may reach a store that this one does not.
UNKNOWN_LIMIT_S: Final = 3.0
IMAGE_TIMEOUT_S: Final = 2.0
# The follower hears of a healthy store every two seconds. After a longer silence requests fail at once, because
# waiting for the store would use up their time.
SILENCE_LIMIT_S: Final = 5.0
# A decision that has lost this many races is given up, so that a restless cluster can't keep a request for ever (I12).
MAX_RACES: Final = 5
MAX_WAITING: Final = 1_000  # requests; each holds its message in memory (I13)
_RETRY_S: Final = 0.1

Response = TypeVar("Response")

_log = logging.getLogger(__name__)


class _LostRaceError(Exception):
    """Something that the decision relied on has changed. Nothing was written."""


class Journal:
    """Writes for the term whose controller key was created at revision `epoch`. `end_term` is called when the term is
    over."""

    def __init__(
        self,
        store: MetaStore,
        follower: MetadataFollower,
        cluster_id: str,
        epoch: int,
        *,
        end_term: Callable[[], None],
        clock: Clock | None = None,
    ) -> None:
        self.epoch: Final = epoch
        self._store = store
        self._follower = follower
        self._cluster_id: Final = cluster_id
        self._end_term = end_term
        self._clock = clock or SystemClock()
        self._seq = 0
        self._seq_revision = 0
        # It tells whether a controller, in this term or before, may have left a decision half-written.
        self._untidy = True
        self._over: str | None = None
        self._turns = Turns(MAX_WAITING)
        self._running: set[asyncio.Task[object]] = set()

    async def open(self) -> None:
        """Begin the term: everything before it is in the image, and nothing half-done is left of it.

        Raises StoreUnavailableError, TimeoutError and OttlaError: then the term can't be served.
        """
        # It is read after this controller's key was created: no earlier term can write any more, so the count is final.
        entry = await self._read(keys.SEQ)
        if entry is not None:
            self._seq, self._seq_revision = decode(keys.SEQ, entry), entry.mod_revision
        # This controller's key was created after every write of earlier terms, and their fences fail since. So an image
        # at this revision has all that they ever wrote.
        image = await self._follower.wait_for(self.epoch, timeout=IMAGE_TIMEOUT_S)
        # The term's first decision says where it begins. An earlier one would count as the last of the term before.
        term = Term(uuid.uuid4().hex, self._seq + 1)
        await self._write(Decision(None, (Write(Change(keys.TERMS, (*image.terms, term)[-MAX_TERMS:])),)))
        await self._tidy()

    async def close(self, timeout: float) -> None:
        """Reject decisions from now on, and wait for what is being written."""
        self._end("this controller has stepped down")
        if self._running:
            await asyncio.wait(self._running, timeout=timeout)

    async def commit(self, decide: Callable[[ClusterImage], Decision[Response]], *, urgent: bool = False) -> Response:
        """Decide from the current image, write, and return the response once this process's image holds it.

        Urgent decisions are elections, which clients wait for without a request. Raises what `decide` raises, and
        NOT_CONTROLLER if the term is over. Raises REQUEST_TIMED_OUT if the store is away (at once), if it is not known
        what became of the write, or if too many requests wait. A caller that is cancelled before its turn has changed
        nothing; later, it leaves the write running.
        """
        self._check_open()
        await self._turns.take(urgent=urgent)
        task = asyncio.create_task(self._commit(decide))
        self._running.add(task)
        task.add_done_callback(self._on_done)
        # A client that goes must not cancel a transaction half-way: its outcome would be unknown, and the term would
        # end.
        return await asyncio.shield(task)

    def _on_done(self, task: asyncio.Task[object]) -> None:
        # A caller that was cancelled does not ask how its decision ended, and asyncio would log a known failure as
        # unhandled.
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OttlaError):
            _log.error("a decision failed: %s", error, exc_info=error)
        self._running.discard(task)
        self._turns.give_back()

    async def _commit(self, decide: Callable[[ClusterImage], Decision[Response]]) -> Response:
        try:
            return await self._decide_and_write(decide)
        except StoreUnavailableError as error:
            raise _away(f"{error}; nothing was changed") from None

    async def _decide_and_write(self, decide: Callable[[ClusterImage], Decision[Response]]) -> Response:
        for _ in range(MAX_RACES):
            self._check_open()
            # Leftovers of a half-written decision go before the next decision is made from an image that has them.
            if self._untidy:
                await self._tidy()
            image = await self._current_image()
            decision = decide(image)
            try:
                await self._write(decision)
            except _LostRaceError:
                # The change that won the race is in the store, so a newer image will come. Without the wait the
                # decision would be made from the same image again, and lose again.
                await self._wait(partial(_is_newer, image))
                continue
            if decision.writes:
                await self._wait_for_own_writes()
            return decision.response
        raise OttlaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"the brokers that the request depends on kept changing: all {MAX_RACES} attempts failed, and nothing was "
            "written",
            hint="try again",
        )

    async def _tidy(self) -> None:
        """Remove what a decision that was written half-way has left: partition keys that no topic has."""
        decision = decide_remove_orphans(await self._current_image())
        if decision.response:
            _log.info("removing partitions that belong to no topic: %d", decision.response)
        await self._write(decision)
        self._untidy = False

    async def _write(self, decision: Decision[Response]) -> None:
        for written, batch in enumerate(batches(decision.writes)):
            try:
                await self._transact(batch)
            except (StoreUnavailableError, OttlaError, _LostRaceError) as error:
                self._untidy = self._untidy or written > 0
                # A deletion commits with its first transaction: the topic is gone, and the rest is cleaning up, which
                # the next decision does. A creation commits with its last, so it has failed.
                if written == 0 or not decision.commits_first:
                    raise
                _log.warning(
                    "the change was made, but the entries that it made obsolete have not been removed yet: %s", error
                )
                return

    async def _transact(self, batch: DecisionBatch) -> None:
        """Carry out one transaction and settle it: it was carried out, or this raises and it never will be."""
        compares = [
            Compare(self._text(keys.CONTROLLER), create_revision=self.epoch),
            Compare(self._text(keys.SEQ), mod_revision=self._seq_revision),
            *(self._compare(seen) for seen in batch.relied_on),
        ]
        ops = [self._op(change) for change in (*batch.changes, Change(keys.SEQ, self._seq + 1))]
        unknown = False
        give_up_at = self._clock.monotonic() + UNKNOWN_LIMIT_S
        while True:
            try:
                result = await self._store.txn(compares, ops, timeout=STORE_TIMEOUT_S)
                revision = result.revision if result.succeeded else await self._written_before(unknown=unknown)
            except LeaseLostError:
                raise _LostRaceError from None  # a broker whose registration was to be written again is gone
            except StoreUnavailableError as error:
                # Once a sending may have been carried out, later definite failures do not settle it.
                unknown = unknown or error.indefinite
                if not unknown:
                    raise
                if self._clock.monotonic() >= give_up_at:
                    # The next controller's fence makes the outcome final: a sending that is still under way can't
                    # succeed after its election.
                    self._end("the outcome of a write is unknown")
                    raise _away(f"{error}; the change may have been made") from None
                await asyncio.sleep(_RETRY_S)
                continue
            # The count is noted from the transaction itself and not from the watch, so the next decision waits for
            # exactly this change.
            self._seq, self._seq_revision = self._seq + 1, revision
            return

    async def _written_before(self, *, unknown: bool) -> int:
        """Find out why a transaction was rejected. Return the revision at which its own first sending was carried out,
        or raise.

        `seq` is read before the fence. If the fence still holds after it, no other process has bumped `seq`.
        """
        seq = await self._read(keys.SEQ)
        controller = await self._read(keys.CONTROLLER)
        if controller is None or controller.create_revision != self.epoch:
            self._end("another controller was elected")
            self._check_open()
        seq_revision = seq.mod_revision if seq is not None else 0
        # `seq` has not moved, so no sending of this transaction was carried out. Something that it relied on has
        # changed.
        if seq_revision == self._seq_revision:
            raise _LostRaceError
        if not unknown:
            self._end("a process that is not a controller has changed the cluster's state")
            self._check_open()
        return seq_revision

    async def _current_image(self) -> ClusterImage:
        """Return an image that holds every write of this journal and of the terms before it."""
        if self._follower.staleness_s > SILENCE_LIMIT_S:
            raise _away(f"the metadata store was last heard of {self._follower.staleness_s:.0f} s ago")
        return await self._wait(lambda image: image.seq >= self._seq)

    async def _wait(self, condition: Callable[[ClusterImage], bool]) -> ClusterImage:
        try:
            return await self._follower.wait_for(condition, timeout=IMAGE_TIMEOUT_S)
        except TimeoutError as error:
            raise _away(str(error)) from None

    async def _wait_for_own_writes(self) -> None:
        """Wait until this process's image holds the write. It is durable whatever the follower does, so a slow one
        changes no response."""
        try:
            await self._follower.wait_for(self._seq_revision, timeout=IMAGE_TIMEOUT_S)
        except (TimeoutError, StoreUnavailableError, OttlaError) as error:
            _log.warning("responding before this process's metadata includes the change: %s", error)

    def _check_open(self) -> None:
        if self._over is not None:
            raise OttlaError(ErrorCode.NOT_CONTROLLER, self._over, hint="send the request to the active controller")

    def _end(self, reason: str) -> None:
        if self._over is None:
            self._over = reason
            self._end_term()

    async def _read(self, key: keys.Key) -> KeyValue | None:
        text = self._text(key)
        snapshot = await self._store.snapshot(text, timeout=STORE_TIMEOUT_S)
        return next((entry for entry in snapshot.entries if entry.key == text), None)

    def _op(self, change: Change) -> Put | Delete:
        text = self._text(change.key)
        if change.value is None:
            return Delete(text)
        # A put without a lease would take the key out of its lease, and the registration would outlive its process.
        lease = change.value.lease if isinstance(change.value, Broker) else 0
        return Put(text, encode(change.key, change.value), lease)

    def _compare(self, seen: ReliedOn) -> Compare:
        return Compare(self._text(seen.key), create_revision=seen.create_revision, mod_revision=seen.mod_revision)

    def _text(self, key: keys.Key) -> str:
        return keys.key_text(self._cluster_id, key)


def _is_newer(than: ClusterImage, image: ClusterImage) -> bool:
    return image.revision > than.revision


def _away(reason: str) -> OttlaError:
    return OttlaError(ErrorCode.REQUEST_TIMED_OUT, reason, hint="try again when the metadata store is back")
