"""Where nobody is known to have every committed record: whose logs are asked, when they prove enough, and who leads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from images import after, topic_id
from partitions import P0, broker, image_with, partition

from ottla_controller.machines.decision import ReliedOn
from ottla_controller.machines.election import decide_reconcile, needs_election
from ottla_controller.machines.preferred import ElectionType, decide_elect_leaders
from ottla_controller.machines.recovery import EPOCH_GAP, LogEnd, LogsReport, decide_recover, to_ask
from ottla_controller.machines.restoration import (
    PRODUCER_ID_GAP,
    SHARD_EPOCH_GAP,
    decide_restored,
)
from ottla_core.cluster.image import Change, ClusterImage, Partition, Restored, Shard, Topic
from ottla_core.model import NO_LEADER, NO_OWNER, PartitionId

LIVE: dict[str, Any] = {}
FENCED = {"fenced": True}
EMPTY = {"directory_id": "another"}
TWO = {"min.insync.replicas": "2"}
LOST = replace(
    partition(0, 1, 2, leader=NO_LEADER, isr=()),
    last_known_elr=(0, 1),
    directories={0: "directory-0", 1: "directory-1"},
)


def strategy(name: str) -> dict[str, str]:
    return {**TWO, "unclean.recovery.strategy": name}


def reports(image: ClusterImage, **ends: LogEnd) -> dict[int, LogsReport]:
    return {int(b[1:]): LogsReport(image.brokers[int(b[1:])].epoch, {P0: end}) for b, end in ends.items()}


def recovered(image: ClusterImage, **ends: LogEnd) -> Partition:
    decision = decide_recover(image, [P0], reports(image, **ends))
    return after(image, decision).partitions[P0]


# ---- lost tails ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("brokers", "configs", "asked"),
    [
        ({0: LIVE, 1: LIVE, 2: LIVE}, strategy("balanced"), [0, 1, 2]),
        ({0: LIVE, 1: LIVE}, TWO, [0, 1]),
        ({0: LIVE, 2: LIVE}, TWO, []),
        ({0: LIVE, 1: FENCED}, TWO, []),
        ({0: LIVE, 1: EMPTY, 2: LIVE}, TWO, []),  # an empty disk is nobody to wait for, and no log to believe
        ({0: LIVE, 2: LIVE}, strategy("aggressive"), [0, 2]),
        ({0: EMPTY, 2: LIVE}, strategy("aggressive"), [2]),
        ({0: EMPTY}, strategy("aggressive"), []),
        ({0: FENCED}, strategy("aggressive"), []),
        ({0: LIVE, 1: LIVE}, strategy("none"), []),
    ],
)
def test_whose_logs_are_asked(brokers: dict[int, dict[str, Any]], configs: dict[str, str], asked: list[int]) -> None:
    assert to_ask(image_with(brokers, LOST, configs=configs)) == {b: [P0] for b in asked}


@pytest.mark.story("empty-log-in-its-old-directory-decides")
def test_a_log_that_began_anew_in_its_old_directory_proves_nothing_before_all_have_told() -> None:
    gone, two, three = LogEnd(-1, 0, sound=False), {0: LIVE, 1: LIVE}, {0: LIVE, 1: LIVE, 2: LIVE}
    assert recovered(image_with(two, LOST, configs=TWO), b0=gone, b1=LogEnd(3, 7)).leader == NO_LEADER
    assert recovered(image_with(three, LOST, configs=TWO), b0=gone, b1=LogEnd(3, 7), b2=LogEnd(3, 9)).leader == 2
    torn = LogEnd(3, 8, sound=False)
    assert recovered(image_with(three, LOST, configs=TWO), b0=torn, b1=LogEnd(3, 7), b2=LogEnd(3, 9)).leader == 0
    new = LogEnd(-1, 0)
    assert recovered(image_with(two, LOST, configs=TWO), b0=new, b1=LogEnd(3, 7)).leader == 1, "it never had any"


@pytest.mark.parametrize("before", [partition(0, 1), replace(LOST, elr=(2,)), replace(LOST, isr=(0,), leader=0)])
def test_nobody_is_asked_where_somebody_leads_or_is_eligible(before: Partition) -> None:
    image = image_with(3, before, configs=TWO)
    assert to_ask(image) == {}
    assert decide_recover(image, [P0], reports(image, b0=LogEnd(5, 10), b1=LogEnd(5, 10))).writes == ()


@pytest.mark.story("epoch-below-the-logs")
def test_the_longest_log_of_the_newest_epoch_leads_in_an_epoch_above_all() -> None:
    image = image_with(3, LOST, configs=TWO)
    now = recovered(image, b0=LogEnd(4, 90), b1=LogEnd(5, 20))
    assert (now.leader, now.isr, now.elr, now.last_known_elr) == (1, (1,), (), ())
    assert (now.leader_epoch, now.partition_epoch, now.recovering) == (6, 10, True)
    assert now.directories == {1: "directory-1"}
    assert recovered(image, b0=LogEnd(5, 20), b1=LogEnd(5, 20)).leader == 0, "of equal ones the first"
    assert recovered(image, b0=LogEnd(9, 20), b1=LogEnd(5, 20)).leader_epoch == 10
    now = recovered(image, b0=LogEnd(5, 20, latest_epoch=9), b1=LogEnd(5, 21, latest_epoch=5))
    assert (now.leader, now.leader_epoch) == (1, 10), "an epoch without a record does not count, but is not given again"


@pytest.mark.story("witness-has-restarted-since", "report-of-a-former-life")
def test_everybody_who_is_waited_for_has_to_answer_in_the_life_that_was_asked() -> None:
    image = image_with(3, LOST, configs=TWO)
    assert recovered(image, b1=LogEnd(5, 20)).leader == NO_LEADER
    former = {0: LogsReport(99, {P0: LogEnd(5, 10)}), 1: LogsReport(101, {P0: LogEnd(5, 20)})}
    assert decide_recover(image, [P0], former).writes == ()
    (write,) = decide_recover(image, [P0], reports(image, b0=LogEnd(5, 10), b1=LogEnd(5, 20))).writes
    assert {ReliedOn(("broker", b), create_revision=100 + b) for b in (0, 1)} <= set(write.relied_on)


def test_internal_topics_are_recovered_as_others_are_but_never_by_who_happens_to_be_there() -> None:
    def internal(brokers: dict[int, dict[str, Any]], configs: dict[str, str]) -> ClusterImage:
        image = image_with(brokers, LOST)
        topic = Topic("__consumer_offsets", topic_id(1), 1, configs, 150)
        return image.with_changes([Change(("topic", "t"), None), Change(("topic", topic.name), topic)], 201)

    assert to_ask(internal({0: LIVE, 1: LIVE}, TWO)) == {0: [P0], 1: [P0]}
    assert to_ask(internal({0: LIVE}, strategy("aggressive"))) == {}


@pytest.mark.story("operator-elects-who-is-first")
def test_an_operators_word_elects_the_longest_log_there_is() -> None:
    def elected(image: ClusterImage, **ends: LogEnd) -> Partition:
        decision = decide_elect_leaders(image, ElectionType.UNCLEAN, [P0], reports(image, **ends))
        return after(image, decision).partitions[P0]

    image = image_with({0: EMPTY, 1: FENCED, 2: LIVE}, LOST, configs=TWO)
    now = elected(image, b0=LogEnd(-1, 0), b1=LogEnd(9, 9), b2=LogEnd(4, 7))
    assert (now.leader, now.recovering, now.leader_epoch) == (2, True, 6)
    assert elected(image).leader == 2, "where nobody has told, who is there, an empty disk last"
    two = image_with({0: LIVE, 2: LIVE}, LOST, configs=TWO)
    assert elected(two, b0=LogEnd(4, 7), b2=LogEnd(4, 9)).leader == 2, "whoever was in sync last, or comes first"
    eligible = image_with({1: LIVE, 2: LIVE}, replace(LOST, elr=(2,)), configs=TWO)
    assert not elected(eligible, b1=LogEnd(9, 9), b2=LogEnd(4, 7)).recovering
    doubt = restored({2: LIVE}, partition(0, 1, 2))
    assert to_ask(doubt) == {}
    now = elected(doubt, b2=LogEnd(7, 7))
    assert (now.leader, now.leader_epoch, doubt.is_in_doubt(now)) == (2, 7 + EPOCH_GAP, False)


# ---- doubt -----------------------------------------------------------------------------------------------------------


def restored(brokers: dict[int, dict[str, Any]], before: Partition) -> ClusterImage:
    image = image_with(brokers, before, configs=TWO)
    image = image.with_changes([Change(("restored",), Restored(1, 201))], 201)
    return after(image, decide_reconcile(image, needs_election(image)))


@pytest.mark.story("restored-store-is-believed")
def test_what_is_in_doubt_is_led_by_nobody_whatever_the_metadata_says() -> None:
    now = restored({0: LIVE, 1: LIVE, 2: LIVE}, partition(0, 1, 2)).partitions[P0]
    assert (now.leader, now.isr, now.elr, now.last_known_elr) == (NO_LEADER, (), (), ())
    assert (now.leader_epoch, now.restored) == (6, 0)


@pytest.mark.story("second-longest-log-leads", "restored-store-decided-by-one-log")
def test_so_many_logs_have_to_tell_that_one_of_them_has_each_committed_record() -> None:
    assert to_ask(restored({0: LIVE}, partition(0, 1, 2))) == {}
    image = restored({0: FENCED, 1: LIVE, 2: EMPTY}, partition(0, 1, 2))
    assert sorted(to_ask(image)) == [0, 1, 2]
    assert recovered(image, b0=LogEnd(9, 40)).leader == NO_LEADER
    assert recovered(image, b1=LogEnd(9, 40), b2=LogEnd(-1, 0, sound=False)).leader == NO_LEADER
    now = recovered(image, b1=LogEnd(9, 40), b0=LogEnd(8, 90))
    assert (now.leader, now.leader_epoch, now.restored) == (1, 9 + EPOCH_GAP, 1)
    assert recovered(image, b0=LogEnd(9, 50), b1=LogEnd(9, 40)).leader == NO_LEADER, "who has more is fenced still"


def test_where_too_few_logs_are_sound_all_replicas_have_to_answer() -> None:
    image = restored({0: LIVE, 1: LIVE, 2: LIVE}, partition(0, 1, 2))
    torn = {"b0": LogEnd(9, 40, sound=False), "b1": LogEnd(9, 41, sound=False)}
    assert recovered(image, **torn).leader == NO_LEADER
    assert recovered(image, **torn, b2=LogEnd(9, 39)).leader == 1


def test_what_was_settled_after_it_is_like_any_other() -> None:
    image = restored({0: LIVE, 1: LIVE, 2: LIVE}, partition(0, 1, 2))
    image = after(image, decide_recover(image, [P0], reports(image, b0=LogEnd(5, 9), b1=LogEnd(5, 9))))
    assert needs_election(image) == []
    assert to_ask(image) == {}


@pytest.mark.story("restoration-counts-only-once-it-is-declared")
def test_a_broker_that_is_ahead_of_the_store_declares_it_once() -> None:
    image = image_with({0: {"ahead_of": 60}, 1: LIVE}, partition(0, 1))
    assert image.is_behind
    assert after(image, decide_reconcile(image, needs_election(image))).partitions[P0].leader == NO_LEADER, "at once"
    image = image.with_changes([Change(("shard", "group", 3), Shard(1, 101, 7, 150))], 201)
    decision = decide_restored(image)
    assert (decision.response, decision.writes[-1].change.key) == (1, ("restored",))
    image = after(image, decision)
    assert image.producer_ids.next == PRODUCER_ID_GAP
    shard = image.shards["group", 3]
    assert (shard.owner, shard.epoch) == (NO_OWNER, 7 + SHARD_EPOCH_GAP)
    assert not image.is_behind, "the life that it had before is from before the restoration"
    later = image.revision + 1
    again = broker(1, ahead_of=image.revision, mod_revision=later)
    assert image.with_changes([Change(("broker", 1), again)], later).is_behind, "and once more"


def test_a_report_of_a_process_that_has_outlived_a_restore_is_no_newer_than_its_registration() -> None:
    """Otherwise the controller would count restorations until the store has reached the reported revision."""
    outlived = broker(1, ahead_of=1_000_037, mod_revision=60)
    image = image_with({0: LIVE}, partition(0, 1)).with_changes([Change(("broker", 1), outlived)], 60)
    assert image.is_behind
    assert not after(image, decide_restored(image)).is_behind


def test_a_topic_that_is_made_after_it_is_in_no_doubt() -> None:
    from ottla_controller.machines.topics import NewTopic, decide_create_topic

    image = restored({0: LIVE, 1: LIVE, 2: LIVE}, partition(0, 1, 2))
    image = after(image, decide_create_topic(image, NewTopic("new", 1, 3), topic_id=topic_id(7)))
    assert not image.is_in_doubt(image.partitions[PartitionId(topic_id(7), 0)])
