"""A follower keeps a process's image of the cluster up with the store: a snapshot at revision R, then every change
after R.

The watch of a store may lose changes without an error that names them: a compaction removes old revisions, and a
connection may break. An image that lacks one change looks like any other, and its process would serve a deleted topic
or follow a former leader for ever. So the follower proves completeness itself. Every transaction of a controller bumps
the key `seq`. While `seq` goes up by one at each of its changes, nothing is missing. If it jumps, or if the store says
that revisions are compacted, the follower takes a new snapshot. After a lost connection it watches on from the revision
where it was, because nothing was skipped.

While the store is away the last image stays, and `staleness_s` shows its age. Serving by old metadata is safe: epochs
and fences reject what is out of date.

A store that is *older* than the image was restored from a backup, or lost its data. A process that followed it would
delete the logs of every topic that the backup does not know. So the last image stays for good, and only a new process
begins with what the store has.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode
from ottla_core.cluster.image import Change, ClusterImage
from ottla_core.cluster.store import (
    CompactedError,
    Event,
    EventBatch,
    MetaStore,
    StoreRefusedError,
    StoreUnavailableError,
)
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.event_loop.tasks import end_task
from ottla_core.rpc.retry import Backoff

SNAPSHOT_TIMEOUT_S: Final = 10.0

Listener = Callable[[ClusterImage, ClusterImage], None]
Condition = Callable[[ClusterImage], bool]

_log = logging.getLogger(__name__)


class _GapError(Exception):
    """`seq` did not go up by one: a change was lost on the way."""


class MetadataFollower:
    """Keeps `image` up with the store, from `start` to `stop`."""

    def __init__(
        self,
        store: MetaStore,
        cluster_id: str,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._prefix: Final = keys.prefix(cluster_id)
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._image = ClusterImage(cluster_id)
        # This tells whether the image lacks only the changes after its revision. It stays true if a connection breaks,
        # so that thousands of processes do not all take snapshots when etcd restarts.
        self._complete = False
        # This is what the store had when it was found to have gone back. From then on nothing is followed.
        self._older: ClusterImage | None = None
        self._contact_at = -math.inf
        self._backoff = Backoff(first_s=0.1, most_s=2.0)
        self._trouble = ""
        self._listeners: list[Listener] = []
        self._pending: dict[asyncio.Future[ClusterImage], Condition] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def image(self) -> ClusterImage:
        """This is the latest image. It is empty, at revision 0, until the first snapshot."""
        return self._image

    @property
    def staleness_s(self) -> float:
        """These are the seconds since the store was last heard of. They are infinite before the first snapshot."""
        return self._clock.monotonic() - self._contact_at

    @property
    def trouble(self) -> str:
        """This is why the store was unavailable at the last try, or empty if it was available."""
        return self._trouble

    def on_change(self, listener: Listener) -> None:
        """Call `listener(old, new)` after every change of the image, in the order of listening. It must not wait."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Begin in the background. `wait_for` tells when there is an image."""
        self._task = asyncio.create_task(self._run(), name="metadata-follower")

    async def stop(self) -> None:
        """End the following. The image stays, and callers that still wait for another get StoreUnavailableError."""
        await end_task(self._task)
        self._task = None
        self._fail_pending(StoreUnavailableError("the metadata follower was stopped", indefinite=False))

    async def wait_for(self, condition: int | Condition, timeout: float) -> ClusterImage:
        """Return the first image from now on that has reached a revision, or for which a predicate is true.

        Raises TimeoutError after `timeout` seconds. Raises OttlaError if the store holds what this release can't read,
        or is older than the image: a caller that decides or writes by an image that the store does not have must stop.
        """
        self._check_not_older()
        reached = condition if callable(condition) else _at_revision(condition)
        if reached(self._image):
            return self._image
        future: asyncio.Future[ClusterImage] = asyncio.get_running_loop().create_future()
        self._pending[future] = reached
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise TimeoutError(
                f"the metadata did not reach the awaited state within {timeout:g} s; it is at revision "
                f"{self._image.revision}, and the store last responded {self.staleness_s:.1f} s ago"
            ) from None
        finally:
            del self._pending[future]

    async def catch_up(self, timeout: float) -> ClusterImage:
        """Return an image that has everything that controllers had written when this was called.

        It is for callers that conclude something from what is *not* in an image, and so must not be behind. Raises
        StoreUnavailableError, TimeoutError, and OttlaError like `wait_for`.
        """
        until = self._clock.monotonic() + timeout
        # Every transaction of a controller writes `seq`, so its mod_revision is that of the controller's newest change.
        # This linearizable read is of one key, where a whole snapshot may have ten thousand partitions.
        written = await self._store.snapshot(keys.key_text(self._image.cluster_id, keys.SEQ), timeout=timeout)
        newest = max((entry.mod_revision for entry in written.entries), default=0)
        return await self.wait_for(newest, timeout=max(0.0, until - self._clock.monotonic()))

    # ---- following -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                if not self._complete:
                    await self._load()
                await self._follow()
            except (CompactedError, _GapError) as reason:
                _log.info("taking a new snapshot of the metadata: %s", reason)
                self._complete = False
            except StoreUnavailableError as away:
                self._report(away)
            # The store holds what this release can't read, or it went back. Waiting callers hear of it now, since
            # waiting longer would not help them.
            except OttlaError as error:
                _log.error("can't follow the metadata; keeping the last image: %s", error)
                self._complete = False
                self._fail_pending(error)
            except Exception:
                _log.exception("following the metadata failed; taking a new snapshot")
                self._complete = False
            # This pause also follows a lost connection, so a store that accepts watches and breaks them at once is not
            # hammered.
            await self._sleep(self._backoff.next())

    async def _load(self) -> None:
        snapshot = await self._store.snapshot(self._prefix, timeout=SNAPSHOT_TIMEOUT_S)
        empty = ClusterImage(self._image.cluster_id)
        # Decoding ten thousand keys takes long. It goes in slices, so that leases are renewed and requests served in
        # between.
        changes = await sliced(self._change, [Event(entry) for entry in snapshot.entries])
        image = empty.with_changes(filter(None, changes), snapshot.revision)
        # Either may betray an older store. The revision of a restored etcd may have passed the old one, and a store
        # that lost no decision may have lost registrations.
        if image.revision < self._image.revision or image.history.parts_from(self._image.history) <= self._image.seq:
            self._older = image
        self._check_not_older()
        self._complete = True
        self._contact()
        # What happened between the last image and this one is unknown, so listeners have to look at every partition.
        self._replace(replace(image, changed_partitions=None, topics_revision=image.revision))

    def _report(self, away: StoreUnavailableError) -> None:
        """Log once for each outage, not at each try, because `staleness_s` shows the rest. A refusal, which needs an
        operator, is logged even if the store was away before."""
        refused = isinstance(away, StoreRefusedError)
        if self._backoff.attempts == 0 or (refused and str(away) != self._trouble):
            _log.warning("the metadata store is unavailable, retrying: %s", away)
        self._trouble = str(away)

    def _check_not_older(self) -> None:
        """Raise if the store has gone back, even if it has passed the image's revision since: its changes are
        others."""
        if self._older is not None:
            raise OttlaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the metadata store reverted from revision {self._image.revision} (seq {self._image.seq}) to "
                f"{self._older.revision} (seq {self._older.seq}): it was restored from a backup, or its data was lost",
                hint="restore the store's latest data, then restart the services; they start from the restored data",
            )

    async def _follow(self) -> None:
        """Apply batch after batch. It ends only by an error, as the store's watch does."""
        # The watch begins at the revision after the image's own. The image has that one already, and etcd would send it
        # again.
        async with aclosing(self._store.watch(self._prefix, from_revision=self._image.revision + 1)) as batches:
            async for batch in batches:
                # The contact is noted after the batch is applied: a staleness of zero promises that the image has what
                # the store sent.
                self._apply(batch)
                self._contact()

    def _apply(self, batch: EventBatch) -> None:
        if not batch.events:
            return
        changes = [change for change in map(self._change, batch.events) if change is not None]
        _check_contiguous(self._image.seq, changes)
        self._replace(self._image.with_changes(changes, batch.revision))

    def _change(self, event: Event) -> Change | None:
        """Return the change, or None for a kind of key that this release does not know, because a later release may
        have others."""
        # A newer release may write kinds of keys that this one does not know. They are skipped, so that a rolling
        # upgrade works.
        key = keys.parse_key(self._image.cluster_id, event.entry.key)
        return None if key is None else Change(key, None if event.deleted else decode(key, event.entry))

    def _contact(self) -> None:
        self._contact_at = self._clock.monotonic()
        self._backoff.reset()
        self._trouble = ""

    def _replace(self, image: ClusterImage) -> None:
        old, self._image = self._image, image
        for listener in self._listeners:
            try:
                listener(old, image)
            except Exception:  # one listener's bug must not keep the image from the others
                _log.exception("a listener failed to process the metadata of revision %d", image.revision)
        # Waiters come after the listeners, so a caller that waited for a revision finds it applied in this process.
        for future, reached in self._pending.items():
            try:
                if not future.done() and reached(image):
                    future.set_result(image)
            except Exception as error:  # the predicate has raised it
                future.set_exception(error)

    def _fail_pending(self, error: Exception) -> None:
        for future in self._pending:
            if not future.done():
                future.set_exception(error)


def _at_revision(revision: int) -> Condition:
    return lambda image: image.revision >= revision


def _check_contiguous(seq: int, changes: Iterable[Change]) -> None:
    for change in changes:
        if change.key == keys.SEQ:
            if change.value != seq + 1:
                raise _GapError(f"seq jumped from {seq} to {change.value}")
            seq = change.value
