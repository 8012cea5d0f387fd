"""Leaders' proposals go to the controller in batches, because an ISR change costs a write in etcd (rule C13).

Each partition has one proposal on its way at a time (rule 12). A proposal whose response is lost may have been carried
out, so it is sent again and the leader continues to count the maximal ISR. Only a proposal that is rejected for good is
taken back (rule 13). If the response says that the partition has changed in between, the watch will show it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla_broker.machines.partition import IsrProposal
from ottla_broker.peers.registration_view import RegistrationView
from ottla_broker.replication.leading import Leading
from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.tasks import end_task
from ottla_core.model import PartitionId, TopicId
from ottla_core.rpc.retry import Backoff
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_log = logging.getLogger(__name__)

_CALL_S: Final = 5.0
_GATHER_S: Final = 0.005
_MAX_BATCH: Final = 1_000
_REJECTED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST})
_SETTLED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
    }
)
"""Results after which nothing is sent again: carried out, or overtaken by a change that the watch will show."""


class IsrChanges:
    """A component that sends leaders' proposals to the controller."""

    def __init__(self, controller: ControllerPeer, registration: RegistrationView) -> None:
        self._controller = controller
        self._registration = registration
        self._waiting: dict[PartitionId, Leading] = {}
        self._settled: dict[PartitionId, IsrProposal] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="isr-changes")

    async def stop(self) -> None:
        await end_task(self._task)

    def forget(self, partition_id: PartitionId) -> None:
        """Forget a partition that is no longer this broker's."""
        self._waiting.pop(partition_id, None)
        self._settled.pop(partition_id, None)

    def submit(self, leading: Leading) -> None:
        """Take a leader's proposal, which the leader repeats as long as it stands."""
        if self._settled.get(leading.id) != leading.proposal:
            self._waiting[leading.id] = leading
            self._wake.set()

    async def _run(self) -> None:
        backoff = Backoff(first_s=0.05, most_s=1.0)
        while True:
            await self._wake.wait()
            await asyncio.sleep(_GATHER_S)
            batch = self._take()
            if not batch:
                continue
            try:
                if await self._send(batch):
                    backoff.reset()
                else:
                    await asyncio.sleep(backoff.next())
            except OttlaError as error:
                if not backoff.attempts:
                    _log.warning("the controller did not accept %d ISR changes, retrying: %s", len(batch), error)
                await asyncio.sleep(backoff.next())
            except Exception:
                _log.exception("sending ISR changes failed, retrying")
                await asyncio.sleep(backoff.next())

    def _take(self) -> list[tuple[Leading, IsrProposal]]:
        """Return submitted proposals that still stand; each stays submitted, behind the others, until it is settled."""
        batch: list[tuple[Leading, IsrProposal]] = []
        for partition_id, leading in list(self._waiting.items()):
            proposal = leading.proposal
            if proposal is None or self._settled.get(partition_id) == proposal:
                del self._waiting[partition_id]
            elif len(batch) < _MAX_BATCH:
                batch.append((leading, proposal))
                self._waiting[partition_id] = self._waiting.pop(partition_id)
        if not self._waiting:
            self._wake.clear()
        return batch

    async def _send(self, batch: list[tuple[Leading, IsrProposal]]) -> bool:
        """Send proposals, and return whether it is known now what becomes of each."""
        broker_id, epoch = self._registration.current()
        request = pb.AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, secret=self._registration.secret)
        request.partitions.extend(_message(leading, proposal) for leading, proposal in batch)
        response = await self._controller.call(Controller.ALTER_PARTITION, request, timeout=_CALL_S)
        sent = {leading.id: (leading, proposal) for leading, proposal in batch}
        for decided in response.partitions:
            leading, proposal = sent[PartitionId(TopicId(decided.topic_id), decided.partition)]
            self._on_decided(leading, proposal, decided)
        _log.info("ISR changes proposed: %d, made: %d", len(batch), sum(not d.error.code for d in response.partitions))
        return all(decided.error.code in _REJECTED | _SETTLED for decided in response.partitions)

    def _on_decided(self, leading: Leading, proposal: IsrProposal, decided: pb.IsrDecided) -> None:
        if decided.error.code in _REJECTED:
            _log.info("%s: the controller rejected the ISR %s: %s", leading, list(proposal.isr), decided.error.message)
            leading.on_rejected(proposal)
        elif decided.error.code in _SETTLED:
            self._settled[leading.id] = proposal


def _message(leading: Leading, proposal: IsrProposal) -> pb.IsrProposal:
    members = zip(proposal.isr, proposal.broker_epochs, strict=True)
    return pb.IsrProposal(
        topic_id=leading.id.topic_id,
        partition=leading.id.partition,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        new_isr=[pb.IsrMember(broker_id=broker_id, broker_epoch=epoch) for broker_id, epoch in members],
        recovered=proposal.recovered,
    )
