"""Consumer groups: how they migrate, what their regular expressions match, and how large they may be."""

from __future__ import annotations

from tests.regressions.injection import constant, instead_of, skipped
from tests.regressions.story import Story

_COORDINATOR = "ottla_group_coordinator"
_MACHINES = f"{_COORDINATOR}.machines"
_CONSUMER = f"{_MACHINES}.consumer"


class _EndlessSlice:
    is_over = False

    async def rest(self):
        pass


def _forgetting_in_each_decision(original, self, response):
    self._forget_unread()
    return original(self, response)


def _with_a_leader(original, group, topics):
    classic = original(group, topics)
    classic.leader = next(iter(classic.members))
    return classic


async def _in_one_of_few_places(original, self, group_id, shard):
    async with self._few:
        await original(self, group_id, shard)


def _unchecked_by_a_consumer_group(original, shard, group_id, request, now):
    from ottla_group_coordinator.machines.consumer.classic_members import decide_join_of_classic

    group = shard.consumer_group(group_id)
    if group is None:
        return original(shard, group_id, request, now)
    return decide_join_of_classic(group, request, shard.topics, shard.settings, now)


def _as_if_none_was_classic(original, draft, members, *rest):
    original(draft, [each._replace(metadata=each.metadata._replace(classic=None)) for each in members], *rest)


def _said_once(original, draft, former, current, request):
    if request.owned is None and request.epoch > 0 and current.assigned == former.current.assigned:
        return None
    return original(draft, former, current, request)


def _with_targets(original, group, topics):
    from ottla_group_coordinator.machines.migration import named_partitions

    classic = original(group, topics)
    for member in list(classic.members.values()):
        target = named_partitions(group.target(member.member_id), topics)
        classic.members.put(member._replace(assignment=target))
    return classic


def _with_the_hash_of_topics(original, draft, classic, topics):
    from ottla_group_coordinator.machines.consumer.records import GroupEpochKey
    from ottla_group_coordinator.machines.consumer.topics import hash_of

    original(draft, classic, topics)
    topics_hash = hash_of(classic.subscribed_topics(), topics)
    draft.write(GroupEpochKey(classic.group_id), draft.group.group_epoch._replace(topics_hash=topics_hash))


def _kept(original, self, topic):
    from ottla_core.event_loop.steps import finished

    if topic.id not in self._hashes:
        self._hashes[topic.id] = finished(self._hash(topic))
    return original(self, topic)


def _without_acls(original, self, old, new):
    version = self._matches_version
    original(self, old, new)
    if old.topic_names is new.topic_names:
        self._matches_version = version


