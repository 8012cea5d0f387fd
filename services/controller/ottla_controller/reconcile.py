"""The active controller elects leaders for partitions whose brokers are gone, and moves leaders back again.

The reconciler looks at the partitions that an image may have changed something for, and at none on an idle cluster.
Each decision is one transaction of at most a hundred partitions, so that the requests of clients come between, and the
next look finds what is left: leaders first, then the ISRs. A partition is due until a look has found it as it should
be, and a term begins with all of them. So the next look finds whatever has failed (level-triggered, rule C3).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ottla_controller.journal import Journal
from ottla_controller.machines.availability import available
from ottla_controller.machines.configs import cluster_values
from ottla_controller.machines.decision import Decision, batched
from ottla_controller.machines.election import Settled, decide_reconcile, needs_election
from ottla_controller.machines.partition_index import PartitionIndex
from ottla_controller.machines.preferred import ElectionType, decide_elect_leaders, is_whole, unbalanced
from ottla_core.clock import Clock
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import PartitionId
from ottla_core.rpc.retry import Backoff
from ottla_core.telemetry import Metrics

_log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
GRACE_LOOK_S: Final = 0.1
"""How often to look whether time alone has changed something."""


class Reconciler:
    """A duty of the active controller: it makes partitions what they should be, given which brokers are available.

    `within_grace` returns the brokers that may only have lost their leases, and count as live for the moment (rule C6).
    """

    def __init__(
        self,
        follower: MetadataFollower,
        index: PartitionIndex,
        within_grace: Callable[[], frozenset[int]],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._follower = follower
        self._index = index
        self._within_grace = within_grace
        self._clock = clock
        self._changed = asyncio.Event()
        self._due: dict[PartitionId, None] | None = None  # to be looked at, or None between terms
        self._seen_grace: frozenset[int] = frozenset()
        self._balanced_at = 0.0
        self._has_balanced = False  # in this term
        self._elections = metrics.counter("ottla_controller_leader_elections_total", "Leaders elected by this process.")
        self._unclean = metrics.counter(
            "ottla_controller_unclean_elections_total", "Leaders elected outside the ISR: records may be lost."
        )
        self._looked_at = metrics.counter(
            "ottla_controller_partitions_looked_at_total", "Partitions checked for elections."
        )
        follower.on_change(self._on_image)

    async def run(self, journal: Journal) -> None:
        """Reconcile until the task is cancelled, at the end of the term."""
        try:
            await self._run(journal)
        finally:
            self._due = None

    async def _run(self, journal: Journal) -> None:
        self._due = dict.fromkeys(self._follower.image.partitions)
        self._balanced_at, self._has_balanced = self._clock.monotonic(), False
        backoff = Backoff(first_s=0.1)
        while True:
            self._changed.clear()
            try:
                await self._settle(journal)
                await self._balance(journal)
                backoff.reset()
            except OttlaError as error:
                if not backoff.attempts:
                    _log.warning("can't reconcile, retrying: %s", error)
                await asyncio.sleep(backoff.next())
            except Exception:
                _log.exception("reconciling failed, retrying")
                await asyncio.sleep(backoff.next())
            else:
                await self._rest()

    def report(self, moved: Sequence[Settled]) -> None:
        """Count and log what elections have changed."""
        unclean = [s for s in moved if s.unclean]
        elected = sum(s.elected for s in moved)
        self._elections.value += elected
        self._unclean.value += len(unclean)
        for s in unclean:
            _log.warning(
                "unclean election of broker %d for partition %s: it was not in the ISR %s, and acknowledged records "
                "may be lost",
                s.after.leader,
                s.id,
                list(s.before.isr),
            )
        if moved:
            offline = sum(s.offline for s in moved)
            _log.info(
                "partitions changed: %d; with a new leader: %d; without a leader: %d", len(moved), elected, offline
            )

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        if self._due is not None and (concerned := self._index.concerned(old, new)):
            self._due.update(dict.fromkeys(concerned))
            self._changed.set()

    async def _settle(self, journal: Journal) -> None:
        """Write one transaction after another until nothing is left to do."""
        while left := await self._needs_election():
            brokers = self._follower.image.brokers
            for batch in batched(left):
                moved = await journal.commit(partial(self._decide, batch), urgent=True)
                self.report(moved)
                if self._follower.image.brokers is not brokers:
                    break  # brokers came or went, so leaders come first again

    async def _needs_election(self) -> list[PartitionId]:
        """Return the due partitions that need a change, first those whose leader can't stay. They stay due."""
        assert self._due is not None, "a term runs"
        within_grace, time_slice = self._within_grace(), Slice()
        for broker_id in within_grace ^ self._seen_grace:
            self._due.update(dict.fromkeys(self._index.of(broker_id)))
        self._seen_grace = within_grace
        due, self._due = self._due, {}
        left: list[PartitionId] = []
        try:
            for part in batched(list(due)):
                self._looked_at.value += len(part)
                left += needs_election(self._follower.image, within_grace, part)
                await time_slice.rest()
        except BaseException:
            self._due |= due
            raise
        self._due.update(dict.fromkeys(left))
        image = self._follower.image
        existing = available(image, within_grace)
        lead_on = existing.willing - existing.read_only
        left.sort(key=lambda id_: (id_ in image.partitions and image.partitions[id_].leader in lead_on, id_))
        return left

    def _decide(self, partitions: Sequence[PartitionId], image: ClusterImage) -> Decision[tuple[Settled, ...]]:
        return decide_reconcile(image, partitions, self._within_grace())

    async def _balance(self, journal: Journal) -> None:
        """Move leadership back to the preferred leaders, every leader.imbalance.check.interval.seconds.

        The first move of a term is as soon as the cluster is whole. After a start of the cluster, the brokers that came
        up first lead nearly everything.
        """
        now = self._clock.monotonic()
        configs = cluster_values(self._follower.image)
        is_first = not self._has_balanced and is_whole(self._follower.image, self._index)
        if not is_first and now - self._balanced_at < configs.integer("leader.imbalance.check.interval.seconds"):
            return
        if configs.boolean("auto.leader.rebalance.enable"):
            tolerated = configs.integer("leader.imbalance.per.broker.percentage")
            not_preferred = unbalanced(self._follower.image, self._index, tolerated)
            for batch in batched(not_preferred):
                decide = partial(decide_elect_leaders, kind=ElectionType.PREFERRED, partitions=batch)
                outcomes = await journal.commit(decide, urgent=True)
                self.report([o.settled for o in outcomes if o.settled is not None])
        self._balanced_at, self._has_balanced = now, True

    async def _rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_LOOK_S if self._within_grace() else LOOK_S):
                await self._changed.wait()
