"""An addition that passes through the partition's leader saves the verification of the first batch (rule 39)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from batches import raw_batch, raw_record
from replicas import PARTITION, Brokers
from transactional_logs import end_of

from ottla_broker.machines.guards import AddedBy
from ottla_broker.peers.transactions import TransactionVerifier
from ottla_broker.replication.addition import PassingAddition
from ottla_broker.replication.produce import ProducedTransaction, ReplicaAppend, append
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode
from ottla_core.event_loop.slices import Slice
from ottla_core.model import TopicPartition
from ottla_core.records.batch import TRANSACTIONAL

NAME = TopicPartition("t", PARTITION.partition)
PRODUCER = AddedBy("t-1", 7, 3)


@pytest.fixture
def brokers(tmp_path: Path) -> Brokers:
    brokers = Brokers(tmp_path, (1, 2))
    lead(brokers, 1, epoch=1)
    return brokers


def lead(brokers: Brokers, leader: int, epoch: int) -> None:
    brokers.apply(Partition(replicas=(1, 2), leader=leader, leader_epoch=epoch, isr=(1, 2)))


def addition(replica: Replica) -> PassingAddition:
    table = SimpleNamespace(get={replica.id: replica}.get)
    passing = PassingAddition(cast(ReplicaTable, table), PRODUCER)
    passing.begin(NAME, replica.id)
    return passing


def add(replica: Replica, code: int = 0) -> None:
    addition(replica).end({NAME: code})


def asks(replica: Replica, *, epoch: int = 3, version: int = 1, transactional_id: str = "t-1") -> bool:
    """Return whether the coordinator is asked before a first batch is appended."""
    records = raw_batch(raw_record(0), producer_id=7, producer_epoch=epoch, base_sequence=0, attributes=TRANSACTIONAL)
    verifier = cast(TransactionVerifier, SimpleNamespace(verify=None))
    transaction = ProducedTransaction(transactional_id, version, verifier)
    begun: Any = append(replica, replica.led_in(None), records, 1, Slice(60.0), transaction)
    if isinstance(begun, asyncio.Future):
        begun.cancel()
    return not isinstance(begun, ReplicaAppend)


@pytest.mark.rule(39)
async def test_a_batch_whose_partition_was_added_through_its_leader_is_appended_at_once(brokers: Brokers) -> None:
    replica = brokers.replicas[1]
    add(replica)
    assert not asks(replica)


@pytest.mark.rule(39)
@pytest.mark.parametrize(
    "other",
    [{"epoch": 4}, {"transactional_id": "t-2"}, {"version": 2}],
    ids=["epoch", "transactional id", "transactions v2"],
)
async def test_an_addition_counts_for_its_own_producer_in_transactions_v1_alone(
    brokers: Brokers, other: dict[str, Any]
) -> None:
    replica = brokers.replicas[1]
    add(replica)
    assert asks(replica, **other)


@pytest.mark.rule(39)
async def test_an_addition_that_failed_or_had_no_response_does_not_count(brokers: Brokers) -> None:
    replica = brokers.replicas[1]
    add(replica, ErrorCode.INVALID_TXN_STATE)
    addition(replica).end({})
    assert asks(replica)
    assert not replica.guards._guards, "no guard stays behind"


@pytest.mark.rule(39)
@pytest.mark.parametrize("overtakes", [False, True], ids=["after the response", "before the response"])
async def test_an_addition_counts_until_a_marker_comes(brokers: Brokers, overtakes: bool) -> None:
    replica = brokers.replicas[1]
    passing = addition(replica)
    if overtakes:
        replica.led_in(None).append_marker(end_of(7, 3, v2=False))
    passing.end({NAME: 0})
    if not overtakes:
        replica.led_in(None).append_marker(end_of(7, 3, v2=False))
    assert asks(replica)
    assert not replica.guards._added


@pytest.mark.rule(39)
@pytest.mark.parametrize("overtakes", [False, True], ids=["after the response", "before the response"])
async def test_an_addition_does_not_count_once_another_broker_has_led(brokers: Brokers, overtakes: bool) -> None:
    """The other leader may have written the marker that ends the transaction."""
    replica = brokers.replicas[1]
    passing = addition(replica)
    if overtakes:
        lead(brokers, 2, epoch=2)
    passing.end({NAME: 0})
    lead(brokers, 2, epoch=2)
    lead(brokers, 1, epoch=3)
    assert asks(replica)


@pytest.mark.rule(39)
async def test_a_follower_remembers_no_addition(brokers: Brokers) -> None:
    """No marker passes through it as one, so nothing would end what it remembered."""
    follower = brokers.replicas[2]
    add(follower)
    assert not follower.guards._added
    assert not follower.guards._guards


@pytest.mark.rule(39)
async def test_an_addition_leaves_the_guard_of_a_verification_alone(brokers: Brokers) -> None:
    """Without its guard, the batch that is being verified would be refused for good."""
    replica = brokers.replicas[1]
    guard = replica.guards.begin(7)
    add(replica)
    assert replica.guards.end(7, guard)
