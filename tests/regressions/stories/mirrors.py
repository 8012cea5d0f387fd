"""Copies of what is in another cluster."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tests.regressions.injection import constant, instead_of, skipped
from tests.regressions.story import Story


def _time_instead_of_none(original, self, offset, timestamp_ms, key, value, headers):
    return original(self, offset, max(0, timestamp_ms), key, value, headers)


def _each_alone(original, batches, joins):
    return ([each] for each in batches)


def _one_at_a_time(original, self):
    with self._imports.changed:
        taken = [self._waiting.popleft()] if self._waiting else []
        self._is_at_work = bool(taken)
        return taken


def _by_syncs_alone(original, committed, present, names, ways, known):
    return original(committed, present, names, ways, {})


def _of_no_copy(original, self, source, last):
    return False


def _none_at_rest(original, self, group):
    return []


def _ended_before_its_first_record(original, self, partition, fetched):
    original(self, partition, fetched)
    if partition.sent_position is None:
        partition.end(fetched)


def _wherever_it_is(original, self):
    return self.after is not None and self.after != self.had


def _as_far_as_it_was_read(original, flow):
    from ottla_core.errors import OttlaError

    with suppress(OttlaError):
        original(flow)


def _wherever_the_group_is(original, copy, known, *, compares):
    start = original(copy, known, compares=compares)
    return start if known.committed is None else start._replace(position=known.committed)


def _waiting_for_its_syncs(original, self):
    original(self)
    for sync in self._commit.syncs:
        sync.result(30.0)


def _whatever_it_takes(original, self):
    self._producer.close()


def _by_name_alone(original, self, batch, topic, partition, *, topic_id):
    return original(self, batch, topic, partition, topic_id=None)


def _nothing_due(original, self):
    return {}


def _none_replaced(original, self, *, with_source):
    pass


def _without_syncs(original, copy, known, *, compares):
    return original(copy, known._replace(synced=None), compares=compares)


def _sent_and_not_awaited(original, self, partitions, timeout):
    self.send_syncs(partitions)


def _without_configs(original, self, change, source, target):
    self._alter = lambda *arguments: None
    original(self, change, source, target)


def _by_the_targets_default(original, self, target):
    self._flow = replace(self._flow, replicas=None)
    original(self, target)


STORIES = (
    Story(
        "stuck-copy-fills-the-buffer",
        "A copy that took nothing filled the buffer that all copies share, and its mirror copied nothing more",
        skipped("ottla_mirror.copying.copier:Copier._leave_room"),
    ),
    Story(
        "refused-partition-restarts-a-flow",
        "One partition that the source refused to return restarted its mirror's flow again and again",
        instead_of("ottla_mirror.copying.copier:Copier._unreadable", lambda original, self, error: None),
    ),
    Story(
        "leaderless-copy-delays-all",
        "A copy without a leader kept all partitions of a flow from starting",
        instead_of("ottla_mirror.copying.start_finder:_found", lambda original, end, copy: end or 0),
    ),
    Story(
        "copy-recreated-at-once",
        "A deleted copy was recreated before its copiers noticed, got a batch in flight and counted as foreign",
        instead_of("ottla_mirror.syncing.topic_sync:TopicSync._due", lambda original, self, changes: list(changes)),
    ),
    Story(
        "commit-behind-a-leaderless-partition",
        "An exactly-once mirror waited up to a day, silently, for offset syncs that the target did not take",
        instead_of("ottla_mirror.copying.position_commits:PositionCommits.write_syncs", _sent_and_not_awaited),
    ),
    Story(
        "separator-in-an-alias",
        "Two flows whose separator was in their clusters' aliases copied each other's copies for ever",
        skipped("ottla_mirror.machines.flows:_check_separators"),
    ),
    Story(
        "copy-without-its-retention",
        "A copy whose topic had one config that the target rejects was created without any, so records expired early",
        instead_of("ottla_mirror.syncing.topic_sync:TopicSync._make", _without_configs),
    ),
    Story(
        "larger-batches-taken-back",
        "A mirror unset the max.message.bytes that an operator had raised on a copy, as its status had said to",
        constant("ottla_mirror.syncing.topic_sync:_MOST_BYTES", "none"),
    ),
    Story(
        "own-topics-on-one-broker",
        "A flow's own topics had the target's default of replicas, whatever `replicas` was, in Apache Kafka one",
        instead_of("ottla_mirror.syncing.topic_sync:TopicSync._see_to_own", _by_the_targets_default),
    ),
    Story(
        "late-commit-holds-a-copy-up",
        "A mirror's late commit landed in a copy that had been created again, and nothing was ever copied into it",
        instead_of("ottla_mirror.machines.starts:start_of", _wherever_the_group_is),
    ),
    Story(
        "mirror-away-for-a-week-copied-twice",
        "A mirror that was away for longer than groups' offsets are kept copied everything again, also exactly once",
        instead_of("ottla_mirror.machines.starts:start_of", _without_syncs),
    ),
    Story(
        "record-without-a-time-copied-to-1970",
        "A record without a timestamp that was encoded again got the time 0 in the copy, and retention took it at once",
        instead_of("ottla_mirror.machines.encoding:EncodedBatch.append", _time_instead_of_none),
    ),
    Story(
        "mirror-slower-than-small-batches",
        "A mirror wrote each small batch by itself, five at a time, and was slower than a producer of single records",
        instead_of("ottla_mirror.machines.copying:_groups", _each_alone),
    ),
    Story(
        "import-of-each-small-block",
        "A `same_offsets` mirror imported each fetched block by a call of its own, and fell behind small batches",
        instead_of("ottla_mirror.copying.importer:Importer._take", _one_at_a_time),
    ),
    Story(
        "planned-failover-that-moved-nothing",
        "Of a partition that was quiet for longer than offset syncs were kept, a planned failover moved nothing",
        instead_of("ottla_mirror.machines.group_plan:to_target", _by_syncs_alone),
    ),
    Story(
        "failback-that-led-a-group-back",
        "A failback committed for every group, also for one that had never left the source and was further there",
        instead_of("ottla_mirror.machines.group_plan:Move.is_due", _wherever_it_is),
    ),
    Story(
        "failover-by-a-map-read-by-half",
        "A failover whose mirror had not read all offset syncs in time translated by those that it had read",
        instead_of("ottla_mirror.failover:_learn_syncs", _as_far_as_it_was_read),
    ),
    Story(
        "offset-syncs-that-only-grew",
        "A flow's offset syncs, which are compacted, were kept for ever, also of records and topics long gone",
        instead_of("ottla_mirror.machines.sync_retention:Retiring.due", _nothing_due),
    ),
    Story(
        "group-moved-by-a-former-topic",
        "A group was moved in a topic that had been created again, by what was known of the former topic's offsets",
        instead_of("ottla_mirror.groups.group_offsets:GroupOffsets.look_at_topics", _none_replaced),
    ),
    Story(
        "copy-deleted-while-its-flow-runs",
        "A copy that was deleted while its flow ran was created again, and lacked what had been copied before",
        instead_of("ottla_mirror.clusters.writer:Writer.send_batch", _by_name_alone),
    ),
    Story(
        "mirrors-of-one-name-fence-each-other",
        "Two mirrors with one node id fenced each other every few seconds, for ever, and copied some records twice",
        skipped("ottla_mirror.clusters.member:Member.is_replaced", False),
    ),
    Story(
        "writer-that-closed-for-a-day",
        "A flow that failed into a full disk waited in its writer's close for its delivery, a day, and said nothing",
        instead_of("ottla_mirror.clusters.writer:Writer.close", _whatever_it_takes),
    ),
    Story(
        "trouble-behind-a-commit",
        "A mirror's commit waited for its offset syncs, so that of a full target nothing was shown for 30 seconds",
        instead_of("ottla_mirror.copying.position_commits:PositionCommits.begin", _waiting_for_its_syncs),
    ),
    Story(
        "resting-group-led-by-thinned-syncs",
        "A group that had rested until offset syncs were compacted was moved up to 4,096 records before its checkpoint",
        instead_of("ottla_mirror.machines.group_plan:Ways._fits", _of_no_copy),
    ),
    Story(
        "groups-at-rest-left-behind",
        "A failover and a failback moved nothing of a group whose committed offsets had expired, and did not name it",
        instead_of("ottla_mirror.groups.group_offsets:GroupOffsets._living", _none_at_rest),
    ),
    Story(
        "copy-of-a-log-that-begins-aborted",
        "A same_offsets copy stood still for good where the source began with an aborted transaction that came alone",
        instead_of("ottla_mirror.copying.same_offsets:SameOffsetsCopier._send", _ended_before_its_first_record),
    ),
)
