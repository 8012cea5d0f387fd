"""The judge of owners: clean histories pass, and each rule is found broken where it is."""

from __future__ import annotations

from typing import Final

import pytest
from tests.world.fibers import World
from tests.world.findings import Findings
from tests.world.owners import Owners

G: Final = "g"
P: Final = 3


class Story:
    """What members say, second by second. Each operation is one second after the one before it."""

    def __init__(self) -> None:
        self.world = World(1)
        self.findings = Findings(self.world.note)
        self.owners = Owners(self.world, self.findings)

    def take(self, member: str, epoch: int) -> Story:
        self.world.now += 1
        self.owners.tell("assigned", G, member, partitions=[P])
        self.owners.take(G, member, [P], epoch)
        return self

    def go_on(self, member: str, epoch: int) -> Story:
        self.world.now += 1
        self.owners.take(G, member, [P], epoch)
        return self

    def give_up(self, member: str) -> Story:
        self.world.now += 1
        self.owners.tell("revoked", G, member, partitions=[P])
        return self

    def expire(self, member: str, at: float) -> Story:
        self.owners.tell("paused", G, member, at)
        return self

    def commit(self, member: str, epoch: int, offset: int, *, is_accepted: bool = True) -> Story:
        self.world.now += 1
        commits = self.owners.begin_commit(G, member, epoch, {P: offset})
        self.world.now += 0.5
        self.owners.end_commit(G, member, commits, is_accepted=is_accepted)
        return self

    def violations(self) -> list[str]:
        self.owners.judge()
        return self.findings.violations


def test_a_partition_that_changes_hands_in_order_is_no_violation() -> None:
    story = Story().take("a", 1).commit("a", 1, 10).go_on("a", 2).give_up("a").take("b", 3).commit("b", 3, 11)
    assert story.violations() == []


def test_two_owners_at_one_time_are_found() -> None:
    assert Story().take("a", 1).take("b", 2).violations() == ["double_owners: a and b had partition 3 of g at one time"]


def test_an_owner_whose_session_could_have_ended_before_is_excused() -> None:
    assert Story().take("a", 1).take("b", 2).expire("a", 1.5).violations() == []


def test_an_owner_whose_session_could_have_ended_only_later_is_not_excused() -> None:
    assert Story().take("a", 1).take("b", 2).expire("a", 2.5).violations()


def test_two_owners_in_one_epoch_are_found_however_far_apart_they_are() -> None:
    story = Story().take("a", 1).go_on("a", 4).give_up("a").take("b", 4)
    assert story.violations() == ["partition 3 of g has two owners in epoch 4: a and b"]


def test_an_owner_that_goes_on_in_the_epoch_of_a_later_one_is_found() -> None:
    assert Story().take("a", 1).expire("a", 1.5).take("b", 2).go_on("a", 2).violations()


def test_a_commit_that_was_sent_after_another_owner_took_the_partition_is_found() -> None:
    story = Story().take("a", 1).expire("a", 1.5).take("b", 2).commit("a", 1, 10)
    assert story.violations() == ["old_epoch_commits: a committed partition 3 of g 1.000 s after b had it"]


def test_a_commit_of_an_expired_owner_that_is_refused_is_no_violation() -> None:
    assert Story().take("a", 1).expire("a", 1.5).take("b", 2).commit("a", 1, 10, is_accepted=False).violations() == []


def test_a_commit_of_a_lower_epoch_after_one_of_a_higher_epoch_is_found() -> None:
    story = Story().take("a", 1).give_up("a").take("b", 2).commit("b", 2, 10).commit("a", 1, 11)
    assert story.violations() == ["a has committed partition 3 of g in epoch 1, after b had committed it in epoch 2"]


@pytest.mark.parametrize(("offset", "is_right"), [(10, False), (11, True), (12, False), (-1, False)])
def test_the_committed_offset_is_that_of_the_last_commit(offset: int, *, is_right: bool) -> None:
    story = Story().take("a", 1).commit("a", 1, 10).commit("a", 1, 11).commit("a", 1, 12, is_accepted=False)
    story.owners.judge_committed(G, P, offset)
    assert (story.findings.violations == []) is is_right


def test_a_commit_whose_fate_is_unknown_may_be_the_committed_one() -> None:
    story = Story().take("a", 1).commit("a", 1, 10)
    story.owners.begin_commit(G, "a", 1, {P: 11})
    for offset in (10, 11):
        story.owners.judge_committed(G, P, offset)
    assert story.findings.violations == []
