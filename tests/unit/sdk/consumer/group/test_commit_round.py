"""Commits that are sent together, of which some fail: what is sent again, and which of them have an outcome."""

from __future__ import annotations

from ottla.client.offsets import OffsetAndMetadata
from ottla.consumer.group.commit_round import Commit, CommitRound
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.membership import MemberIdentity
from ottla_core.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WHO = MemberIdentity("member", 1)
LOADING = OttlaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it loads")


def commit(offsets: dict[TopicPartition, int], *, retries: bool = False) -> Commit:
    return Commit(WHO, {p: OffsetAndMetadata(offset) for p, offset in offsets.items()}, {}, retries, None)


def left(sent: CommitRound) -> dict[TopicPartition, int]:
    return {partition: each.offset for partition, each in sent.left.items()}


def is_final(waiting: Commit, error: OttlaError) -> bool:
    return not waiting.retries


def test_the_newest_offset_of_each_partition_is_sent() -> None:
    sent = CommitRound([commit({A: 9, B: 1}), commit({A: 5})])
    assert left(sent) == {A: 5, B: 1}
    assert [error for _, error in sent.settle({}, is_final)] == [None, None]
    assert not sent.pending


def test_a_partition_that_was_committed_is_not_sent_again_with_the_older_offset_of_a_commit_that_is_tried_again() -> (
    None
):
    older, newer = commit({A: 1, B: 2}, retries=True), commit({A: 3})
    sent = CommitRound([older, newer])
    assert list(sent.settle({B: LOADING}, is_final)) == [(newer, None)]
    assert (sent.pending, left(sent)) == ([older], {B: 2})
    assert list(sent.settle({}, is_final)) == [(older, None)]


def test_what_only_failed_commits_wanted_is_not_sent_again() -> None:
    failing, waiting = commit({A: 1}), commit({B: 2}, retries=True)
    sent = CommitRound([failing, waiting])
    assert list(sent.settle({A: LOADING, B: LOADING}, is_final)) == [(failing, LOADING)]
    assert left(sent) == {B: 2}


def test_a_commit_that_nobody_asks_about_takes_over_a_later_one_of_the_same_member() -> None:
    first = commit({A: 1})
    assert first.absorb(commit({A: 2, B: 3}))
    assert {p: each.offset for p, each in first.offsets.items()} == {A: 2, B: 3}
    assert not first.absorb(commit({A: 4}, retries=True))
    other = Commit(MemberIdentity("member", 2), {A: OffsetAndMetadata(4)}, {}, False, None)
    assert not first.absorb(other)


def test_an_attempt_without_an_answer_does_not_replace_the_coordinators_last_answer() -> None:
    lost = OttlaError(ErrorCode.NETWORK_EXCEPTION, "the connection ended")
    waiting = commit({A: 1}, retries=True)
    sent = CommitRound([waiting])
    for error, answer in ((lost, None), (LOADING, LOADING), (lost, LOADING)):
        assert list(sent.settle({A: error}, is_final)) == []
        assert (waiting.last_failure, waiting.last_answer) == (error, answer)
