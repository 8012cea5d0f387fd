"""A partition's leader: whose log end counts, who is in sync, and where a follower's log leaves the leader's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla_broker.machines.epochs import NO_EPOCH, NO_OFFSET, LeaderEpochs
from ottla_broker.machines.offsets import HighWatermark, LogEndOffset
from ottla_broker.machines.partition import UNKNOWN, IsrProposal, Leader, find_divergence, find_truncation_offset
from ottla_core.cluster.image import Partition
from ottla_core.records.leader_epochs import EpochStart

LED = Partition(replicas=(1, 2, 3), leader=1, leader_epoch=4, isr=(1, 2, 3), partition_epoch=7)
LAG_S = 30.0


class Led:
    """A partition that broker 1 leads, a clock, and the lives of brokers 1, 2 and 3: epochs 11, 12 and 13."""

    def __init__(self, partition: Partition = LED, *, end: int = 0, high_watermark: int = 0, min_isr: int = 1) -> None:
        self.now = 1000.0
        self.live = {1: 11, 2: 12, 3: 13}
        self.partition = partition
        self.leader = Leader(
            1,
            partition,
            log_end_offset=LogEndOffset(end),
            high_watermark=HighWatermark(high_watermark),
            now=self.now,
            live=self.live,
            min_isr=min_isr,
            lag_max_s=LAG_S,
        )

    def append(self, count: int = 1) -> bool:
        return self.leader.on_appended(LogEndOffset(self.leader.log_end_offset + count), self.now)

    def fetch(self, follower: int, offset: int, broker_epoch: int | None = None) -> bool:
        epoch = self.live.get(follower, UNKNOWN) if broker_epoch is None else broker_epoch
        return self.leader.on_fetch(follower, epoch, offset, self.now)

    def commit(self, *isr: int) -> bool:
        """The controller's decision, as it comes back by watch."""
        self.partition = replace(self.partition, isr=isr, partition_epoch=self.partition.partition_epoch + 1)
        return self.leader.on_partition(self.partition, self.now)

    @property
    def high_watermark(self) -> int:
        return self.leader.high_watermark

    @property
    def proposed(self) -> tuple[int, ...] | None:
        return None if self.leader.proposal is None else self.leader.proposal.isr


# ---- tombstones and markers that are gone ----------------------------------------------------------------------------


def test_only_a_replica_that_is_not_in_sync_may_lack_tombstones_that_are_gone() -> None:
    led = Led(replace(LED, replicas=(1, 2, 3, 4), isr=(1, 2), elr=(4,)), end=10)
    assert [led.leader.may_lack(follower, 4, purged_before=5) for follower in (2, 3, 4)] == [False, True, False]
    assert not led.leader.may_lack(3, 5, purged_before=5)


def test_a_copy_lacks_nothing_until_a_tombstone_behind_its_end_goes() -> None:
    led = Led(replace(LED, isr=(1, 2)), end=10)
    led.leader.on_fetch(3, 13, 0, led.now, log_start_offset=0)
    led.leader.on_fetch(3, 13, 4, led.now, log_start_offset=0)
    led.leader.on_purge(4)
    assert not led.leader.may_lack(3, 4, purged_before=8)
    led.leader.on_purge(5)
    assert led.leader.may_lack(3, 4, purged_before=8)


@pytest.mark.parametrize("is_purging", [True, False])
def test_a_follower_that_goes_back_or_begins_during_a_purge_is_no_copy(is_purging: bool) -> None:
    led = Led(replace(LED, isr=(1, 2)), end=10)
    led.leader.on_fetch(3, 13, 0, led.now, log_start_offset=0, is_purging=is_purging)
    if not is_purging:
        led.leader.on_fetch(3, 13, 6, led.now, log_start_offset=0)
    led.leader.on_fetch(3, 13, 4, led.now, log_start_offset=0)
    assert led.leader.may_lack(3, 4, purged_before=5)


def test_tombstones_stay_until_every_live_replica_has_them() -> None:
    led = Led(end=10)
    assert led.leader.purge_limit == UNKNOWN, "none has fetched in this epoch"
    led.fetch(2, 10)
    led.fetch(3, 6)
    assert led.leader.purge_limit == 6
    del led.live[3]
    assert led.leader.purge_limit == 10


