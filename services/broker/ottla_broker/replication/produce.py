"""Producing to one partition, up to its acknowledgement: what both adapters do with a client's batches."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from ottla_broker.replication.replica import ACKS_ALL, Replica
from ottla_broker.storage.log import Appended
from ottla_broker.storage.validator import is_quickly_checked
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import INTERNAL_TOPICS
from ottla_core.records.batch import Buffer
from ottla_core.slices import Slice

TURN_S: Final = 0.02
"""For the appends of one request, before others have a turn: as many as most requests have."""


class Taken(NamedTuple):
    """What was appended, and is acknowledged once `acknowledged` returns."""

    replica: Replica
    appended: Appended
    acks: int
    tenure: int

    @property
    def is_acknowledged(self) -> bool:
        """Whether there is nothing to wait for."""
        replica = self.replica
        committed = self.acks != ACKS_ALL or replica.high_watermark > self.appended.last_offset
        return committed and not replica.must_flush

    async def acknowledged(self) -> None:
        """Wait until what was appended may be acknowledged, or raise why it may not (`Replica.committed`)."""
        if self.replica.must_flush:
            await self.replica.flushed()
        if self.acks == ACKS_ALL:
            await self.replica.committed(self.appended.last_offset + 1, self.tenure)


def check_acks(acks: int) -> None:
    """Raise INVALID_REQUIRED_ACKS unless it is 0, 1 or -1 (all)."""
    if acks not in (0, 1, ACKS_ALL):
        raise OttlaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks} does not exist", hint="use 0, 1 or all (-1)")


def check_client_may_write(topic: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for an internal topic: those are the services' own."""
    if topic in INTERNAL_TOPICS:
        raise OttlaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"the topic {topic} is internal, and clients do not write to it"
        )


def append(replica: Replica, records: Buffer, acks: int, turn: Slice) -> Taken | asyncio.Future[Taken]:
    """Append at once, without a yield (I1), or say when it is done: what has to be looked into first, what comes for a
    partition behind it, and all of a request that has had its `turn`. A partition's order stays that of the calls.

    Raises, or gives later, what `check_client_may_write`, `Replica.append` and `PendingBytes.take` raise.
    """
    check_client_may_write(replica.topic)
    if not replica.pending and not turn.is_over and is_quickly_checked(records, replica.log.config):
        return _append(replica, records, acks, looked_inside=False)
    return _append_later(replica, bytes(records), acks)  # its buffer is somebody else's soon


def _append(replica: Replica, records: Buffer, acks: int, *, looked_inside: bool) -> Taken:
    return Taken(replica, replica.append(records, acks, looked_inside=looked_inside), acks, replica.tenure)


def _append_later(replica: Replica, records: bytes, acks: int) -> asyncio.Future[Taken]:
    looked_inside = False

    async def prepare() -> None:
        nonlocal looked_inside
        looked_inside = await replica.look_inside(records)

    replica.pending_bytes.take(len(records))
    done = replica.pending.add(prepare, lambda: _append(replica, records, acks, looked_inside=looked_inside))
    done.add_done_callback(lambda _: replica.pending_bytes.give_back(len(records)))
    return done
