"""The steps of a transaction, and how a service is killed in one: by itself, the next time that it comes by.

A step is "before" or "after" something: the append of a record, a call with markers, a question to another service.
`KillPoint` (tests.faults.compacted.phases) arms one and kills.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from tests.faults.compacted.phases import KillPoint
from tests.faults.put_in_place import put_in_place

from ottla_broker.peers.transactions import TransactionVerifier
from ottla_broker.replication.leading import Leading
from ottla_core.coordination.batches import read_batches
from ottla_core.coordination.broker_log import BrokerShardLog
from ottla_core.coordination.shard import Entry
from ottla_core.coordination.shard_log import Append, Appended
from ottla_txn_coordinator.machines.records import UNCLAIMED, decode_value
from ottla_txn_coordinator.machines.states import TransactionState
from ottla_txn_coordinator.marker_calls import MarkerCalls

BETWEEN: Final = "between markers"
_FENCE: Final = "PrepareAbort of a fence"
_OFFSETS, _OFFSET_MARKER = "pending offsets", "offset marker"
_RECORDS: Final = {
    TransactionState.EMPTY: "InitProducerId",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
}


def _both(*steps: str) -> tuple[str, ...]:
    return tuple(f"{when} {step}" for step in steps for when in ("before", "after"))


STEPS: Final = {
    "txn": (*_both(*_RECORDS.values(), "AddPartitions", _FENCE, "markers", "group markers"), BETWEEN),
    "coordinator": _both(_OFFSETS, _OFFSET_MARKER),
    "broker": _both("verification", "marker"),
}
"""By the kind of service that is killed there."""


def watch(kind: str, point: KillPoint) -> None:
    """Let a service of that kind pass by its steps."""
    match kind:
        case "txn":
            _watch_appends(point, _transaction_steps)
            _watch_markers(point)
        case "coordinator":
            _watch_appends(point, _offset_steps)
        case "broker":
            _watch_broker(point)


def _transaction_steps(batches: bytes) -> Iterable[str]:
    for batch in read_batches(batches):
        for _, value in batch.pairs:
            record = None if value is None else decode_value(value)
            if record is None:
                continue
            if record.state is TransactionState.PREPARE_ABORT and record.former_epoch == UNCLAIMED:
                yield _FENCE
            elif record.state is TransactionState.ONGOING and len(record.partitions) > 1:
                yield "AddPartitions"
            elif record.state in _RECORDS:
                yield _RECORDS[record.state]


def _offset_steps(batches: bytes) -> Iterable[str]:
    for batch in read_batches(batches):
        yield from (_OFFSETS if isinstance(each, Entry) else _OFFSET_MARKER for each in batch.of_transactions)


def _watch_appends(point: KillPoint, steps_of: Callable[[bytes], Iterable[str]]) -> None:
    call = BrokerShardLog.call

    async def watched(self: Any, shard: int, owner: Any, request: Any, *, timeout_s: float) -> Any:
        steps = list(steps_of(request.batches)) if isinstance(request, Append) else []
        for step in steps:
            point.pass_by(f"before {step}")
        result = await call(self, shard, owner, request, timeout_s=timeout_s)
        if isinstance(result, Appended):  # at the leader: whoever waits for it has no response yet
            for step in steps:
                point.pass_by(f"after {step}")
        return result

    put_in_place(BrokerShardLog, "call", watched)


def _watch_markers(point: KillPoint) -> None:
    write = MarkerCalls.write

    async def watched(self: Any, destination: Any, markers: Any) -> Any:
        step = "group markers" if destination.of_groups else "markers"
        point.pass_by(f"before {step}")
        errors = await write(self, destination, markers)
        point.pass_by(f"after {step}")
        if any(marker.ending.left - {marker.partition} for marker in markers):
            point.pass_by(BETWEEN)
        return errors

    put_in_place(MarkerCalls, "write", watched)


def _watch_broker(point: KillPoint) -> None:
    append_marker, verify = Leading.append_marker, TransactionVerifier.verify

    def watched_marker(self: Any, end: Any) -> Any:
        point.pass_by("before marker")
        appended = append_marker(self, end)
        point.pass_by("after marker")
        return appended

    async def watched_verify(self: Any, *of: Any) -> None:
        point.pass_by("before verification")
        await verify(self, *of)
        point.pass_by("after verification")

    put_in_place(Leading, "append_marker", watched_marker)
    put_in_place(TransactionVerifier, "verify", watched_verify)