@pytest.mark.rule(6)
@pytest.mark.feature(176)
def test_the_high_watermark_waits_for_every_member_of_the_isr() -> None:
    led = Led()
    assert not led.append(10)
    assert not led.fetch(2, 10)
    assert led.high_watermark == 0
    assert led.fetch(3, 6)
    assert led.high_watermark == 6
    assert led.fetch(3, 10)
    assert led.high_watermark == 10


@pytest.mark.rule(6)
def test_a_member_that_is_to_leave_counts_until_the_controller_has_said_so() -> None:
    led = Led()
    led.append(10)
    led.fetch(2, 10)
    led.now += LAG_S + 1
    led.fetch(2, 10)
    led.leader.on_tick(led.now)
    assert led.proposed == (1, 2)
    assert led.high_watermark == 0, "a proposal is not yet an ISR"
    assert led.commit(1, 2)
    assert led.high_watermark == 10


@pytest.mark.rule(6)
def test_a_member_that_is_to_join_counts_from_the_proposal_on() -> None:
    led = Led(replace(LED, isr=(1, 2)))
    led.append(10)
    led.fetch(2, 10)
    led.fetch(3, 10)
    assert led.proposed == (1, 2, 3)
    led.append(5)
    led.now += LAG_S + 1  # long enough that it would not count for being caught up in time (rule 7)
    led.fetch(2, 15)
    assert led.high_watermark == 10
    led.fetch(3, 15)
    assert led.high_watermark == 15


@pytest.mark.rule(7)
def test_a_follower_about_to_join_is_not_outrun() -> None:
    """A lone leader that acknowledged at its own pace would never let anybody reach its high watermark."""
    led = Led(replace(LED, isr=(1,), replicas=(1, 2)))
    assert led.append(10)
    led.fetch(2, 10)
    led.commit(1)  # somebody else's change: the proposal is gone, and the follower still keeps up
    assert led.proposed is None
    led.append(5)
    assert led.high_watermark == 10
    led.now += LAG_S + 1
    led.leader.on_tick(led.now)
    assert led.high_watermark == 15, "it does not wait for one that has stopped to fetch"


@pytest.mark.rule(14)
def test_who_had_everything_when_a_record_came_does_not_lag_behind_it() -> None:
    """An idle partition: its follower fetches others, and of this one there is nothing to say for hours."""
    led = Led()
    led.append(10)
    led.fetch(2, 10)
    led.fetch(3, 10)
    led.now += 100 * LAG_S
    led.leader.on_tick(led.now)
    assert led.proposed is None
    led.append(1)
    led.leader.on_tick(led.now)
    assert led.proposed is None
    led.now += LAG_S + 1
    led.leader.on_tick(led.now)
    assert led.proposed == (1,)


@pytest.mark.rule(11)
def test_who_could_not_join_joins_when_it_may_without_another_fetch() -> None:
    led = Led(replace(LED, isr=(1, 2)))
    led.append(10)
    del led.live[3]  # its broker is fenced still
    led.fetch(2, 10)
    led.fetch(3, 10, 13)
    assert led.proposed is None
    led.live[3] = 13
    led.leader.on_tick(led.now)
    assert led.proposed == (1, 2, 3)


@pytest.mark.rule(8)
def test_below_min_insync_replicas_nothing_is_committed() -> None:
    led = Led(replace(LED, isr=(1,)), min_isr=2)
    led.append(10)
    led.leader.on_tick(led.now)
    assert not led.leader.has_min_isr
    assert led.high_watermark == 0
    led.fetch(2, 10)
    assert led.high_watermark == 0, "not before the controller has the second member"
    assert led.commit(1, 2)
    assert led.high_watermark == 10


@pytest.mark.rule(8)
def test_a_partition_of_fewer_replicas_than_the_minimum_asks_for_all_it_has() -> None:
    led = Led(Partition(replicas=(1,), leader=1, isr=(1,)), min_isr=2)
    assert led.leader.effective_min_isr == 1
    assert led.append(3)
    assert led.high_watermark == 3


