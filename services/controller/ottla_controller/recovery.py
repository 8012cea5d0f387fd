"""The recoverer asks how far logs go if the metadata can't show who should lead, and elects by the answers (KIP-966).

That is needed if ISR and ELR are empty (rule C16), or if the metadata was restored from a backup (rule C18). It is a
duty of the active controller beside the reconciler, because a broker that does not answer must hold up no election. It
is level-triggered, too: the next look finds whatever has failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from ottla_controller.journal import Journal
from ottla_controller.machines.decision import Decision, batched
from ottla_controller.machines.election import Settled
from ottla_controller.machines.partition_index import PartitionIndex, without_eligible
from ottla_controller.machines.recovery import LogEnd, LogsReport, decide_recover, to_ask
from ottla_controller.machines.restoration import decide_restored
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Broker, ClusterImage
from ottla_core.errors import OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.internal_tls import InternalTls
from ottla_proto import broker_pb2 as pb
from ottla_proto import contracts

_log = logging.getLogger(__name__)

CALL_S: Final = 5.0
LOOK_S: Final = 1.0
"""How often to look again if a response was missing."""

AT_ONCE: Final = 1_000
"""The most partitions in one request to a broker."""


class Recoverer:
    """Elects leaders by logs. `report(settled)` gets what was elected."""

    def __init__(
        self,
        follower: MetadataFollower,
        index: PartitionIndex,
        report: Callable[[Sequence[Settled]], None],
        tls: InternalTls | None = None,
    ) -> None:
        self._follower = follower
        self._tls = tls
        self._index = index
        self._report = report
        self._changed = asyncio.Event()
        follower.on_change(self._on_image)

    async def run(self, journal: Journal) -> None:
        """Recover partitions until the task is cancelled, at the end of the term."""
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                left = await self._recover(journal)
            except OttlaError as error:
                _log.warning("can't elect leaders based on the brokers' logs, retrying: %s", error)
                left = True
            except Exception:
                _log.exception("electing leaders based on the brokers' logs failed, retrying")
                left = True
            if left:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._changed.wait()
                self._changed.set()

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        waiting = self._index.where(without_eligible)
        if new.is_behind or (waiting and not waiting.isdisjoint(self._index.concerned(old, new))):
            self._changed.set()

    async def _recover(self, journal: Journal) -> bool:
        """Look once. Return whether something is left to collect."""
        image = self._follower.image
        if image.is_behind:
            count = await journal.commit(decide_restored, urgent=True)
            _log.warning(
                "the metadata is older than the brokers' logs (restoration %d); the logs now decide which brokers lead",
                count,
            )
            return True
        request = to_ask(image, self._index.where(without_eligible))
        if not request:
            return False
        reports = await ask_logs(image, request, self._tls)
        partitions = sorted({id_ for ids in request.values() for id_ in ids})
        elected = 0
        for batch in batched(partitions):
            moved = await journal.commit(partial(_decide, batch, reports), urgent=True)
            self._report(moved)
            elected += len(moved)
        if elected:
            _log.warning("partitions now led by the replica with the longest eligible log: %d", elected)
        return elected < len(partitions)


async def ask_logs(
    image: ClusterImage, request: Mapping[int, Sequence[PartitionId]], tls: InternalTls | None = None
) -> dict[int, LogsReport]:
    """Ask brokers about their logs of these partitions. Return the reports of those that respond, by broker id."""
    brokers = [image.brokers[broker_id] for broker_id in request]
    reports = await asyncio.gather(*(_ask(b, image.revision, request[b.id], tls) for b in brokers))
    return {b.id: report for b, report in zip(brokers, reports, strict=True) if report is not None}


def _decide(
    partitions: Sequence[PartitionId], reports: Mapping[int, LogsReport], image: ClusterImage
) -> Decision[tuple[Settled, ...]]:
    return decide_recover(image, partitions, reports)


async def _ask(
    broker: Broker, revision: int, partitions: Sequence[PartitionId], tls: InternalTls | None
) -> LogsReport | None:
    peer = AioPeer(broker.address, client_id="controller", tls=tls)
    ends: dict[PartitionId, LogEnd] = {}
    try:
        for first in range(0, len(partitions), AT_ONCE):
            request = pb.LogEndsRequest(revision=revision)
            for id_ in partitions[first : first + AT_ONCE]:
                request.partitions.add(topic_id=id_.topic_id, partition=id_.partition)
            response = await peer.call(contracts.Broker.LOG_ENDS, request, timeout=CALL_S)
            if response.broker_epoch != broker.epoch:
                return None  # it is another incarnation, which the next look calls
            for end in response.partitions:
                id_ = PartitionId(TopicId(end.topic_id), end.partition)
                ends[id_] = LogEnd(end.last_epoch, end.log_end_offset, end.sound, end.latest_epoch)
    except OttlaError as error:
        _log.info("broker %d did not report where its logs end: %s", broker.id, error)
        return None
    finally:
        await peer.close()
    return LogsReport(broker.epoch, ends)
