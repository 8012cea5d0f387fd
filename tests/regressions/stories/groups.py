"""Group coordinators, and what Kafka's clients are told of groups."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

from tests.regressions.injection import constant, instead_of, skipped
from tests.regressions.story import Story

_COORDINATOR = "ottla_group_coordinator"
_MACHINES = f"{_COORDINATOR}.machines"
_OWNER = "ottla_core.coordination.owner:Owner"


class _AnyTopics:
    """Has every topic, with an id that is not known."""

    def __getitem__(self, name):
        return SimpleNamespace(id=None, partition_count=2**31)

    get = __getitem__


def _without_looking_at_topics(original, group, identity, generation, requested, topics, *rest, **named):
    unnamed = [commit._replace(topic_id=None) for commit in requested]
    return original(group, identity, generation, unnamed, _AnyTopics(), *rest, **named)


def _as_a_commit_without_a_transaction(original, group, identity, generation, now, *, in_transaction):
    return original(group, identity, generation, now, in_transaction=in_transaction and generation < 0)


def _late_after_a_third(original, self, call, now):
    original(self, call, now)
    self._late_at = now.at + min(self.limits.append_s, self.limits.unproved_s)


def _as_if_heartbeats_were_missed(original, step, member, kind, cause):
    if cause.startswith("waited"):
        cause = f"sent no heartbeat for {member.session_timeout_ms} ms (session.timeout.ms)"
    original(step, member, kind, cause)


def _looking_at_all(original, self, topics, gone):
    return original(self, topics, None)


def _told_of_all(original, step, member, *, skip_assignment=False):
    leader = step.group.leader
    step.group.leader = member.member_id
    told_of_all = original(step, member, skip_assignment=skip_assignment)
    step.group.leader = leader
    return replace(told_of_all, leader=leader, members=told_of_all.members if member.member_id == leader else ())


def _without_the_coordinator(original, kind, items, columns=(), name="name"):
    return original(kind, items, tuple(each for each in columns if each != "coordinator"), name)


async def _whatever_is_assigned(original, members, topics, time_slice):
    from ottla_core.kafka_formats.consumer_protocol import decode_assignment

    return {p: member for member in members for p in decode_assignment(member.assignment).partitions}


def _readers_of_all(original, members):
    from ottla_core.kafka_formats.consumer_protocol import decode_assignment

    return {p: member.member_id for member in members for p in decode_assignment(member.assignment).partitions}


def _copied_for_each(original, self, held):
    self._former_readers = None
    original(self, held)


STORIES = (
    Story(
        "assignment-is-expanded-on-the-loop",
        "An assignment of 360 KB to partitions that did not exist cost 2 s of CPU at each question about the lag",
        instead_of(f"{_COORDINATOR}.responses:assigned", _whatever_is_assigned),
    ),
    Story(
        "lag-is-measured-for-each-who-asks",
        "A lag was measured anew for each client that asked, and questions of 40 bytes kept a coordinator busy",
        instead_of(
            f"{_COORDINATOR}.shared_answers:SharedAnswers.of",
            lambda original, self, key, question: self._find(question),
        ),
    ),
    Story(
        "small-calls-with-large-answers",
        "A client got as many answers of 10 MB to private calls of 40 bytes as it could ask for",
        skipped("ottla_broker.kafka.answer_budget:AnswerBudget.pay"),
    ),
    Story(
        "history-reads-all-that-is-assigned",
        "Each rebalance went through all that a leader had assigned in one turn, and kept 20 MB of it for a group",
        instead_of(f"{_MACHINES}.rebalance:readers", _readers_of_all),
    ),
    Story(
        "members-that-go-at-once-are-remembered-one-by-one",
        "When 5,000 members were evicted at once, what they had read was copied 5,000 times: a turn of 0.3 s",
        instead_of(f"{_MACHINES}.transition:Transition.remember", _copied_for_each),
    ),
    Story(
        "subscriptions-are-read-however-long",
        "A deletion of offsets read all topics of all subscriptions, of a megabyte together, in one turn: 0.3 s",
        instead_of(f"{_MACHINES}.group:decode_subscription", lambda original, data, *, most: original(data)),
    ),
    Story(
        "member-ids-without-a-cap",
        "A client that joined over and over without the id that it was given made a coordinator remember all of them",
        constant("ottla_group_coordinator.machines.membership:_MOST_PENDING", 1 << 40),
    ),
    Story(
        "group-skips-what-is-new-in-a-partition",
        "A group that reads from the latest record skipped the first records of a partition that was added later",
        skipped("ottla.consumer.group.start_positions:StartPositionFinder._begin", {}),
        constant("ottla.consumer.group.start_positions:EARLIEST_TIMESTAMP", -1),
        skipped("ottla_group_coordinator.machines.shard:GroupShard.committed_in", ()),
    ),
    Story(
        "partition-without-a-leader-stops-the-others",
        "A new member of a group read nothing while any of its partitions had neither a commit nor a leader",
        instead_of("ottla.machines.metadata:ClusterView.is_offline", lambda original, self, partition: False),
    ),
    Story(
        "partition-without-a-leader-is-read-again",
        "A group that began at the end read a whole partition that had no leader at the time, once it had one",
        skipped("ottla.consumer.group.start_positions:StartPositionFinder._note", None),
    ),
    Story(
        "group-history-without-a-bound",
        "A coordinator kept 200 events of each group for as long as the group was known: 442 MB for 10,000 groups",
        constant("ottla_group_coordinator.machines.history:MOST_BYTES", 1 << 40),
    ),
    Story(
        "each-deletion-scans-all-offsets",
        "The end of any topic made each shard look through all offsets of all its groups in one turn",
        instead_of(f"{_MACHINES}.shard:GroupShard.forget_topics", _looking_at_all),
    ),
    Story(
        "series-missing-at-slow-scrapes",
        "A scrape every 70 s never saw the series of groups and their lag: what the last one had set off was too old",
        constant(f"{_COORDINATOR}.scraped_metrics:_WAIT_S", 0.0),
    ),
    Story(
        "rebalance-that-costs-members-squared",
        "The tuple of all members was built for each of them: a rebalance of 4,000 stopped every group for 13.7 s",
        instead_of(f"{_MACHINES}.rebalance:joined", _told_of_all),
    ),
    Story(
        "members-of-a-large-group-are-answered-in-one-turn",
        "The end of a rebalance answered all members in one turn: with 5,000, it blocked all other groups for 0.14 s",
        constant("ottla_core.coordination.held_shard:_RESPONSES_A_TURN", 1 << 40),
    ),
    Story(
        "static-member-back-before-it-gave-up",
        "A static member that ended while it gave partitions up came back without a rebalance: no member read them",
        skipped(f"{_MACHINES}.membership:_was_to_give_up", False),
    ),
    Story(
        "transaction-refused-while-a-rebalance-completes",
        "Offsets of a transaction were refused between JoinGroup and SyncGroup, where Kafka takes them: it was aborted",
        instead_of(f"{_MACHINES}.offsets:_check_commit", _as_a_commit_without_a_transaction),
    ),
    Story(
        "offsets-of-a-deleted-topic",
        "A member committed after its topic was deleted; the next topic of that name was read from that offset on",
        instead_of(f"{_MACHINES}.offsets:decide_commit", _without_looking_at_topics),
    ),
    Story(
        "offsets-of-a-deleted-topic-at-takeover",
        "A topic was deleted while nobody owned the shard: a living group's offsets in it stayed for ever",
        skipped(f"{_MACHINES}.offsets:is_of_gone", False),
    ),
    Story(
        "damaged-batch-of-a-shard",
        "A shard with a damaged batch in __consumer_offsets was loaded for ever, and neither log nor metric said so",
        skipped(f"{_OWNER}._report"),
        skipped("ottla_cli.commands.doctor:_shard_text", ()),
    ),
    Story(
        "who-coordinates-a-group",
        "`ottla group ls`, `show` and `explain` did not say which coordinator owns a group",
        instead_of("ottla_cli.commands.group:Listing", _without_the_coordinator),
        instead_of(
            "ottla_cli.group_lag:as_text", lambda original, item: re.sub(r", coordinator \d+", "", original(item))
        ),
    ),
    Story(
        "configs-of-groups-without-effect",
        "`ottla config set group.initial.rebalance.delay.ms=…` was stored and shown, and had no effect",
        instead_of(f"{_COORDINATOR}.config:GroupCoordinatorConfig.with_cluster", lambda original, self, configs: self),
    ),
    Story(
        "commit-timeout-above-a-third-of-a-session",
        "offsets.commit.timeout.ms had no effect above a third of the shortest session: commits failed after 2 s",
        instead_of(f"{_OWNER}._begin", _late_after_a_third),
    ),
    Story(
        "expiry-listed-all-groups-again",
        "A look for what had expired listed and sorted all groups of the shard for each thousand of them",
        instead_of(
            f"{_MACHINES}.shard:GroupShard.remember",
            lambda original, self, change: None if type(change).__name__ == "Looked" else original(self, change),
        ),
    ),
    Story(
        "a-deposed-coordinator-ended-a-newer-transaction",
        "A shard of groups knew only the last 2,000 ended producers: a deposed coordinator's late marker ended a newer "
        "transaction of any other",
        constant(f"{_MACHINES}.ended_producers:MOST", 2_000),
    ),
    Story(
        "round-of-costly-decisions",
        "500 members joined a group that read 10,000 topics: its coordinator decided all of them in one turn of 3 s",
        constant("ottla_core.coordination.append_round:ROUND_S", float("inf")),
    ),
    Story(
        "waited-and-told-of-heartbeats",
        "A member that had waited 300 s in its first join was evicted, and the cause named was a missed heartbeat",
        instead_of(f"{_MACHINES}.membership:drop", _as_if_heartbeats_were_missed),
    ),
)