@pytest.mark.rule(11)
@pytest.mark.parametrize("short_of", ["high watermark", "epoch start", "fenced", "a former life", "shutting down"])
def test_who_may_not_join_is_not_proposed(short_of: str) -> None:
    led = Led(replace(LED, isr=(1, 2)), end=10, high_watermark=5)
    led.fetch(2, 10)
    assert led.high_watermark == 10
    led.append(2)
    led.fetch(2, 12)
    offset, epoch = {"high watermark": (11, 13), "epoch start": (9, 13), "a former life": (12, 9)}.get(
        short_of, (12, 13)
    )
    if short_of in ("fenced", "shutting down"):
        del led.live[3]
    led.fetch(3, offset, epoch)
    assert led.proposed is None
    led.live[3] = 13
    led.fetch(3, 12, 13)
    assert led.proposed == (1, 2, 3)
    assert led.leader.proposal is not None
    assert led.leader.proposal.broker_epochs == (UNKNOWN, 12, 13), "the lives that have fetched (KIP-903)"


@pytest.mark.rule(11)
def test_the_start_of_the_epoch_must_be_reached_where_the_high_watermark_is_behind_it() -> None:
    led = Led(replace(LED, isr=(1, 2)), end=10, high_watermark=5)
    led.fetch(3, 6)
    assert led.proposed is None
    led.fetch(3, 10)
    assert led.proposed == (1, 2, 3)


@pytest.mark.rule(12)
def test_one_proposal_at_a_time() -> None:
    led = Led(Partition(replicas=(1, 2, 3, 4), leader=1, isr=(1,)))
    led.live[4] = 14
    led.fetch(2, 0)
    first = led.leader.proposal
    led.fetch(3, 0)
    led.fetch(4, 0)
    assert led.leader.proposal is first
    led.commit(1, 2)
    led.fetch(3, 0)
    assert led.proposed == (1, 2, 3)


@pytest.mark.rule(13)
def test_only_what_is_refused_for_good_is_taken_back() -> None:
    led = Led(replace(LED, isr=(1, 2)))
    led.fetch(3, 0)
    proposal = led.leader.proposal
    assert proposal is not None
    led.leader.on_rejected(proposal._replace(partition_epoch=proposal.partition_epoch - 1))
    assert led.leader.proposal is proposal, "another proposal's refusal"
    led.append(4)
    led.fetch(2, 4)
    assert led.high_watermark == 0, "the controller may have the new member"
    led.leader.on_rejected(proposal)
    del led.live[3]
    led.leader.on_tick(led.now)
    assert led.high_watermark == 4


@pytest.mark.rule(14)
def test_who_keeps_up_in_time_stays_however_many_records_it_lacks() -> None:
    led = Led()
    for _ in range(10):
        led.append(1_000_000)
        led.fetch(2, led.leader.log_end_offset)
        led.fetch(3, led.leader.log_end_offset - 500_000)
        led.now += LAG_S / 3
        led.append(1)
        led.fetch(3, led.leader.log_end_offset - 1)  # what the leader had at the fetch before
        led.leader.on_tick(led.now)
        assert led.proposed is None


@pytest.mark.rule(14)
def test_who_fetches_and_never_catches_up_leaves() -> None:
    led = Led()
    led.append(1000)
    led.fetch(2, 1000)
    for second in range(40):
        led.now += 1
        led.append(10)
        led.fetch(2, led.leader.log_end_offset)
        led.fetch(3, second)
        led.leader.on_tick(led.now)
    assert led.proposed == (1, 2)


@pytest.mark.rule(14)
def test_the_leader_never_leaves_its_isr() -> None:
    led = Led()
    led.append(5)
    led.now += 100 * LAG_S
    led.leader.on_tick(led.now)
    assert led.proposed == (1,)


@pytest.mark.rule(15)
def test_a_new_leader_knows_less_than_its_log_until_the_isr_has_fetched() -> None:
    led = Led(end=10, high_watermark=6)
    assert not led.leader.is_settled
    led.fetch(2, 10)
    led.fetch(3, 9)
    assert (led.high_watermark, led.leader.is_settled) == (9, False)
    led.fetch(3, 10)
    assert led.leader.is_settled


def test_an_older_partition_epoch_is_an_old_story() -> None:
    led = Led()
    led.append(10)
    led.fetch(2, 10)
    assert led.commit(1, 2)
    assert not led.leader.on_partition(replace(LED, isr=(1, 2, 3)), led.now)
    assert led.leader.isr == (1, 2)


