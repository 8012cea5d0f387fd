"""A partition is verified: what reaches the txn-coordinator, what is tried again, and what producers hear."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla_broker.machines.guards import VerificationGuards
from ottla_broker.peers import transactions
from ottla_broker.peers.coordinator_peers import CoordinatorPeers, not_available
from ottla_broker.peers.transactions import TransactionVerifier
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import Error, TxnProducer
from ottla_proto.contracts import Txn

PRODUCER = TxnProducer(id=7, epoch=2)
PARTITION = TopicPartition("t", 1)


class Coordinator:
    """Answers with these codes, the last of them for ever; None: it is not to be found."""

    def __init__(self, *codes: int | None, whole: bool = False) -> None:
        self.asked: list[pb.PartitionsToAdd] = []
        self._codes = list(codes)
        self._whole = whole

    def owner(self, kind: str, key: str) -> Any:
        assert (kind, key) == ("txn", "t-1")
        if self._codes[0] is None:
            self._codes.pop(0)
            raise not_available(kind)
        return self

    async def ask(
        self, owner: Any, method: Any, request: pb.AddPartitionsRequest, timeout: float
    ) -> pb.AddPartitionsResponse:
        assert (owner, method) == (self, Txn.ADD_PARTITIONS)
        self.asked.extend(request.transactions)
        code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
        error = Error(code=code or 0, message="so it is")
        if self._whole:
            return pb.AddPartitionsResponse(error=error)
        return pb.AddPartitionsResponse(transactions=[pb.PartitionsAdded(partitions=[error])])

    async def verify(self, version: int = 2, coordinator_epoch: int = -1) -> None:
        verifier = TransactionVerifier(cast(CoordinatorPeers, self))
        await verifier.verify("t-1", PRODUCER, PARTITION, version, coordinator_epoch)


@pytest.mark.rule(39)
@pytest.mark.parametrize(("version", "verify_only"), [(1, True), (2, False)])
async def test_clients_of_transactions_v2_have_their_partitions_added(version: int, verify_only: bool) -> None:
    coordinator = Coordinator(0)
    await coordinator.verify(version)
    [asked] = coordinator.asked
    assert asked.producer == PRODUCER
    assert [(p.topic, p.partition) for p in asked.partitions] == [PARTITION]
    assert (asked.verify_only, asked.transaction_version) == (verify_only, version)


async def test_what_is_over_soon_is_waited_for() -> None:
    """A shard that moves, and the transaction before, whose markers are on their way."""
    coordinator = Coordinator(
        None, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS, 0
    )
    await coordinator.verify()
    assert len(coordinator.asked) == 4


@pytest.mark.rule(39)
async def test_the_coordinator_hears_of_the_last_marker_or_that_there_is_none() -> None:
    """Epoch 0 is one, too."""
    coordinator = Coordinator(0)
    for epoch in (3, 0, -1):
        await coordinator.verify(coordinator_epoch=epoch)
    assert [a.coordinator_epoch if a.HasField("coordinator_epoch") else -1 for a in coordinator.asked] == [3, 0, -1]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("code", "heard"),
    [
        (ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
async def test_producers_hear_what_they_know(
    code: ErrorCode, heard: ErrorCode, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_PATIENCE_S", 0.02)
    with pytest.raises(OttlaError) as raised:
        await Coordinator(code, whole=whole).verify()
    assert raised.value.code == heard
    assert "so it is" in str(raised.value)


@pytest.mark.rule(39)
def test_a_guard_is_good_for_one_append_and_only_until_a_marker() -> None:
    guards = VerificationGuards()
    guard = guards.begin(7)
    other = guards.begin(8)
    assert guards.end(7, guard)
    assert not guards.end(7, guard)
    guards.on_marker(8)
    assert not guards.end(8, other)
    first, second = guards.begin(7), guards.begin(7)
    assert not guards.end(7, first), "a later one has taken its place"
    assert guards.end(7, second)
