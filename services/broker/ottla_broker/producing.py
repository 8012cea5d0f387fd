"""Producing to one partition, up to its acknowledgement: what both adapters do with a client's batches."""

from __future__ import annotations

from typing import NamedTuple

from ottla_broker.replica import ACKS_ALL, Replica
from ottla_broker.storage.log import Appended
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import INTERNAL_TOPICS
from ottla_core.records.batch import Buffer


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


def append(replica: Replica, records: Buffer, acks: int) -> Taken:
    """Append without a yield (I1). Raises what `check_client_may_write` and `Replica.append` raise."""
    check_client_may_write(replica.topic)
    return Taken(replica, replica.append(records, acks), acks, replica.tenure)