@pytest.mark.rule(19)
def test_an_unclean_leader_says_that_it_has_recovered() -> None:
    led = Led(Partition(replicas=(1, 2), leader=1, leader_epoch=4, isr=(1,), recovering=True), end=10)
    assert led.high_watermark == 10
    led.leader.on_tick(led.now)
    assert led.leader.proposal == IsrProposal(4, 0, (1,), (UNKNOWN,), recovered=True)


@pytest.mark.rule(8, 19)
def test_an_unclean_leader_below_min_isr_lets_others_join() -> None:
    """Its high watermark stands still until somebody has joined, so joining must not wait for it."""
    unclean = Partition(replicas=(1, 2), leader=1, leader_epoch=4, isr=(1,), recovering=True)
    led = Led(unclean, end=10, high_watermark=7, min_isr=2)
    led.fetch(2, 10)
    assert led.leader.proposal == IsrProposal(4, 0, (1, 2), (UNKNOWN, 12), recovered=True)


# ---- where logs part --------------------------------------------------------------------------------------------


def epochs(*starts: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochStart(*start) for start in starts)


@pytest.mark.rule(2)
def test_a_log_is_cut_where_the_epochs_part_and_not_at_the_high_watermark() -> None:
    """KIP-101: what lies above the own high watermark may be committed."""
    leader = epochs((0, 0), (2, 10))
    follower = epochs((0, 0))
    assert find_divergence(leader, LogEndOffset(12), 0, 8) is None, "up to 8 both have the same"
    assert find_divergence(leader, LogEndOffset(12), 0, 11) == (0, 10)
    assert (
        find_truncation_offset(follower, LogEndOffset(11), high_watermark=HighWatermark(3), leader=EpochStart(0, 10))
        == 10
    )


@pytest.mark.rule(2)
def test_the_high_watermark_is_the_last_resort_without_any_epoch() -> None:
    assert (
        find_truncation_offset(
            epochs(), LogEndOffset(11), high_watermark=HighWatermark(3), leader=EpochStart(NO_EPOCH, NO_OFFSET)
        )
        == 3
    )


@pytest.mark.rule(2, 3)
def test_an_epoch_that_begins_here_behind_where_the_follower_ends_is_of_another_log() -> None:
    leader = epochs((1, 0), (3, 15), (10, 20))
    assert find_divergence(leader, LogEndOffset(21), 3, 11) == (1, 15)
    assert find_divergence(leader, LogEndOffset(21), 3, 15) is None, "a log that is empty there"
    assert find_divergence(leader, LogEndOffset(21), 1, 11) is None
    assert find_divergence(epochs((3, 15)), LogEndOffset(21), 3, 11) == (2, 15)


@pytest.mark.rule(3)
def test_after_a_fast_double_leader_change_it_is_asked_twice() -> None:
    """KIP-279: the follower wrote in epochs 1 and 3, the leader in 1, 2 and 4; both diverge in turn."""
    leader, leader_end = epochs((1, 0), (2, 5), (4, 9)), 12
    follower, end = epochs((1, 0), (3, 6)), 10
    told = find_divergence(leader, LogEndOffset(leader_end), follower.latest, end)
    assert told == (2, 9), "the largest epoch at or below 3"
    end = find_truncation_offset(follower, LogEndOffset(end), HighWatermark(0), told)
    assert end == 6, "epoch 2 was never here: up to the end of epoch 1, and ask again"
    follower.truncate_from_end(end)
    told = find_divergence(leader, LogEndOffset(leader_end), follower.latest, end)
    assert told == (1, 5)
    end = find_truncation_offset(follower, LogEndOffset(end), HighWatermark(0), told)
    assert end == 5
    follower.truncate_from_end(end)
    assert find_divergence(leader, LogEndOffset(leader_end), follower.latest, end) is None


def test_an_empty_log_has_not_parted_from_anything() -> None:
    assert find_divergence(epochs((3, 0)), LogEndOffset(5), NO_EPOCH, 0) is None


