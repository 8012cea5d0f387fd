"""AlterPartition: which ISR a leader may have, and against which epochs it is compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from images import after, topic_id
from partitions import P0, broker, image_with, partition

from ottla_controller.machines.decision import MAX_WRITES, Decision, ReliedOn, batches
from ottla_controller.machines.isr import UNKNOWN_EPOCH, Proposal, Verdict, decide_alter_partition
from ottla_core.cluster.image import Change, ClusterImage, Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId

SHRUNK = partition(0, 1, 2, isr=(0, 1))


def propose(*isr: int, **fields: Any) -> Proposal:
    """Make a proposal of the leader of `P0`, with the epochs that `image_with` gives."""
    members = tuple((b, 100 + b) for b in isr)
    return replace(Proposal(P0, leader_epoch=5, partition_epoch=9, isr=members), **fields)


def decide(image: ClusterImage, *proposals: Proposal) -> Decision[tuple[Verdict, ...]]:
    return decide_alter_partition(image, 0, image.brokers[0].epoch, proposals)


def refusal(image: ClusterImage, proposal: Proposal) -> OttlaError:
    """Why a proposal was refused, which has written nothing."""
    decision = decide(image, proposal)
    assert decision.writes == ()
    error = decision.response[0].error
    assert error is not None
    return error


@pytest.mark.rule(12)
@pytest.mark.feature(106)
def test_the_isr_is_set_where_the_epochs_are_those_that_the_leader_knew() -> None:
    image = image_with(3, SHRUNK)
    grown = decide(image, propose(0, 1, 2))
    assert grown.response == (
        Verdict(P0, partition=replace(SHRUNK, isr=(0, 1, 2), partition_epoch=10, mod_revision=150)),
    )
    image = after(image, grown)
    again = decide(image, propose(0, partition_epoch=10))
    assert after(image, again).partitions[P0].isr == (0,)
    assert after(image, again).partitions[P0].leader_epoch == 5  # a change of the ISR is no change of the leader


@pytest.mark.rule(12)
@pytest.mark.parametrize(
    ("epochs", "code"),
    [
        ({"leader_epoch": 6}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 10}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 4, "partition_epoch": 8}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 4, "partition_epoch": 10}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 8}, ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_other_epochs_say_who_is_behind(epochs: dict[str, int], code: ErrorCode) -> None:
    assert refusal(image_with(3, SHRUNK), propose(0, 1, 2, **epochs)).code == code


@pytest.mark.rule(12)
def test_a_proposal_that_is_sent_again_comes_too_late_and_the_present_isr_is_no_change() -> None:
    image = image_with(3, SHRUNK)
    first = propose(0, 1, 2)
    image = after(image, decide(image, first))
    assert refusal(image, first).code == ErrorCode.INVALID_UPDATE_VERSION
    same = decide(image, replace(first, partition_epoch=10))
    assert (same.writes, same.response[0].error, same.response[0].partition) == ((), None, image.partitions[P0])


@pytest.mark.rule(22)
def test_the_request_of_another_life_of_the_broker_is_refused_as_a_whole() -> None:
    image = image_with(3, SHRUNK)
    for broker_id, epoch, code in [
        (0, 99, ErrorCode.STALE_BROKER_EPOCH),
        (0, 101, ErrorCode.STALE_BROKER_EPOCH),
        (7, 107, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ]:
        with pytest.raises(OttlaError) as refused:
            decide_alter_partition(image, broker_id, epoch, [propose(0, 1, 2)])
        assert refused.value.code == code


@pytest.mark.rule(11)
@pytest.mark.rule(22)
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (None, "broker 2 is not registered"),
        ({"epoch": 250}, "registered with epoch 250, not 102"),
        ({"fenced": True}, "is fenced"),
        ({"shutting_down": True}, "is shutting down"),
    ],
)
def test_who_is_away_restarted_fenced_or_going_does_not_join(fields: dict[str, Any] | None, words: str) -> None:
    image = image_with(3, SHRUNK)
    image = image.with_changes([Change(("broker", 2), broker(2, **fields) if fields is not None else None)], 210)
    refused = refusal(image, propose(0, 1, 2))
    assert refused.code == ErrorCode.INELIGIBLE_REPLICA
    assert words in refused.message


@pytest.mark.rule(11)
@pytest.mark.rule(22)
def test_a_member_that_has_not_fetched_from_this_leader_yet_keeps_nobody_from_joining() -> None:
    image = image_with(3, SHRUNK)
    grown = decide(image, propose(isr=((0, UNKNOWN_EPOCH), (1, UNKNOWN_EPOCH), (2, 102))))
    assert after(image, grown).partitions[P0].isr == (0, 1, 2)


@pytest.mark.rule(11)
@pytest.mark.rule(22)
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (None, "broker 1 is not registered"),
        ({"fenced": True}, "is fenced"),
        ({"shutting_down": True}, "is shutting down"),
    ],
)
def test_a_member_of_unknown_epoch_is_live_all_the_same(fields: dict[str, Any] | None, words: str) -> None:
    image = image_with(3, SHRUNK)
    image = image.with_changes([Change(("broker", 1), broker(1, **fields) if fields is not None else None)], 210)
    refused = refusal(image, propose(isr=((0, 100), (1, UNKNOWN_EPOCH), (2, 102))))
    assert (refused.code, words in refused.message) == (ErrorCode.INELIGIBLE_REPLICA, True)


@pytest.mark.rule(22)
def test_nobody_joins_of_whom_the_leader_does_not_know_the_life() -> None:
    refused = refusal(image_with(3, SHRUNK), propose(isr=((0, 100), (1, 101), (2, UNKNOWN_EPOCH))))
    assert refused.code == ErrorCode.INELIGIBLE_REPLICA
    assert "registered with epoch 102, not -1" in refused.message


def test_a_leader_that_shuts_down_may_still_let_somebody_in_who_takes_over() -> None:
    image = image_with({0: {"shutting_down": True}, 1: {}}, partition(0, 1, isr=(0,)))
    assert decide(image, propose(0, 1)).response[0].error is None


@pytest.mark.parametrize(
    ("proposal", "words"),
    [
        (propose(), "not in its own ISR"),
        (propose(1, 2), "not in its own ISR"),
        (propose(0, 3), "can't be in sync"),
        (propose(0, 1, 1), "can't be in sync"),
    ],
)
def test_an_isr_is_of_replicas_and_has_the_leader_in_it(proposal: Proposal, words: str) -> None:
    refused = refusal(image_with(4, SHRUNK), proposal)
    assert (refused.code, words in refused.message) == (ErrorCode.INVALID_REQUEST, True)


def test_only_the_leader_proposes() -> None:
    image = image_with(3, partition(1, 0, 2))
    assert refusal(image, propose(1, 0)).code == ErrorCode.INVALID_REQUEST


@pytest.mark.rule(23)
def test_a_topic_that_is_gone_and_a_partition_that_is_not_there() -> None:
    image = image_with(3, SHRUNK)
    unknown = propose(0, 1, id=PartitionId(topic_id(9), 0))
    assert refusal(image, unknown).code == ErrorCode.UNKNOWN_TOPIC_ID
    beyond = propose(0, 1, id=PartitionId(topic_id(1), 7))
    assert refusal(image, beyond).code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.rule(19)
def test_an_unclean_leader_reports_that_it_recovered_before_others_join() -> None:
    recovering = replace(partition(0, 1, isr=(0,)), recovering=True)
    image = image_with(2, recovering)
    assert refusal(image, propose(0, 1)).code == ErrorCode.INVALID_REQUEST
    recovered = decide(image, propose(0, recovered=True))
    image = after(image, recovered)
    assert image.partitions[P0] == replace(
        recovering, recovering=False, partition_epoch=10, mod_revision=201, directories={0: "directory-0"}
    )
    assert decide(image, propose(0, 1, partition_epoch=10)).response[0].error is None
    image = image_with(2, recovering)
    at_once = after(image, decide(image, propose(0, 1, recovered=True))).partitions[P0]
    assert (at_once.isr, at_once.recovering) == ((0, 1), False)


@pytest.mark.rule(12)
def test_each_partition_of_a_request_has_its_own_verdict_and_all_are_one_transaction() -> None:
    image = image_with(3, *[SHRUNK] * MAX_WRITES)
    proposals = [propose(0, 1, 2, id=PartitionId(topic_id(1), n)) for n in range(MAX_WRITES)]
    proposals[3] = replace(proposals[3], partition_epoch=8)
    decision = decide(image, *proposals)
    assert [n for n, v in enumerate(decision.response) if v.error is not None] == [3]
    (batch,) = batches(decision.writes)
    assert len(batch.changes) == MAX_WRITES - 1
    assert {ReliedOn(("broker", n), create_revision=100 + n) for n in range(3)} <= set(batch.relied_on)
    assert ReliedOn(("partition", P0), mod_revision=150) in batch.relied_on


def test_a_partition_that_is_named_twice_is_refused() -> None:
    with pytest.raises(OttlaError, match="twice") as refused:
        decide(image_with(3, SHRUNK), propose(0), propose(0, 1, 2))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_a_refusal_carries_the_partition_as_it_is() -> None:
    image = image_with(3, SHRUNK)
    (verdict,) = decide(image, propose(0, 1, 2, partition_epoch=8)).response
    assert isinstance(verdict.partition, Partition)
    assert verdict.partition.partition_epoch == 9