STORIES = (
    Story(
        "rebalance-of-a-downgrade-is-forgotten",
        "A coordinator went down after a downgrade: its successor began no rebalance, and partitions had no reader",
        instead_of(f"{_MACHINES}.migration:_classic", _with_a_leader),
    ),
    Story(
        "older-release-leaves-a-consumer-group",
        "After a rollback and an upgrade a group had two protocols: commits of its members were refused without end",
        instead_of(
            f"{_MACHINES}.shard:GroupShard.consumer_group",
            lambda original, self, group_id: self._consumers.get(group_id),
        ),
    ),
    Story(
        "classic-member-with-a-name-too-long",
        "A classic member joined a consumer group with a name that no record holds: each later downgrade failed",
        instead_of(f"{_MACHINES}.dispatch:decide_join_request", _unchecked_by_a_consumer_group),
    ),
    Story(
        "classic-member-with-any-session-timeout",
        "A consumer group took classic members with session timeouts that no classic group takes",
        instead_of(f"{_MACHINES}.dispatch:decide_join_request", _unchecked_by_a_consumer_group),
    ),
    Story(
        "refused-downgrade-is-tried-again-and-again",
        "A downgrade that was too large was tried again at each join and leave of a classic member, 0.2 s each time",
        instead_of(f"{_CONSUMER}.departure:remove", _as_if_none_was_classic),
    ),
    Story(
        "downgrade-larger-than-a-batch",
        "The end of a session and the downgrade that follows did not go into one batch: the member never went",
        instead_of(
            f"{_CONSUMER}.draft:Draft.size_with",
            lambda original, self, entries: original(self, entries) - self.size_bytes,
        ),
    ),
    Story(
        "upgrade-larger-than-a-batch",
        "A join whose upgrade fills a batch failed with an unexpected error, which does not say what to do",
        skipped(f"{_MACHINES}.dispatch:check_upgrade_size"),
    ),
    Story(
        "downgrade-writes-targets",
        "A downgrade wrote the target of each member: an upgrade soon after gave others what the members still read",
        instead_of(f"{_MACHINES}.migration:_classic", _with_targets),
    ),
    Story(
        "upgrade-forgets-a-rebalance",
        "A static member upgraded its group during a rebalance: partitions that nobody had stayed without a reader",
        instead_of(f"{_MACHINES}.migration:upgrade", _with_the_hash_of_topics),
    ),
    Story(
        "classic-members-join-without-a-pause",
        "While a large group's target was being made, its classic members joined again and again, and read nothing",
        instead_of(
            f"{_CONSUMER}.classic_members:_has_to_join",
            lambda original, group, member: original(group, member) or group.epoch > member.epoch,
        ),
    ),
    Story(
        "static-member-is-kept-out-of-its-full-group",
        "A static member that restarted could not return to its place in a full consumer group",
        instead_of(
            f"{_CONSUMER}.heartbeat:check_room",
            lambda original, group, member_id, instance_id, settings: original(group, member_id, None, settings),
        ),
    ),
    Story(
        "new-topic-without-readers",
        "A group never heard of a new topic if another group's decision was the first that needed the topic's hash",
        instead_of(f"{_CONSUMER}.topics:ImageTopics.topic_hash", _kept),
    ),
    Story(
        "matches-of-former-acls",
        "What a regular expression matched stayed as it was when ACLs changed",
        instead_of(f"{_CONSUMER}.topics:ImageTopics.on_image", _without_acls),
    ),
    Story(
        "failed-refresh-is-not-repeated",
        "A refresh of a group's matches failed and was not repeated: new topics had no reader",
        instead_of(
            f"{_CONSUMER}.regexes:is_refresh_due",
            lambda original, group, *rest: group.refresh_asked.at <= group.refreshed.at and original(group, *rest),
        ),
    ),
    Story(
        "offsets-expire-before-there-are-matches",
        "A group with a regular expression started again, and its old offsets expired before the topics were matched",
        instead_of(
            f"{_CONSUMER}.group:ConsumerGroup.reading",
            lambda original, self: original(self)._replace(topics=self.subscribed_topics()),
        ),
    ),
    Story(
        "one-expression-takes-others-along",
        "The matches of one regular expression went into no record, and the group's other ones got no matches either",
        skipped(f"{_COORDINATOR}.regex_resolver:check_matches"),
    ),
    Story(
        "matches-that-vanish-in-one-turn",
        "All matches of 1,000 regular expressions vanished in one turn of the loop: 0.7 s for a million names",
        skipped(f"{_COORDINATOR}.regex_resolver:_former_names", 0),
    ),
    Story(
        "matches-without-a-member",
        "A static member came back under the id of another one, whose matches stayed in the group for ever",
        skipped(f"{_CONSUMER}.draft:Draft._forget_unread"),
    ),
    Story(
        "classic-heartbeat-writes",
        "Many members with long expressions left together: a classic member's heartbeat then had its shard given up",
        instead_of(f"{_CONSUMER}.draft:Draft.decision", _forgetting_in_each_decision),
    ),
    Story(
        "costly-expression-stalls-a-coordinator",
        "Regular expressions that take 10 ms for each topic's name held up all groups of a coordinator",
        constant(f"{_COORDINATOR}.regex_resolver:Slice", _EndlessSlice),
    ),
    Story(
        "long-expression-stalls-a-coordinator",
        "A regular expression of 32 KB took a second to compile and held up all groups of a coordinator",
        constant(f"{_CONSUMER}.regexes:LONGEST_BYTES", 1 << 40),
    ),
    Story(
        "large-target-is-made-in-one-turn",
        "The target of 2,000 members that read 2,000 topics was made in one turn of the loop, which took seconds",
        skipped(f"{_CONSUMER}.target:_is_small", True),
    ),
    Story(
        "late-shard-holds-up-targets",
        "Large groups of a shard whose log was late kept those of all other shards from getting their targets",
        instead_of(f"{_COORDINATOR}.target_maker:TargetMaker._make", _in_one_of_few_places),
    ),
    Story(
        "assignment-whose-response-was-lost",
        "librdkafka dropped a late response and did not hear its assignment again: partitions stayed without a reader",
        instead_of(f"{_CONSUMER}.heartbeat:_assignment_to_send", _said_once),
    ),
    Story(
        "revocation-of-partitions-that-never-arrived",
        "librdkafka was to give up a partition whose assignment it never got, and reported nothing: the others waited",
        constant(f"{_CONSUMER}.heartbeat:_former_due_since", lambda *_: None),
    ),
    Story(
        "report-hidden-by-a-late-join",
        "A member whose report was hidden by a late join got its former assignment, which it had, until it was evicted",
        constant(f"{_CONSUMER}.heartbeat:_FORMER_S", 1e9),
        constant(f"{_CONSUMER}.heartbeat:_FORMER_SHARE", 1.0),
    ),
    Story(
        "target-larger-than-a-batch",
        "A member that reads 200,000 partitions was written with others in one batch, which the log refused for ever",
        instead_of(
            f"{_CONSUMER}.draft:Draft.write_within",
            lambda original, self, most_bytes, *rest: original(self, 4 * most_bytes, *rest),
        ),
    ),
    Story(
        "requests-lost-as-their-work-ends",
        "A large group that asked for its next target as the last one was being written had to wait for 10 s",
        instead_of(
            f"{_COORDINATOR}.keyed_work:KeyedWork.ask",
            lambda original, self, key, asked: None if key in self._tasks else original(self, key, asked),
        ),
    ),
    Story(
        "large-consumer-group-in-one-message",
        "All members of a consumer group were described in one message: 13 MB for 1,000 members with 1,000 topics",
        instead_of(
            f"{_COORDINATOR}.consumer_messages:described_consumers",
            lambda original, group, settings, after, most_bytes: original(group, settings, after, 1 << 40),
        ),
    ),
)