# Of three replicas with a min ISR of two, one that still follows keeps the other from committing anything alone.
@pytest.mark.parametrize(
    ("replicas", "isr", "min_isr", "following", "proved"),
    [
        ((1, 2, 3), (1, 2, 3), 2, (), False),
        ((1, 2, 3), (1, 2, 3), 2, (2,), True),
        ((1, 2, 3), (1, 2, 3), 1, (2,), False),  # broker 3 alone could have been elected, and commit
        ((1, 2, 3), (1, 2, 3), 1, (2, 3), True),
        ((1, 2, 3), (1, 2), 1, (2,), True),  # nobody else is in sync
        ((1, 2, 3), (1, 2), 2, (3,), False),  # out of sync: not counted on
        ((1, 2), (1, 2), 1, (2,), True),
        ((1, 2), (1, 2), 2, (), False),
        ((1, 2), (1,), 1, (2,), False),
    ],
)
def test_who_must_still_follow_to_prove_that_nobody_else_leads(
    replicas: tuple[int, ...], isr: tuple[int, ...], min_isr: int, following: tuple[int, ...], proved: bool
) -> None:
    led = Led(replace(LED, replicas=replicas, isr=isr), min_isr=min_isr)
    for follower in replicas[1:]:
        led.leader.on_seen_confirmation(follower, 4)
    for follower in following:
        led.leader.on_seen_confirmation(follower, 5)
        led.leader.on_seen_confirmation(follower, 3)  # an older fetch, late
    assert led.leader.has_led_since(5) is proved
    assert led.leader.is_alone is (isr == (1,))


def test_a_member_that_may_have_been_added_may_have_been_elected() -> None:
    led = Led(replace(LED, isr=(1, 2)))
    led.leader.on_seen_confirmation(2, 1)
    assert led.leader.has_led_since(1)
    led.fetch(3, 0)
    assert led.proposed == (1, 2, 3)
    assert not led.leader.has_led_since(1)
    alone = Led(replace(LED, isr=(1,)))
    alone.fetch(3, 0)
    assert not alone.leader.is_alone


@pytest.mark.story("full-member-holds-up-acks-all")
@pytest.mark.rule(14)
def test_a_replica_whose_disk_is_full_leaves_the_isr_with_the_next_append_and_joins_none() -> None:
    led = Led()
    led.leader.read_only = {3}
    led.append(10)
    led.leader.on_tick(led.now)
    assert led.proposed is None, "it has not fetched yet: it may have everything"
    led.fetch(2, 10)
    led.fetch(3, 10)
    led.now += 1
    led.leader.on_tick(led.now)
    assert led.proposed is None, "it has all that there is, and may lead for readers"
    led.append()
    led.fetch(2, 11)
    led.fetch(3, 10)
    assert led.high_watermark == 10
    led.now += 0.1
    led.leader.on_tick(led.now)
    assert led.proposed == (1, 2)
    led.commit(1, 2)
    assert led.high_watermark == 11
    led.fetch(3, 11)
    assert led.proposed is None
    led.leader.read_only = set()
    led.fetch(3, 11)
    assert led.proposed == (1, 2, 3)


@pytest.mark.story("alone-beside-an-elr")
@pytest.mark.rule(8)
def test_who_is_eligible_outside_the_isr_may_have_been_elected() -> None:
    """A leader that is cut off, with an ISR of its own, must not take itself for the only one."""
    led = Led(replace(LED, isr=(1,), elr=(2,)), min_isr=1)
    assert not led.leader.is_alone
    led.leader.on_seen_confirmation(3, 7)
    assert not led.leader.has_led_since(7), "3 is neither in sync nor eligible"
    led.leader.on_seen_confirmation(2, 7)
    assert led.leader.has_led_since(7), "2 follows this leader still"
    led.leader.on_partition(replace(LED, isr=(1,), partition_epoch=LED.partition_epoch + 1), 0.0)
    assert led.leader.is_alone


# ---- what a follower has ---------------------------------------------------------------------------------------------


@pytest.mark.rule(11)
def test_what_a_follower_had_in_a_former_incarnation_is_not_heard_of_the_present_one() -> None:
    led = Led()
    assert not led.leader.has_heard_of(2, 12)
    led.fetch(2, 0)
    assert led.leader.has_heard_of(2, 12)
    assert not led.leader.has_heard_of(2, 22)
    assert not led.leader.has_heard_of(9, 12), "it is no replica"


@pytest.mark.feature(58)
def test_a_follower_has_what_lies_between_the_start_and_the_end_of_its_log() -> None:
    led = Led(end=9)
    assert not led.leader.has_offset(2, 0), "it has not fetched yet"
    led.leader.on_fetch(2, 12, 7, led.now, log_start_offset=3)
    assert [offset for offset in range(10) if led.leader.has_offset(2, offset)] == [3, 4, 5, 6, 7]
